#include <schedule/verify.hpp>

#include <fmt/format.h>

#include <vector>

#include "verify_walk.hpp"

namespace peal::schedule {

namespace {

constexpr std::int64_t kMostSteps = 400'000'000;  // of all ranks: more than this nobody waits for
constexpr std::int32_t kMostPieces = 64;
constexpr std::int32_t kLargestIndex = 1 << 30;

Verdict refused(std::int32_t rank, std::int64_t step, std::string why) {
  Verdict verdict;
  verdict.rank = rank;
  verdict.step = step;
  verdict.why = std::move(why);
  return verdict;
}

bool is_sane(const Ref& ref, std::int64_t inner, std::int64_t outer) {
  const std::int64_t far = std::abs(static_cast<std::int64_t>(ref.first)) + std::abs(static_cast<std::int64_t>(ref.step[0])) * inner +
                           std::abs(static_cast<std::int64_t>(ref.step[1])) * outer;
  return far < kLargestIndex;
}

// Operand counts that do not fit one another; empty when all is well.
std::string operand_fault(const Op& op, const Program& program) {
  const bool stores = !sends(op.kind) || (op.flags & kStore) != 0;
  if (receives(op.kind) && reduces(op.kind) && stores && op.src.count != op.dst.count)
    return "reads and writes different numbers of chunks";
  if (op.kind == OpKind::copy && op.src.count != op.dst.count) return "reads and writes different numbers of chunks";
  if (op.kind == OpKind::reduce) {
    if (static_cast<std::size_t>(op.more) + op.more_count > program.sources.size()) return "names sources that do not exist";
    bool fits = op.src.count == op.dst.count;
    for (std::uint32_t k = 0; k < op.more_count; ++k) fits = fits && program.sources[op.more + k].ref.count == op.dst.count;
    if (!fits) return "reads and writes different numbers of chunks";
  }
  if (is_switched(op.kind)) {
    if (static_cast<std::size_t>(op.more) + op.more_count > program.sources.size()) return "names a group that does not exist";
    const bool takes_too_much = op.operand < 0 || op.operand + static_cast<std::int64_t>(op.dst.count) > op.src.count;
    if (op.kind == OpKind::switch_reduce && (op.src.count == 0 || takes_too_much)) return "takes chunks of the sum that it does not bring";
  }
  if (op.modulus < 0) return "has a negative modulus";
  if (op.kind == OpKind::wait && op.event >= program.event_quota.size()) return "waits for an event that the program does not have";
  return {};
}

// Loops closed within their strand, at most two deep, partners that name one another; operands that fit. Counts the steps of one walk.
struct FormCheck {
  const Program& program;
  std::int64_t steps = 0;
  std::int64_t fault_at = 0;
  std::string fault;

  bool strand(std::uint32_t begin, std::uint32_t end) {
    std::vector<std::uint32_t> open;
    std::int64_t times[3] = {1, 1, 1};
    for (std::uint32_t at = begin; at < end; ++at) {
      const Op& op = program.ops[at];
      const auto bad = [&](std::string why) {
        fault_at = at - begin;
        fault = fmt::format("{} {}", name_of(op.kind), why);
        return false;
      };
      if (static_cast<std::size_t>(op.kind) > static_cast<std::size_t>(OpKind::recv_reduce_send)) return bad("is not an op");
      if (op.kind == OpKind::loop) {
        if (open.size() == 2) return bad("nests more than two deep");
        if (static_cast<std::uint64_t>(at) + op.more >= end || op.more == 0 || program.ops[at + op.more].kind != OpKind::end_loop)
          return bad("has no end in its strand");
        open.push_back(at);
        times[open.size()] = std::max(0, op.operand);
        if (times[1] * (open.size() == 2 ? times[2] : 1) > kMostSteps) return bad("repeats too often to be walked");
      } else if (op.kind == OpKind::end_loop) {
        if (open.empty() || op.more != at - open.back() || program.ops[open.back()].more != op.more) return bad("does not match its loop");
        open.pop_back();
      } else {
        const std::size_t depth = open.size();
        if (std::string why = operand_fault(op, program); !why.empty()) return bad(std::move(why));
        const std::int64_t inner = depth > 0 ? times[depth] : 1;
        const std::int64_t outer = depth > 1 ? times[1] : 1;
        bool sane = is_sane(op.src, inner, outer) && is_sane(op.dst, inner, outer);
        for (std::uint32_t k = 0; op.kind == OpKind::reduce && k < op.more_count; ++k)
          sane = sane && is_sane(program.sources[op.more + k].ref, inner, outer);
        if (!sane) return bad("has a chunk index out of all bounds");
        steps += inner * outer;
        if (steps > kMostSteps) return bad("makes the walk longer than can be verified");
      }
    }
    if (open.empty()) return true;
    fault_at = open.back() - begin;
    fault = "loop has no end in its strand";
    return false;
  }

