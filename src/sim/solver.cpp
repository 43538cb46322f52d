#include <algorithm>
#include <functional>
#include <sim/solver.hpp>

namespace peal::sim {

FairShare::Constraint FairShare::add_constraint(double capacity) {
  constraints_.emplace_back().capacity = capacity;
  return static_cast<Constraint>(constraints_.size() - 1);
}

void FairShare::set_capacity(Constraint constraint, double capacity) {
  constraints_[constraint].capacity = capacity;
  dirty_constraints_.push_back(constraint);
}

FairShare::Variable FairShare::add_variable(std::span<const Constraint> constraints, double bound, double weight,
                                            std::span<const double> counts) {
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
  v.is_used = true;
  for (std::uint32_t i = 0; i < constraints.size(); ++i) {
    auto& users = constraints_[constraints[i]].users;
    v.links.push_back({constraints[i], static_cast<std::uint32_t>(users.size()), counts.empty() ? 1 : counts[i]});
    users.push_back({id, i});
  }
  dirty_variables_.push_back(id);
  return id;
}

void FairShare::remove_variable(Variable id) {
  VariableState& v = variables_[id];
  for (const Link& link : v.links) {
    auto& users = constraints_[link.constraint].users;
    const Use last = users.back();
    users[link.place] = last;
    variables_[last.variable].links[last.index].place = link.place;
    users.pop_back();
    if (!users.empty()) dirty_constraints_.push_back(link.constraint);
  }
  v.is_used = false;
  free_.push_back(id);
}

/// Nobody else crosses what it crosses: true, and its rate is set.
bool FairShare::solve_alone(Variable id) {
  VariableState& v = variables_[id];
  double level = v.bound / v.weight;
  for (const Link& link : v.links) {
    const ConstraintState& c = constraints_[link.constraint];
    if (c.users.size() != 1) return false;
    if (c.capacity != kUnbounded) level = std::min(level, std::max(0.0, c.capacity) / (v.weight * link.count));
  }
  v.rate = level * v.weight;
  return true;
}

void FairShare::visit(Constraint c) {
  if (constraints_[c].visited == stamp_) return;
  constraints_[c].visited = stamp_;
  component_constraints_.push_back(c);
}

void FairShare::visit_variable(Variable id) {
  VariableState& v = variables_[id];
  if (!v.is_used || v.visited == stamp_) return;
  v.visited = stamp_;
  component_.push_back(id);
  for (const Link& link : v.links) visit(link.constraint);
}

void FairShare::collect_component() {
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
  for (Constraint c : dirty_constraints_) visit(c);
  for (Variable v : dirty_variables_) visit_variable(v);
  for (std::size_t i = 0; i < component_constraints_.size(); ++i)
    for (std::size_t u = 0; u < constraints_[component_constraints_[i]].users.size(); ++u)
      visit_variable(constraints_[component_constraints_[i]].users[u].variable);
  dirty_constraints_.clear();
  dirty_variables_.clear();
  std::sort(component_.begin() + static_cast<std::ptrdiff_t>(alone_), component_.end());
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

void FairShare::fill() {
  const std::span<const Variable> component(component_.begin() + static_cast<std::ptrdiff_t>(alone_), component_.end());
  for (Constraint id : component_constraints_) {
    ConstraintState& c = constraints_[id];
    c.left = c.capacity;
    c.weight = 0;
  }
  by_limit_.clear();
  for (Variable id : component) {
    VariableState& v = variables_[id];
    v.is_fixed = false;
    v.limit = v.bound / v.weight;
    for (const Link& link : v.links) {
      ConstraintState& c = constraints_[link.constraint];
      c.weight += link.count * v.weight;
      if (c.users.size() == 1 && c.capacity != kUnbounded) v.limit = std::min(v.limit, std::max(0.0, c.capacity) / c.weight);
    }
    by_limit_.emplace_back(v.limit, id);
  }
  std::sort(by_limit_.begin(), by_limit_.end());
  full_.clear();
  for (Constraint id : component_constraints_) {
    const ConstraintState& c = constraints_[id];
    if (c.users.size() > 1 && c.capacity != kUnbounded) full_.push_back({std::max(0.0, c.left) / c.weight, id, c.version});
  }
  std::make_heap(full_.begin(), full_.end(), std::greater<>());
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
      fix(limited, limit * variables_[limited].weight);
      continue;
    }
    const Full full = full_.front();
    pop_full();
    for (const Use& use : constraints_[full.constraint].users)
      if (!variables_[use.variable].is_fixed) fix(use.variable, full.level * variables_[use.variable].weight);
  }
}

void FairShare::solve() {
  collect_component();
  if (component_.size() > alone_) fill();
}

}  // namespace peal::sim
