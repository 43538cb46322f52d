// Ops that a switch computes: who takes part in one, and what it does to the memory of all of them (op.hpp).
#include <fmt/format.h>

#include <algorithm>

#include "verify_walk.hpp"

namespace peal::schedule {

std::span<const Source> Walk::group_of(std::int32_t rank, const BoundOp& bound) const {
  return std::span(programs_[static_cast<std::size_t>(rank)].sources).subspan(bound.op->more, bound.op->more_count);
}

bool Walk::is_good_group(StrandId id, const BoundOp& bound) {
  const std::int32_t rank = strands_[id].rank;
  const std::span<const Source> group = group_of(rank, bound);
  bool has_own = false;
  bool is_in_order = !group.empty() && group.front().peer >= 0 && group.back().peer < request_.ranks;
  for (std::size_t i = 0; i < group.size(); ++i) {
    has_own = has_own || group[i].peer == rank;
    is_in_order = is_in_order && (i == 0 || group[i - 1].peer < group[i].peer);
  }
  if (has_own && is_in_order) return true;
  report_at(id, bound, is_in_order ? "has a group that it does not belong to" : "has a group whose ranks do not ascend, or do not exist");
  is_broken_ = true;
  return false;
}

/// The strand of `member` that stands at the same op as `bound` of `rank`, as far as group, channel and kind say it.
StrandId Walk::standing_at(std::int32_t member, std::int32_t rank, const BoundOp& bound) const {
  const std::span<const Source> group = group_of(rank, bound);
  const Program& program = programs_[static_cast<std::size_t>(member)];
  for (StrandId id = first_strand_[static_cast<std::size_t>(member)]; id < first_strand_[static_cast<std::size_t>(member) + 1]; ++id) {
    const StrandState& strand = strands_[id];
    if (strand.is_sending || strand.cursor.done()) continue;
    const BoundOp other = strand.cursor.current(program);
    if (other.op->kind != bound.op->kind || other.op->channel != bound.op->channel) continue;
    const std::span<const Source> its = group_of(member, other);
    if (its.size() != group.size()) continue;
    if (std::equal(its.begin(), its.end(), group.begin(), group.end(), [](const Source& a, const Source& b) { return a.peer == b.peer; }))
      return id;
  }
  return kNoStrand;
}

/// -1: all have come.
std::int32_t Walk::missing_member(std::int32_t rank, const BoundOp& bound) const {
  for (const Source& member : group_of(rank, bound))
    if (standing_at(member.peer, rank, bound) == kNoStrand) return member.peer;
  return -1;
}

void Walk::own_channel(const Member& member) {
  const std::int32_t rank = strands_[member.strand].rank;
  const std::int32_t lowest = group_of(rank, member.bound).front().peer;
  const auto [known, is_new] = switch_strands_.try_emplace({rank, member.bound.op->channel, lowest}, member.strand);
  if (!is_new && known->second != member.strand)
    report_at(member.strand, member.bound, fmt::format("uses a channel of its group that {} uses too", strand_text(known->second)));
}

/// All know afterwards what each of them knew.
void Walk::meet(const std::vector<Member>& members) {
  StrandClock& first = strands_[members.front().strand].clock;
  for (const Member& member : members) {
    own_channel(member);
    first.learn(strands_[member.strand].clock.stamp());
  }
  for (const Member& member : members)
    if (member.strand != members.front().strand) strands_[member.strand].clock.learn(first.stamp());
}

/// The last member that comes does it for all; its own step is counted by who called.
void Walk::do_switch(StrandId id, const BoundOp& bound) {
  const std::int32_t rank = strands_[id].rank;
  std::vector<Member> members;
  for (const Source& source : group_of(rank, bound)) {
    const StrandId strand = source.peer == rank ? id : standing_at(source.peer, rank, bound);
    members.push_back({strand, strands_[strand].cursor.current(programs_[static_cast<std::size_t>(source.peer)])});
    if (strand == id) continue;
    if (!is_well_bound(strand, members.back().bound)) return;  // it has not tried yet
    strands_[strand].clock.tick();
  }
  meet(members);
  for (const Member& member : members) {
    if (member.bound.piece != bound.piece || member.bound.op->wire != bound.op->wire)
      report_at(member.strand, member.bound,
                fmt::format("is of another {} than that of rank {}", member.bound.piece != bound.piece ? "piece" : "wire type", rank));
  }
  if (bound.op->kind == OpKind::switch_reduce)
    do_switch_reduce(members);
  else
    do_switch_multicast(members);
  for (const Member& member : members) {
    if (member.strand == id) continue;
    ++steps_;
    finish_step(member.strand);
  }
}

std::vector<Value> Walk::bring(const Member& member, std::vector<std::int64_t>& shapes) {
  const Op& op = *member.bound.op;
  const std::int32_t rank = strands_[member.strand].rank;
  std::vector<Value> values;
  for (std::int32_t i = 0; i < op.src.count; ++i) {
    const Place place = place_of(member.bound, rank, op.src, i);
    values.push_back(read(member.strand, member.bound, place, reads_raw(op.src), rank));
    shapes.push_back(place.shape);
    if (op.wire == Wire::element && is_unfinished_sum(values.back()))
      report_at(member.strand, member.bound,
                fmt::format("brings the sum of {}, which is not finished, rounded", trees_.text(values.back().tree)));
  }
  return values;
}

void Walk::take(const Member& member, std::span<const Value> values, std::span<const std::int64_t> shapes) {
  const Op& op = *member.bound.op;
  const std::int32_t rank = strands_[member.strand].rank;
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (place_of(member.bound, rank, op.dst, i).shape != shapes[k])
      report_at(member.strand, member.bound, fmt::format("takes chunk {} in place of one of another length", i));
    write(member.strand, member.bound, rank, op.dst, i, finished(member.strand, member.bound, values[k]));
  }
}

