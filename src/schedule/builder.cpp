#include <algorithm>
#include <schedule/builder.hpp>

namespace peal::schedule {

Op& StrandBuilder::add(OpKind kind) {
  Op op;
  op.kind = kind;
  ops().push_back(op);
  return ops().back();
}

Op& StrandBuilder::send(std::int32_t peer, Ref src) {
  Op& op = add(OpKind::send);
  op.peer = peer;
  op.src = src;
  return op;
}

Op& StrandBuilder::send_addend(std::int32_t peer, Ref src) {
  Op& op = send(peer, src);
  op.wire = Wire::addend;
  return op;
}

Op& StrandBuilder::recv(std::int32_t peer, Ref dst) {
  Op& op = add(OpKind::recv);
  op.peer = peer;
  op.dst = dst;
  return op;
}

Op& StrandBuilder::recv_reduce(std::int32_t peer, Ref dst, Ref src) {
  Op& op = add(OpKind::recv_reduce);
  op.wire = Wire::addend;
  op.peer = peer;
  op.dst = dst;
  op.src = src;
  return op;
}

Op& StrandBuilder::copy(Ref dst, Ref src) {
  Op& op = add(OpKind::copy);
  op.dst = dst;
  op.src = src;
  return op;
}

Op& StrandBuilder::reduce(Ref dst, std::span<const Source> sources, bool canonical) {
  Op& op = add(OpKind::reduce);
  op.dst = dst;
  op.src = sources[0].ref;
  op.more = static_cast<std::uint32_t>(schedule_->sources.size());
  op.more_count = static_cast<std::uint16_t>(sources.size() - 1);
  if (canonical) op.flags |= kCanonical;
  schedule_->sources.insert(schedule_->sources.end(), sources.begin() + 1, sources.end());
  return op;
}

Op& StrandBuilder::switch_reduce(SwitchGroup group, Ref dst, Ref src, std::int32_t from) {
  Op& op = add(OpKind::switch_reduce);
  op.dst = dst;
  op.src = src;
  op.operand = from;
  op.more = group.first;
  op.more_count = group.count;
  return op;
}

Op& StrandBuilder::switch_multicast(SwitchGroup group, Ref dst, Ref src) {
  Op& op = switch_reduce(group, dst, src);
  op.kind = OpKind::switch_multicast;
  return op;
}

Op& StrandBuilder::signal(std::int32_t event) {
  Op& op = add(OpKind::signal);
  op.event = static_cast<std::uint16_t>(event);
  return op;
}

Op& StrandBuilder::wait(std::int32_t event, std::int32_t threshold) {
  Op& op = add(OpKind::wait);
  op.event = static_cast<std::uint16_t>(event);
  op.operand = threshold;
  return op;
}

void StrandBuilder::open_loop(std::int32_t times) {
  open_.push_back(ops().size());
  add(OpKind::loop).operand = times;
}

void StrandBuilder::close_loop() {
  const std::size_t start = open_.back();
  open_.pop_back();
  const auto distance = static_cast<std::uint32_t>(ops().size() - start);
  add(OpKind::end_loop).more = distance;
  ops()[start].more = distance;
}

// Steps of a loop that is not there; inside loops of the body the outer index is 0 and its steps do nothing.
void StrandBuilder::drop_steps(std::size_t first) {
  int depth = 0;
  for (std::size_t i = first; i < ops().size(); ++i) {
    Op& op = ops()[i];
    if (op.kind == OpKind::end_loop) --depth;
    if (depth == 0) op.peer_step = op.src.step[0] = op.dst.step[0] = 0;
    op.src.step[1] = op.dst.step[1] = 0;
    if (op.kind == OpKind::loop) ++depth;
  }
}

SwitchGroup RankBuilder::switch_group(std::span<const std::int32_t> members) {
  const SwitchGroup group{static_cast<std::uint32_t>(schedule_.sources.size()), static_cast<std::uint16_t>(members.size())};
  for (const std::int32_t member : members) schedule_.sources.push_back({Ref{}, member});
  std::sort(schedule_.sources.begin() + group.first, schedule_.sources.end(),
            [](const Source& a, const Source& b) { return a.peer < b.peer; });
  return group;
}

StrandBuilder RankBuilder::strand(std::string name) {
  constexpr std::size_t kFewOps = 4;  // that many a strand has: room for them is taken at once
  schedule_.strands.push_back({std::move(name), {}});
  schedule_.strands.back().ops.reserve(kFewOps);
  return {schedule_, schedule_.strands.size() - 1};
}

}  // namespace peal::schedule
