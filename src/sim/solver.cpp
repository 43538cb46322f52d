#include <algorithm>
#include <sim/solver.hpp>
#include <sim/take_place.hpp>

#include "same_level.hpp"

namespace peal::sim {

namespace {
constexpr double kSameKeptRate = 1e-12;  // the same, where a rate that is kept is held against others
constexpr int kMostSolvings = 16;        // of solving ever more anew
}  // namespace

FairShare::Constraint FairShare::add_constraint(double capacity, bool is_line) {
  ConstraintState& c = constraints_.emplace_back();
  c.capacity = c.left = capacity;
  has_lines_ |= is_line;
  if (has_lines_) lines_.resize(constraints_.size());
  if (is_line) lines_.back().is_line = true;
  return static_cast<Constraint>(constraints_.size() - 1);
}

void FairShare::set_capacity(Constraint constraint, double capacity) {
  constraints_[constraint].capacity = constraints_[constraint].left = capacity;
  dirty_constraints_.push_back(constraint);
  is_capacity_changed_ = true;
}

FairShare::Variable FairShare::add_variable(std::span<const Constraint> constraints, double bound, double weight,
                                            std::span<const double> counts, bool holds_up) {
  const Variable id = take_place(variables_, free_);
  VariableState& v = variables_[id];
  v.links.clear();
  v.bound = bound;
  v.weight = weight;
  v.rate = 0;
  v.stopped_by = kNowhere;
  v.holds_up = holds_up;
  for (std::uint32_t i = 0; i < constraints.size(); ++i) {
    ConstraintState& c = constraints_[constraints[i]];
    v.links.push_back({constraints[i], static_cast<std::uint32_t>(c.users.size()), counts.empty() ? 1 : counts[i]});
    c.users.push_back({id, i});
    if (is_line(constraints[i])) lines_[constraints[i]].members += v.links.back().count;
  }
  dirty_variables_.push_back(id);
  return id;
}

void FairShare::remove_variable(Variable id, double carried) {
  VariableState& v = variables_[id];
  for (const Link& link : v.links) {
    ConstraintState& c = constraints_[link.constraint];
    auto& users = c.users;
    c.carried += link.count * carried;
    if (is_line(link.constraint)) lines_[link.constraint].members -= link.count;
    const Use last = users.back();
    users[link.place] = last;
    variables_[last.variable].links[last.index].place = link.place;
    users.pop_back();
    c.left = users.empty() ? c.capacity : c.left + link.count * v.rate;
    if (!users.empty()) dirty_constraints_.push_back(link.constraint);
  }
  v.rate = kUnused;
  free_.push_back(id);
}

void FairShare::let_pass(Variable id) {
  variables_[id].holds_up = false;
  dirty_variables_.push_back(id);
}

/// Nobody else crosses what it crosses: true, and its rate is set.
bool FairShare::solve_alone(Variable id) {
  VariableState& v = variables_[id];
  for (const Link& link : v.links)
    if (constraints_[link.constraint].users.size() != 1) return false;
  v.level = v.bound / v.weight;
  v.stopped_by = kNowhere;
  for (const Link& link : v.links) {
    const ConstraintState& c = constraints_[link.constraint];
    if (c.capacity == kUnbounded) continue;
    const double level = std::max(0.0, c.capacity) / (v.weight * link.count);
    if (level > v.level * (has_lines_ ? 1 + kSameLevel : 1)) continue;
    v.level = std::min(v.level, level);
    v.stopped_by = link.constraint;
  }
  v.rate = v.level * v.weight;
  for (const Link& link : v.links) {
    ConstraintState& c = constraints_[link.constraint];
    c.left = c.capacity - link.count * v.rate;
  }
  return true;
}

/// Those who are not stay in the list of what has changed.
void FairShare::solve_those_alone() {
  std::size_t others = 0;
  for (Variable id : dirty_variables_) {
    VariableState& v = variables_[id];
    if (!v.is_used() || v.visited == stamp_) continue;
    if (!solve_alone(id)) {
      dirty_variables_[others++] = id;
      continue;
    }
    v.visited = stamp_;
    component_.push_back(id);
  }
  dirty_variables_.resize(others);
  alone_ = component_.size();
}

/// Of those who are alone nothing is forgotten.
void FairShare::begin_solution() {
  ++stamp_;
  component_.resize(alone_);
  for (Variable id : component_) variables_[id].visited = stamp_;
  limits_.clear();
  filling_.clear();
}

void FairShare::visit(Variable id) {
  VariableState& v = variables_[id];
  if (!v.is_used() || v.visited == stamp_) return;
  v.visited = stamp_;
  component_.push_back(id);
  fetch_links(id);
}

Filling::Number FairShare::limit_of(Constraint id, Gives gives) {
  ConstraintState& c = constraints_[id];
  if (c.visited != stamp_) {
    c.visited = stamp_;
    const bool keeps_users = gives == Gives::back_its_rate && c.capacity != kUnbounded;
    c.limit = filling_.add_limit(keeps_users ? c.left : c.capacity, is_line(id));
    limits_.push_back({id, c.left <= c.capacity * kSameLevel});
  }
  return c.limit;
}

/// Those that were visited and are not yet part of the system that is to be filled.
void FairShare::enter_visited(Gives gives) {
  for (std::size_t i = alone_ + filling_.members().size(); i < component_.size(); ++i) {
    const VariableState& v = variables_[component_[i]];
    filling_.add_member(v.bound, v.weight, v.holds_up);
    for (const Link& link : v.links)
      filling_.add_crossing(limit_of(link.constraint, gives), link.count, gives == Gives::back_its_rate ? v.rate : 0);
  }
}

/// Those whose rates were kept though, of a constraint that others cross at new ones, they could have more, or have more than their share.
void FairShare::hold_against(Filling::Number number) {
  const Filling::Limit& limit = filling_.limits()[number];
  const Constraint id = limits_[number].constraint;
  const ConstraintState& c = constraints_[id];
  double highest = 0;
  double full_at = kUnbounded;
  filling_.each_member(number, [&](const Filling::Member& member, bool is_stopped_here) {
    highest = std::max(highest, member.level);
    if (is_stopped_here) full_at = std::min(full_at, member.level);
  });
  const bool has_room = limit.left > c.capacity * kSameKeptRate;
  for (const Use& use : c.users) {
    const VariableState& v = variables_[use.variable];
    if (v.visited == stamp_) continue;
    const bool may_rise = v.stopped_by == id && (has_room || v.level * (1 + kSameKeptRate) < highest);
    if (may_rise || v.level > full_at * (1 + kSameKeptRate)) wider_.push_back(use.variable);
  }
}

/// More variables whose rates must change, given those that have; false: none.
bool FairShare::widen() {
  wider_.clear();
  for (Filling::Number i = 0; i < limits_.size(); ++i) {
    const Filling::Limit& limit = filling_.limits()[i];
    const ConstraintState& c = constraints_[limits_[i].constraint];
    const bool is_for_others = c.users.size() > limit.crossed && c.capacity != kUnbounded;
    if (is_for_others && (limits_[i].was_full || limit.left <= c.capacity * kSameLevel)) hold_against(i);
  }
  for (Variable id : wider_) visit(id);
  return !wider_.empty();
}

/// Rates are max-min fair where, and only where, everybody is at his bound or crosses a full constraint in which nobody has more. So it is
/// enough to find new rates for a few that leave this true of all. False where that took too long.
bool FairShare::solve_changed() {
  for (Variable v : dirty_variables_) visit(v);
  for (Constraint c : dirty_constraints_)
    for (const Use& use : constraints_[c].users)
      if (variables_[use.variable].stopped_by == c) visit(use.variable);
  if (component_.size() == alone_) return true;
  for (int round = 0; round < kMostSolvings; ++round) {
    enter_visited(Gives::back_its_rate);
    fill();
    if (!widen()) return true;
  }
  return false;
}

void FairShare::solve_component() {
  begin_solution();
  for (Constraint c : dirty_constraints_) limit_of(c, Gives::all_users_start_afresh);
  for (Variable v : dirty_variables_) visit(v);
  enter_visited(Gives::all_users_start_afresh);
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    for (const Use& use : constraints_[limits_[i].constraint].users) visit(use.variable);
    enter_visited(Gives::all_users_start_afresh);
  }
  fill();
}

void FairShare::fill() {
  filling_.run();
  solved_ += filling_.members().size();
}

void FairShare::keep_solution() {
  for (std::size_t i = 0; i < filling_.members().size(); ++i) {
    const Filling::Member& member = filling_.members()[i];
    VariableState& v = variables_[component_[alone_ + i]];
    v.level = member.level;
    v.rate = member.level * v.weight;
    v.stopped_by = member.stopped_by == Filling::kNone ? kNowhere : limits_[member.stopped_by].constraint;
  }
  for (std::size_t i = 0; i < limits_.size(); ++i) constraints_[limits_[i].constraint].left = filling_.limits()[i].left;
}

void FairShare::solve() {
  component_.clear();
  alone_ = 0;
  begin_solution();
  solve_those_alone();
  if (dirty_variables_.empty() && dirty_constraints_.empty()) return;
  if (has_lines_ || is_capacity_changed_ || !solve_changed()) solve_component();
  keep_solution();
  std::sort(component_.begin() + static_cast<std::ptrdiff_t>(alone_), component_.end());
  dirty_constraints_.clear();
  dirty_variables_.clear();
  is_capacity_changed_ = false;
}

}  // namespace peal::sim