void Walk::do_switch_reduce(const std::vector<Member>& members) {
  std::vector<Value> sum;
  std::vector<std::int64_t> shapes;
  std::vector<std::size_t> takers;
  for (const Member& member : members) {
    std::vector<std::int64_t> own;
    const std::vector<Value> values = bring(member, own);
    if (&member == &members.front()) {
      sum = values;
      shapes = own;
      takers.resize(sum.size());
      continue;
    }
    if (own != shapes) {
      report_at(member.strand, member.bound, fmt::format("brings other chunks than rank {} does", strands_[members.front().strand].rank));
      return;
    }
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = combine(member.strand, member.bound, sum[i], values[i]);
  }
  // In which order a switch adds is its own affair; of two there is but one.
  canonical_ = canonical_ && members.size() <= 2;
  for (const Member& member : members) {
    const auto first = static_cast<std::size_t>(member.bound.op->operand);
    for (std::size_t i = first; i < first + member.bound.op->dst.count; ++i) ++takers[i];
    take(member, std::span(sum).subspan(first), std::span(shapes).subspan(first));
  }
  if (std::any_of(takers.begin(), takers.end(), [&](std::size_t n) { return n > 1 && n < members.size(); }))
    report_at(members.front().strand, members.front().bound, "gives a sum to several members, but not to all");
}

void Walk::do_switch_multicast(const std::vector<Member>& members) {
  std::vector<Value> all;
  std::vector<std::int64_t> shapes;
  for (const Member& member : members) {
    const std::vector<Value> values = bring(member, shapes);
    all.insert(all.end(), values.begin(), values.end());
  }
  for (const Member& member : members) {
    if (member.bound.op->dst.count == all.size())
      take(member, all, shapes);
    else
      report_at(member.strand, member.bound,
                fmt::format("takes {} chunks, but its group brings {}", member.bound.op->dst.count, all.size()));
  }
}

}  // namespace peal::schedule