  bool all() {
    const auto& begin = program.strand_begin;
    if (!begin.empty() && (begin.front() != 0 || begin.back() != program.ops.size())) {
      fault = "the strands do not cover the program";
      return false;
    }
    for (std::size_t s = 0; s + 1 < begin.size(); ++s) {
      if (begin[s] > begin[s + 1]) {
        fault = "the strands are out of order";
        return false;
      }
      if (!strand(begin[s], begin[s + 1])) {
        fault = fmt::format("strand {}, op {}: {}", s, fault_at, fault);
        return false;
      }
    }
    return true;
  }
};

std::string request_fault(const Request& request, const Layouts& layouts) {
  if (request.ranks < 1) return "a collective needs at least one rank";
  if (request.root < 0 || request.root >= request.ranks) return fmt::format("root {} is not below {} ranks", request.root, request.ranks);
  if (request.peer < 0 || request.peer >= request.ranks) return fmt::format("peer {} is not below {} ranks", request.peer, request.ranks);
  if (layouts.input.blocks < 1 || layouts.input.chunks_per_block < 1 || layouts.output.blocks < 1 || layouts.output.chunks_per_block < 1 ||
      layouts.scratch_copies < 0)
    return "a layout has no chunks";
  const auto n = request.ranks;
  const std::int32_t in = layouts.input.chunks();
  const std::int32_t out = layouts.output.chunks();
  bool fits = true;
  switch (request.collective) {
    case Collective::all_gather:
    case Collective::all_gather_v:
    case Collective::gather:
    case Collective::gather_v: fits = out == in * n && layouts.output.chunks_per_block == in; break;
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v:
    case Collective::scatter:
    case Collective::scatter_v: fits = in == out * n && layouts.input.chunks_per_block == out; break;
    case Collective::all_to_all:
    case Collective::all_to_all_v:
      fits = in == out && layouts.input.blocks == n && layouts.output.blocks == n;
      if (request.in_place) return "this collective cannot be in place";
      break;
    case Collective::send_recv:
      fits = in == out;
      if (request.in_place) return "this collective cannot be in place";
      break;
    case Collective::barrier: break;
    default: fits = in == out; break;
  }
  return fits ? std::string()
              : fmt::format("the layouts ({} input and {} output chunks on {} ranks) do not fit the collective", in, out, n);
}

}  // namespace

Verdict verify_programs(const Request& request, const Layouts& layouts, bool pieced, const std::function<Program(std::int32_t)>& program_of,
                        const VerifyOptions& options) {
  if (std::string why = request_fault(request, layouts); !why.empty()) return refused(0, 0, std::move(why));
  const ProtocolTraits& traits = traits_of(options.protocol);
  WalkRules rules;
  rules.snapshots = traits.snapshots && !options.shows;
  rules.shows = options.shows;
  rules.answers = options.shows && options.answers;
  rules.slots = traits.rendezvous ? 0 : options.slots > 0 ? options.slots : traits.slots;
  const bool one_piece = !pieced || request.collective == Collective::barrier;
  rules.pieces = options.pieces > 0 ? std::min(options.pieces, kMostPieces) : one_piece ? 1 : 2;
  std::vector<Program> programs;
  std::int64_t steps = 0;
  for (std::int32_t r = 0; r < request.ranks; ++r) {
    programs.push_back(program_of(r));
    if (programs.back().ranks != request.ranks || programs.back().rank != r)
      return refused(r, 0, fmt::format("rank {}: the program is made for rank {} of {}", r, programs.back().rank, programs.back().ranks));
    FormCheck form{programs.back(), 0, 0, {}};
    if (!form.all()) return refused(r, form.fault_at, fmt::format("rank {}, {}", r, form.fault));
    steps += form.steps;
    if (steps > kMostSteps) return refused(r, 0, fmt::format("the programs of ranks 0 to {} are too long to be verified", r));
  }
  if (!traits.snapshots || traits.rendezvous || options.protocol == Protocol::fused)
    for (const Program& program : programs)
      for (const Op& op : program.ops)
        if (op.wire == Wire::fp32)
          return refused(program.rank, 0, fmt::format("fp32 partial sums are made in a slot, and {} has none for them", traits.name));
  Verdict verdict = Walk(request, layouts, programs, rules).run();
  if (!verdict.ok || pieced || rules.slots == 0) return verdict;
  // Ops that stream more than the slots hold block until their receiver comes.
  rules.slots = 0;
  Verdict streamed = Walk(request, layouts, programs, rules).run();
  streamed.steps += verdict.steps;
  return streamed;
}

Verdict verify(const Schedule& schedule, const VerifyOptions& options) {
  return verify_programs(
      schedule.request, schedule.layouts, schedule.pieced, [&](std::int32_t rank) { return program_for(schedule, rank, options.fuse); },
      options);
}

}  // namespace peal::schedule
