// Ops that switches compute: the last member to come does it for all.
#include <algorithm>
#include <utility>

#include "walk_state.hpp"

namespace peal::tuning::walking {

std::span<const schedule::Source> Walk::group_of(int rank, const Op& op) const {
  return std::span(programs_[at(rank)].sources).subspan(op.more, op.more_count);
}

Meeting& Walk::meeting_of(int rank, const Op& op) {
  const std::span<const schedule::Source> group = group_of(rank, op);
  return meetings_[{group.front().peer, group.back().peer, group.size(), op.channel}];
}

bool Walk::have_come(int strand, const BoundOp& bound) {
  const int rank = strands_[at(strand)].rank;
  std::vector<int>& come = meeting_of(rank, *bound.op).come;
  if (std::find(come.begin(), come.end(), strand) == come.end()) come.push_back(strand);
  return come.size() == bound.op->more_count;
}

/// One member's wires. The direction that carries all bytes of the op is waited for; the other carries a share of them beside what else
/// crosses it, and puts that off.
Stamp Walk::cross_switch(int rank, const BoundOp& bound, const Stamp& start) {
  const Op& op = *bound.op;
  const int level = level_of_switches(environment_, programs_[at(rank)], op);
  const double rate = environment_.switches[level].rate();
  const double whole = plan_.bytes_of(bound);
  const double bytes[] = {plan_.bytes_of(bound, op.src), plan_.bytes_of(bound, op.dst)};
  Stamp* const ways[] = {&out_[level][at(outlet(rank, level))], &in_[level][at(outlet(rank, level))]};
  sent_[level][at(rank)] += bytes[0] * scale_;
  Stamp left = start;
  for (int i = 0; i < 2; ++i) {
    const double time = time_at(bytes[i] * scale_, rate);
    const Stamp free = later(start, *ways[i]);
    *ways[i] = free.plus(kTransfer, time);
    left = later(left, bytes[i] < whole ? start.plus(kTransfer, time) : *ways[i]);
  }
  return left;
}

Stamp Walk::do_switch(int index, const BoundOp& bound, const Stamp& start) {
  const int rank = strands_[at(index)].rank;
  const std::vector<int> members = std::exchange(meeting_of(rank, *bound.op).come, {});
  Stamp end = start;
  for (const int member : members) {
    const int its_rank = strands_[at(member)].rank;
    end = later(end, cross_switch(its_rank, strands_[at(member)].cursor.current(programs_[at(its_rank)]), start));
  }
  const int level = level_of_switches(environment_, programs_[at(rank)], *bound.op);
  end = end.plus(kLatency, environment_.switches[level].hop());
  for (const int member : members) {
    if (member == index) continue;  // goes on by itself
    Strand& s = strands_[at(member)];
    s.ready = end;
    s.cursor.advance(programs_[at(s.rank)]);
    if (s.cursor.done())
      ranks_[at(s.rank)].done = later(ranks_[at(s.rank)].done, end);
    else
      queue(member, end.at);
  }
  return end;
}

}  // namespace peal::tuning::walking
