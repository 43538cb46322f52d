#include "traffic.hpp"

#include <algorithm>

namespace peal::sim {

namespace {

bool is_answered(LinkOperation operation) { return operation != LinkOperation::posted_write; }
bool asks_for_data(LinkOperation operation) { return operation == LinkOperation::read || operation == LinkOperation::atomic; }
bool brings_data(LinkOperation operation) { return operation != LinkOperation::read && operation != LinkOperation::invalidate; }

constexpr std::size_t kFewOperations = 8;
constexpr std::size_t quarter_of(std::size_t operations) { return operations / 4; }

// Posted writes wait for nobody, so only a limit that was asked for holds them.
std::uint32_t most_under_way(const LinkModel& model, const LinkQuestion& question) {
  if (question.outstanding) return static_cast<std::uint32_t>(*question.outstanding);
  return is_answered(question.operation) ? static_cast<std::uint32_t>(model.layers.outstanding) : ~std::uint32_t{0};
}

}  // namespace

LinkTraffic::LinkTraffic(const LinkModel& model, const LinkQuestion& question)
    : model_(model),
      question_(question),
      reply_bytes_(question.reply_bytes.value_or(static_cast<int>(model.layers.read_reply_bytes))),
      extra_bytes_(question.extra_flits * static_cast<int>(model.layers.flit_bytes)),
      most_under_way_(most_under_way(model, question)) {
  for (int end = 0; end < (question.is_both_ways ? 2 : 1); ++end) {
    sides_[end].operations.resize(static_cast<std::size_t>(question.operations));
    total_ += static_cast<std::uint64_t>(question.operations);
  }
  latencies_.reserve(total_);
}

LinkChannel LinkTraffic::request_channel() const { return is_answered(question_.operation) ? LinkChannel::request : LinkChannel::posted; }

LinkPacket LinkTraffic::packet(int from, LinkChannel channel, std::uint32_t operation, int data, int around) {
  LinkPacket made{.channel = channel, .operation = operation, .data = data};
  made.wire = model_.wire_bytes(data, around + (data > 0 ? extra_bytes_ : 0));
  made.number = sides_[from].numbers[index_of(channel)]++;
  return made;
}

std::vector<LinkPacket> LinkTraffic::next_operation(int end) {
  Side& side = sides_[end];
  std::vector<LinkPacket> packets;
  if (side.started == side.operations.size() || side.under_way >= most_under_way_) return packets;
  const std::uint32_t id = side.started++;
  ++side.under_way;
  const LinkOperation what = question_.operation;
  const int payload = what == LinkOperation::invalidate ? 0 : question_.payload;
  const int piece = static_cast<int>(what == LinkOperation::read ? model_.layers.max_read_bytes : model_.layers.max_payload_bytes);
  int left = payload;
  do {
    const int part = std::min(left, piece);
    left -= part;
    LinkPacket made = packet(end, request_channel(), id, brings_data(what) ? part : 0, model_.request_bytes);
    made.asked = asks_for_data(what) ? part : 0;
    made.is_last = left == 0;
    packets.push_back(made);
  } while (left > 0);
  side.operations[id].awaited = asks_for_data(what) ? payload : 1;
  return packets;
}

void LinkTraffic::on_started(int end, const LinkPacket& packet, double now) {
  if (packet.channel == LinkChannel::response) return;
  Operation& operation = sides_[end].operations[packet.operation];
  if (operation.started < 0) operation.started = now;
}

bool LinkTraffic::on_delivered(int end, const LinkPacket& packet, double now) {
  if (packet.channel == LinkChannel::request) return packet.asked > 0 || packet.is_last;
  // A posted write ends where it arrives; an answer arrives where its operation was started.
  Side& side = sides_[packet.channel == LinkChannel::posted ? 1 - end : end];
  Operation& operation = side.operations[packet.operation];
  if (packet.channel == LinkChannel::posted)
    operation.awaited -= packet.is_last ? 1 : 0;
  else
    operation.awaited -= asks_for_data(question_.operation) ? packet.data : 1;
  if (operation.awaited == 0) end_operation(side, operation, now);
  return false;
}

void LinkTraffic::end_operation(Side& side, Operation& operation, double now) {
  --side.under_way;
  ++side.ended;
  const std::size_t all = side.operations.size();
  if (side.ended == quarter_of(all)) side.quarter = now;
  if (side.ended == all - quarter_of(all)) side.three_quarters = now;
  last_end_ = now;
  ++ended_;
  latencies_.push_back(now - operation.started);
}

std::vector<LinkPacket> LinkTraffic::answers(int end, const LinkPacket& request) {
  std::vector<LinkPacket> packets;
  int left = request.asked;
  do {
    const int part = std::min(left, reply_bytes_);
    left -= part;
    packets.push_back(packet(end, LinkChannel::response, request.operation, part, model_.response_bytes));
  } while (left > 0);
  return packets;
}

void LinkTraffic::report(LinkOutcome& outcome) {
  double slowest = 0;
  for (const Side& side : sides_) {
    const std::size_t all = side.operations.size();
    if (all == 0) continue;
    // The middle half: filling and emptying the link belongs to latency. A few operations are all filling and emptying.
    const std::size_t counted = all - 2 * quarter_of(all);
    const double time = all < kFewOperations ? last_end_ : side.three_quarters - side.quarter;
    const double bytes = static_cast<double>(question_.payload) * static_cast<double>(all < kFewOperations ? all : counted);
    slowest = slowest > 0 ? std::min(slowest, bytes / time) : bytes / time;
  }
  outcome.goodput = question_.operation == LinkOperation::invalidate ? 0 : slowest;
  outcome.share = outcome.goodput / model_.link.bandwidth.gigabytes();
  outcome.time_ns = last_end_;
  std::sort(latencies_.begin(), latencies_.end());
  const auto at = [&](double share) { return latencies_[static_cast<std::size_t>(share * static_cast<double>(latencies_.size() - 1))]; };
  outcome.p50_ns = at(0.5);
  outcome.p99_ns = at(0.99);
  outcome.max_ns = latencies_.back();
}

}  // namespace peal::sim
