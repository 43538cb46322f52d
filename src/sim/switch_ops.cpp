// Ops that switches compute. One flow stands for all that moves: a byte of it is a byte that crosses the ways of every member at the same
// time, as a switch takes the parts of a sum from all of them together, and hands out a copy to all. Ways that carry only a share of the
// op's bytes (the way down of who takes one chunk of many) count for that share.
#include <algorithm>
#include <base/index.hpp>
#include <topology/switch_tree.hpp>
#include <utility>

#include "world.hpp"

namespace peal::sim {

std::span<const schedule::Source> World::group_of(const Strand& s) const {
  return std::span(ranks_[at(s.rank)].program.sources).subspan(s.bound.op->more, s.bound.op->more_count);
}

Status World::lay_meeting(const Strand& s, Meeting& meeting) {
  const std::span<const schedule::Source> group = group_of(s);
  std::vector<int> devices;
  for (const schedule::Source& member : group) devices.push_back(device_of(number_of(s, member.peer)));
  PEAL_ASSIGN(const topology::SwitchTree tree, topology::switch_tree(resources_, devices, at(group.front().peer)));
  PEAL_ASSIGN(const topology::ProtocolConstants constants, topology::constants_for(tree.scope, "switch"));
  meeting.efficiency = constants.efficiency;
  meeting.bottleneck = tree.bottleneck.gigabytes();
  meeting.hop = constants.per_hop.value + tree.latency.value;
  const auto numbers = [&](std::span<const topology::ResourceId> ids) {
    std::vector<std::uint32_t> all;
    for (const topology::ResourceId id : ids)
      if (!fold_.implied.contains(id)) all.push_back(engine_resource(id));
    return all;
  };
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (!tree.up[i].empty()) slow_outlet(number_of(s, group[i].peer), tree.up[i].front());
    meeting.members.push_back({numbers(tree.up[i]), numbers(tree.down[i])});
  }
  meeting.cables_up = numbers(tree.cables_up);
  meeting.cables_down = numbers(tree.cables_down);
  for (const std::uint32_t number : tree.switches) {
    const auto [known, is_new] = switch_limit_.try_emplace(number, 0);
    if (is_new) known->second = engine_.add_resource(tree.trees_a_switch * meeting.bottleneck);
    meeting.limits.push_back(known->second);
  }
  return {};
}

Index World::meeting_of(const Strand& s) {
  const std::span<const schedule::Source> group = group_of(s);
  const auto [known, is_new] =
      meeting_of_.try_emplace({number_of(s, group.front().peer), number_of(s, group.back().peer), group.size(), s.bound.op->channel},
                              static_cast<Index>(meetings_.size()));
  if (is_new) {
    Meeting meeting;
    if (auto laid = lay_meeting(s, meeting); !laid && failure_) failure_ = std::move(laid);
    meetings_.push_back(std::move(meeting));
  }
  return known->second;
}

/// The last to come has the others go on, too.
bool World::have_come(Index index) {
  Meeting& meeting = meetings_[meeting_of(strands_[index])];
  if (!failure_) return false;
  const std::size_t members = meeting.members.size();
  if (std::find(meeting.come.begin(), meeting.come.end(), index) == meeting.come.end()) {
    meeting.come.push_back(index);
    for (std::size_t i = 0; meeting.come.size() == members && i + 1 < members; ++i) consider(meeting.come[i]);
  }
  return meeting.come.size() == members;
}

void World::issue_switched(Index index) {
  const Index id = meeting_of(strands_[index]);
  if (++meetings_[id].issued == meetings_[id].members.size()) start_switched(id);
}

/// `strands`: of its members, ascending.
void World::cross_all(Meeting& meeting, std::span<const Index> strands) {
  const Strand& first = strands_[strands.front()];
  const schedule::BoundOp& bound = first.bound;
  const bool is_full = bound.piece < first.job->sizes->full_pieces() && bound.iteration[0] == 0 && bound.iteration[1] == 0;
  if (is_full && meeting.full == bound.op) return;
  meeting.full = is_full ? bound.op : nullptr;
  meeting.whole = first.bytes;  // in one slice
  meeting.crossed.clear();
  meeting.counts.clear();
  const auto cross = [&](std::span<const std::uint32_t> ids, double bytes) {
    for (const std::uint32_t resource : ids) {
      if (bytes <= 0) continue;
      meeting.crossed.push_back(resource);
      meeting.counts.push_back(bytes / meeting.whole);
    }
  };
  double taken = 0;
  for (std::size_t i = 0; i < strands.size(); ++i) {
    const Strand& s = strands_[strands[i]];
    const tuning::Plan& plan = plan_of(s);
    const double out = plan.bytes_of(s.bound, s.bound.op->dst);
    cross(meeting.members[i].up, plan.bytes_of(s.bound, s.bound.op->src));
    cross(meeting.members[i].down, out);
    taken = std::max(taken, out);
  }
  cross(meeting.cables_up, meeting.whole);
  cross(meeting.cables_down, taken);
  cross(meeting.limits, meeting.whole);
}

void World::start_switched(Index id) {
  Meeting& meeting = meetings_[id];
  std::vector<Index>& strands = meeting.come;
  std::sort(strands.begin(), strands.end(), [&](Index a, Index b) { return strands_[a].rank < strands_[b].rank; });
  cross_all(meeting, strands);
  const double whole = meeting.whole;
  double stretch = 1;
  double noise = 1;
  for (const Index strand : strands) {
    const Strand& s = strands_[strand];
    stretch = std::max(stretch, s.stretch);
    noise = std::max(noise, s.stretch / slowness(s.rank));
  }
  const double hop = meeting.hop * stretch;
  for (const Index strand : strands) {
    auto* step = path_.step(strands_[strand].step);
    if (step == nullptr) continue;
    step->worked = engine_.now();
    step->is_on_wire = true;
    step->wire_alone = noise * tuning::time_at(whole, meeting.efficiency * meeting.bottleneck);
    step->hop = hop;
  }
  engine_.start({.bytes = whole / meeting.efficiency,
                 .resources = meeting.crossed,
                 .latency = hop,
                 .rate_cap = noise > 1 ? meeting.bottleneck / noise : FairShare::kUnbounded,
                 .tag = tag(Kind::switched, id),
                 .counts = meeting.counts,
                 .holds_up_for = 0});  // its ways are a tree, not one behind the other
}

/// For all members at the same time.
void World::switched(Index id) {
  meetings_[id].issued = 0;
  for (const Index strand : std::exchange(meetings_[id].come, {})) {
    switched_ += 1;
    slice_done(strand);
  }
}

/// The lowest rank of its job that has not come to the op at hand, -1 where all have.
int World::missing_member(const Strand& s) {
  const Meeting& meeting = meetings_[meeting_of(s)];
  for (const schedule::Source& member : group_of(s)) {
    const auto is_it = [&](Index strand) { return strands_[strand].rank == number_of(s, member.peer); };
    if (std::none_of(meeting.come.begin(), meeting.come.end(), is_it)) return member.peer;
  }
  return -1;
}

}  // namespace peal::sim
