// All ranks of one call, executed by one thread in turn over the fake fabric: a run that repeats exactly.
#pragma once

#include <base/names.hpp>
#include <executor/execution.hpp>
#include <memory>
#include <schedule/registry.hpp>
#include <string>
#include <transport/fake.hpp>
#include <vector>

#include "collective_case.hpp"

namespace peal::test {

class FakeRun {
 public:
  struct Options {
    transport::FakeOptions fabric;
    schedule::Protocol protocol = schedule::Protocol::staged;
    std::uint64_t message_bytes = 256 * 1024;
    bool keeps_log = false;
  };

  /// `request` without in_place: every rank's is the case's. The executor's plans are made as a communicator makes them.
  FakeRun(const schedule::Algorithm& algorithm, schedule::Request request, const CollectiveCase& c, const Options& options)
      : case_(c), fabric_(c.ranks, options.fabric), logs_(static_cast<std::size_t>(c.ranks)) {
    parts_.reserve(static_cast<std::size_t>(c.ranks));
    for (int r = 0; r < c.ranks; ++r) {
      parts_.push_back(std::make_unique<Part>(c, r));
      Part& part = *parts_.back();
      request.in_place = c.is_in_place_at(r);
      auto made = schedule::make_schedule(algorithm, request);
      if (!made) {
        refused_ = made.error().message;
        return;
      }
      part.schedule = std::move(*made);
      make_plan(part, options, r);
      part.execution = std::make_unique<executor::Execution>(fabric_.transport(r), r, c.ranks);
      if (options.keeps_log) part.execution->log_to(&logs_[static_cast<std::size_t>(r)]);
    }
  }

  const std::string& refused() const { return refused_; }
  transport::FakeFabric& fabric() { return fabric_; }
  executor::Execution& execution(int rank) { return *parts_[static_cast<std::size_t>(rank)]->execution; }
  const schedule::Program& program(int rank) const { return parts_[static_cast<std::size_t>(rank)]->plan.program; }
  const executor::Binding& binding(int rank) const { return parts_[static_cast<std::size_t>(rank)]->binding; }
  const std::vector<executor::Completion>& log(int rank) const { return logs_[static_cast<std::size_t>(rank)]; }

  void start(std::uint32_t sequence = 1) {
    for (int r = 0; r < case_.ranks; ++r) {
      Part& part = *parts_[static_cast<std::size_t>(r)];
      part.call.sequence = sequence;
      part.tag = executor::to_tag(part.call);
      part.execution->start(part.plan, part.binding, part.operands, part.call, part.tag);
    }
  }
  /// One turn of every rank; true when anything moved.
  bool turn() {
    bool moved = false;
    for (auto& part : parts_) moved = part->execution->progress() || moved;
    if (!moved) fabric_.tick();
    return moved;
  }
  bool done() const {
    for (const auto& part : parts_)
      if (!part->execution->done()) return false;
    return true;
  }
  /// Empty when all ranks ended with the right bytes.
  std::string finish(int most_turns = 200'000) {
    for (int i = 0; i < most_turns && !done(); ++i) {
      turn();
      for (const auto& part : parts_)
        if (part->execution->failed()) return part->execution->failure().message;
    }
    if (!done()) return "did not end";
    for (std::size_t r = 0; r < parts_.size(); ++r)
      if (!parts_[r]->buffers.is_right()) return "wrong bytes on rank " + std::to_string(r);
    if (fabric_.in_flight() != 0) return "messages are left over";
    return {};
  }

 private:
  struct Part {
    Part(const CollectiveCase& c, int rank) : buffers(c, rank) {}
    RankBuffers buffers;
    std::unique_ptr<executor::Execution> execution;
    schedule::Schedule schedule;
    executor::Plan plan;
    executor::Binding binding;
    executor::Operands operands;
    std::vector<std::byte> scratch;
    executor::CallSignature call;
    transport::Tag tag;
    std::array<std::vector<std::uint64_t>, 4> counts;
  };

  void make_plan(Part& part, const Options& options, int rank) {
    executor::Plan& plan = part.plan;
    plan.algorithm = part.schedule.name;
    plan.protocol = options.protocol;
    plan.layouts = part.schedule.layouts;
    plan.pieced = part.schedule.pieced;
    plan.chunks_a_message = plan.pieced ? schedule::widest_message(part.schedule) : 1;
    plan.message_bytes = options.message_bytes;
    plan.is_cut_by_transfer = has_private_counts(case_.collective);
    plan.program = schedule::program_for(part.schedule, rank);
    executor::Shape shape;
    shape.count = case_.count;
    shape.element_bytes = 4;
    if (varies(case_.collective)) shape.count = case_.block(rank);
    part.counts = case_.lists(rank);
    shape.input_counts = part.counts[0];
    shape.input_displs = part.counts[1];
    shape.output_counts = part.counts[2];
    shape.output_displs = part.counts[3];
    part.binding.bind(plan, shape);
    part.scratch.resize(part.binding.scratch_bytes());
    part.operands.input = reinterpret_cast<const std::byte*>(part.buffers.send());
    part.operands.output = reinterpret_cast<std::byte*>(part.buffers.receive());
    part.operands.scratch = part.scratch.data();
    part.operands.type = DataType::i32;
    if (part.plan.protocol == schedule::Protocol::direct_read) part.operands.least_referenced = 1;
    part.operands.resolve(case_.collective);
    // A registry schedule of send_recv runs under the rules of collectives: point-to-point calls have programs of their own.
    part.call.collective = case_.collective == Collective::send_recv ? Collective::broadcast : case_.collective;
    part.call.type = DataType::i32;
    part.call.root = case_.is_rooted() ? case_.root : -1;
    part.call.count = case_.count;
  }

  CollectiveCase case_;
  transport::FakeFabric fabric_;
  std::vector<std::vector<executor::Completion>> logs_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::string refused_;
};

}  // namespace peal::test
