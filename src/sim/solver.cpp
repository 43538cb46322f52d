#include <algorithm>
#include <functional>
#include <sim/solver.hpp>

namespace peal::sim {

namespace {
constexpr double kSameLevel = 1e-9;  // relative: what rounding makes of levels that are equal
constexpr double kSameRate = 1e-12;  // the same, where a rate that is kept is held against others
constexpr int kMostRounds = 16;      // of solving ever more anew
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
  Variable id;
  if (free_.empty()) {
    id = static_cast<Variable>(variables_.size());
    variables_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  VariableState& v = variables_[id];
  v.links.clear();
  v.bound = bound;
  v.weight = weight;
  v.rate = 0;
  v.stopped_by = kNowhere;
  v.is_used = v.is_fixed = true;
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

void FairShare::remove_variable(Variable id) {
  VariableState& v = variables_[id];
  for (const Link& link : v.links) {
    ConstraintState& c = constraints_[link.constraint];
    auto& users = c.users;
    if (is_line(link.constraint)) lines_[link.constraint].members -= link.count;
    const Use last = users.back();
    users[link.place] = last;
    variables_[last.variable].links[last.index].place = link.place;
    users.pop_back();
    c.left = users.empty() ? c.capacity : c.left + link.count * v.rate;
    if (!users.empty()) dirty_constraints_.push_back(link.constraint);
  }
  v.is_used = false;
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
  v.limit = v.bound / v.weight;
  v.stopped_by = kNowhere;
  for (const Link& link : v.links) {
    const ConstraintState& c = constraints_[link.constraint];
    if (c.capacity == kUnbounded) continue;
    const double level = std::max(0.0, c.capacity) / (v.weight * link.count);
    if (level > v.limit * (has_lines_ ? 1 + kSameLevel : 1)) continue;
    v.limit = std::min(v.limit, level);
    v.stopped_by = link.constraint;
  }
  v.rate = v.limit * v.weight;
  for (const Link& link : v.links) {
    ConstraintState& c = constraints_[link.constraint];
    c.left = c.capacity - link.count * v.rate;
  }
  return true;
}

void FairShare::visit(Constraint id) {
  ConstraintState& c = constraints_[id];
  if (c.visited == stamp_) return;
  c.visited = stamp_;
  c.weight = 0;
  component_constraints_.push_back({id, c.left <= c.capacity * kSameLevel});
}

void FairShare::visit_variable(Variable id) {
  VariableState& v = variables_[id];
  if (!v.is_used || v.visited == stamp_) return;
  v.visited = stamp_;
  component_.push_back(id);
  fetch_links(id);
}

/// Variables that were added and are alone are done with.
void FairShare::solve_those_alone() {
  ++stamp_;
  component_.clear();
  component_constraints_.clear();
  for (Variable id : dirty_variables_) {
    VariableState& v = variables_[id];
    if (!v.is_used || v.visited == stamp_ || !solve_alone(id)) continue;
    v.visited = stamp_;
    component_.push_back(id);
  }
  alone_ = component_.size();
}

/// Whose rate must change: the new ones, and those that were stopped where somebody has left.
void FairShare::collect_changed() {
  for (Variable v : dirty_variables_) visit_variable(v);
  for (Constraint c : dirty_constraints_)
    for (const Use& use : constraints_[c].users) __builtin_prefetch(&variables_[use.variable], 1);
  for (Constraint c : dirty_constraints_)
    for (const Use& use : constraints_[c].users)
      if (variables_[use.variable].stopped_by == c) visit_variable(use.variable);
}

void FairShare::collect_component() {
  for (Constraint c : dirty_constraints_) visit(c);
  for (Variable v : dirty_variables_) visit_variable(v);
  std::size_t next = alone_;
  for (std::size_t i = 0; i < component_constraints_.size() || next < component_.size(); ++i) {
    for (; next < component_.size(); ++next)
      for (const Link& link : variables_[component_[next]].links) visit(link.constraint);
    if (i < component_constraints_.size())
      for (const Use& use : constraints_[component_constraints_[i].constraint].users) visit_variable(use.variable);
  }
}

void FairShare::push_full(const Full& full) {
  full_.push_back(full);
  std::push_heap(full_.begin(), full_.end(), std::greater<>());
}

void FairShare::pop_full() {
  std::pop_heap(full_.begin(), full_.end(), std::greater<>());
  full_.pop_back();
}

void FairShare::fix(Variable id, double rate) {
  VariableState& v = variables_[id];
  v.rate = rate;
  v.is_fixed = true;
  for (const Link& link : v.links) {
    ConstraintState& c = constraints_[link.constraint];
    c.left -= link.count * rate;
    c.weight -= link.count * v.weight;
    if (c.weight < 1e-12) c.weight = 0;
    ++c.version;
  }
}

/// Fixes a variable at a level and finds out what stops it there: of several constraints that are full the last, for all before that are
/// backed up.
void FairShare::fix_where_it_stops(Variable id, double level) {
  VariableState& v = variables_[id];
  for (std::uint32_t i = 0; i < v.links.size(); ++i) {
    const ConstraintState& c = constraints_[v.links[i].constraint];
    if (c.capacity == kUnbounded || c.left > c.weight * level * (1 + kSameLevel)) continue;
    v.stopped_by = v.links[i].constraint;
    v.held = v.holds_up ? i : 0;
  }
  v.limit = level;
  fix(id, level * v.weight);
}

/// Fixes a variable at a level, and with it all whom it holds up.
void FairShare::stop(Variable id, double level) {
  if (!has_lines_) {
    variables_[id].limit = level;
    return fix(id, level * variables_[id].weight);
  }
  fix_where_it_stops(id, level);
  held_up_.assign(1, id);
  while (!held_up_.empty()) {
    const VariableState& v = variables_[held_up_.back()];
    held_up_.pop_back();
    for (std::uint32_t i = 0; i < v.held; ++i) hold(v.links[i].constraint, level);
  }
}

/// Whoever stands in a line that is backed up goes no faster than this. Once a solution: the first time is the slowest.
void FairShare::hold(Constraint line, double level) {
  ConstraintState& c = constraints_[line];
  if (!is_line(line) || lines_[line].held == stamp_) return;
  lines_[line].held = stamp_;
  for (const Use& use : c.users) {
    VariableState& v = variables_[use.variable];
    if (!v.is_fixed) {
      fix_where_it_stops(use.variable, level);
      if (v.stopped_by == kNowhere) v.stopped_by = line;
    } else if (v.limit < level * (1 - kSameLevel) || v.held >= use.index) {
      continue;
    }
    v.held = std::max(v.held, use.index);
    held_up_.push_back(use.variable);
  }
}

/// Takes the variables of the component out of their constraints and sets the level at which each stops at the latest.
void FairShare::empty_out(std::span<const Variable> component) {
  for (const Touched& touched : component_constraints_) constraints_[touched.constraint].weight = 0;
  for (Variable id : component) {
    const VariableState& v = variables_[id];
    for (const Link& link : v.links) {
      visit(link.constraint);
      ConstraintState& c = constraints_[link.constraint];
      c.left += link.count * v.rate;
      c.weight += link.count * v.weight;
    }
  }
  by_limit_.clear();
  for (Variable id : component) {
    VariableState& v = variables_[id];
    v.is_fixed = false;
    v.limit = v.bound / v.weight;
    v.stopped_by = kNowhere;
    v.held = 0;
    for (const Link& link : v.links) {
      const ConstraintState& c = constraints_[link.constraint];
      if (c.weight != link.count * v.weight || c.capacity == kUnbounded) continue;
      const double level = std::max(0.0, c.left) / c.weight;
      if (level >= v.limit) continue;
      v.limit = level;
      if (!has_lines_) v.stopped_by = link.constraint;
    }
    by_limit_.emplace_back(v.limit, id);
  }
  std::sort(by_limit_.begin(), by_limit_.end());
  full_.clear();
  for (const Touched& touched : component_constraints_) {
    const ConstraintState& c = constraints_[touched.constraint];
    if (c.users.size() > 1 && c.weight > 0 && c.capacity != kUnbounded)
      full_.push_back({std::max(0.0, c.left) / c.weight, touched.constraint, c.version});
  }
  std::make_heap(full_.begin(), full_.end(), std::greater<>());
}

/// Progressive filling of what those leave who are not of the component.
void FairShare::fill() {
  empty_out({component_.begin() + static_cast<std::ptrdiff_t>(alone_), component_.end()});
  std::size_t next = 0;
  for (;;) {
    while (next < by_limit_.size() && variables_[by_limit_[next].second].is_fixed) ++next;
    if (next == by_limit_.size()) break;
    while (!full_.empty() && full_.front().version != constraints_[full_.front().constraint].version) {
      // Variables left it since: its level has risen, look again.
      const Full stale = full_.front();
      pop_full();
      const ConstraintState& c = constraints_[stale.constraint];
      if (c.weight > 0) push_full({std::max(0.0, c.left) / c.weight, stale.constraint, c.version});
    }
    const auto [limit, limited] = by_limit_[next];
    if (full_.empty() || limit <= full_.front().level) {
      stop(limited, limit);
      continue;
    }
    const Full full = full_.front();
    pop_full();
    for (const Use& use : constraints_[full.constraint].users) {
      if (variables_[use.variable].is_fixed) continue;
      if (!has_lines_) variables_[use.variable].stopped_by = full.constraint;
      stop(use.variable, full.level);
    }
  }
}

/// Those whose rates were kept though, of a constraint that others cross at new ones, they could have more, or have more than their share.
void FairShare::hold_against(Constraint id) {
  const ConstraintState& c = constraints_[id];
  double highest = 0;
  double full_at = kUnbounded;
  for (const Use& use : c.users) {
    const VariableState& v = variables_[use.variable];
    if (v.visited != stamp_) continue;
    highest = std::max(highest, v.limit);
    if (v.stopped_by == id) full_at = std::min(full_at, v.limit);
  }
  const bool has_room = c.left > c.capacity * kSameRate;
  for (const Use& use : c.users) {
    const VariableState& v = variables_[use.variable];
    if (v.visited == stamp_) continue;
    const bool may_rise = v.stopped_by == id && (has_room || v.limit * (1 + kSameRate) < highest);
    if (may_rise || v.limit > full_at * (1 + kSameRate)) wider_.push_back(use.variable);
  }
}

/// More variables whose rates must change, given those that have; false: none.
bool FairShare::widen() {
  wider_.clear();
  for (const Touched& touched : component_constraints_) {
    const ConstraintState& c = constraints_[touched.constraint];
    if (c.capacity != kUnbounded && (touched.was_full || c.left <= c.capacity * kSameLevel)) hold_against(touched.constraint);
  }
  for (Variable id : wider_) visit_variable(id);
  return !wider_.empty();
}

/// Rates are max-min fair where, and only where, everybody is at his bound or crosses a full constraint in which nobody has more. So it is
/// enough to find new rates for a few that leave this true of all.
bool FairShare::solve_changed() {
  if (has_lines_ || is_capacity_changed_) return false;
  collect_changed();
  if (component_.size() == alone_) return true;
  for (int round = 0; round < kMostRounds; ++round) {
    fill();
    if (!widen()) return true;
  }
  return false;
}

void FairShare::solve_component() {
  component_.resize(alone_);
  component_constraints_.clear();
  ++stamp_;
  for (Variable id : component_) variables_[id].visited = stamp_;
  collect_component();
  for (const Touched& touched : component_constraints_) constraints_[touched.constraint].left = constraints_[touched.constraint].capacity;
  for (std::size_t i = alone_; i < component_.size(); ++i) variables_[component_[i]].rate = 0;
  if (component_.size() > alone_) fill();
}

void FairShare::solve() {
  solve_those_alone();
  if (!solve_changed()) solve_component();
  std::sort(component_.begin() + static_cast<std::ptrdiff_t>(alone_), component_.end());
  dirty_constraints_.clear();
  dirty_variables_.clear();
  is_capacity_changed_ = false;
}

}  // namespace peal::sim
