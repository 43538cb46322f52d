#include <algorithm>
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

FairShare::Variable FairShare::add_variable(std::span<const Constraint> constraints, double bound, double weight) {
  Variable id;
  if (free_.empty()) {
    id = static_cast<Variable>(variables_.size());
    variables_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  VariableState& v = variables_[id];
  v.constraints.assign(constraints.begin(), constraints.end());
  v.place.clear();
  v.bound = bound;
  v.weight = weight;
  v.rate = 0;
  v.is_used = true;
  for (std::uint32_t i = 0; i < v.constraints.size(); ++i) {
    auto& users = constraints_[v.constraints[i]].users;
    v.place.push_back(static_cast<std::uint32_t>(users.size()));
    users.push_back({id, i});
  }
  dirty_variables_.push_back(id);
  return id;
}

void FairShare::remove_variable(Variable id) {
  VariableState& v = variables_[id];
  for (std::size_t i = 0; i < v.constraints.size(); ++i) {
    auto& users = constraints_[v.constraints[i]].users;
    const Use last = users.back();
    users[v.place[i]] = last;
    variables_[last.variable].place[last.index] = v.place[i];
    users.pop_back();
    dirty_constraints_.push_back(v.constraints[i]);
  }
  v.is_used = false;
  free_.push_back(id);
}

void FairShare::collect_component() {
  ++stamp_;
  component_.clear();
  component_constraints_.clear();
  const auto visit_constraint = [&](Constraint c) {
    if (constraints_[c].visited == stamp_) return;
    constraints_[c].visited = stamp_;
    component_constraints_.push_back(c);
  };
  const auto visit_variable = [&](Variable id) {
    VariableState& v = variables_[id];
    if (!v.is_used || v.visited == stamp_) return;
    v.visited = stamp_;
    component_.push_back(id);
    for (Constraint c : v.constraints) visit_constraint(c);
  };
  for (Constraint c : dirty_constraints_) visit_constraint(c);
  for (Variable v : dirty_variables_) visit_variable(v);
  for (std::size_t i = 0; i < component_constraints_.size(); ++i)
    for (std::size_t u = 0; u < constraints_[component_constraints_[i]].users.size(); ++u)
      visit_variable(constraints_[component_constraints_[i]].users[u].variable);
  dirty_constraints_.clear();
  dirty_variables_.clear();
  std::sort(component_.begin(), component_.end());
}

void FairShare::push_level(Constraint id) {
  ConstraintState& c = constraints_[id];
  ++c.version;
  if (c.weight <= 0 || c.capacity == kUnbounded) return;
  full_.push({std::max(0.0, c.left) / c.weight, id, c.version});
}

void FairShare::fix(Variable id, double rate) {
  VariableState& v = variables_[id];
  v.rate = rate;
  v.is_fixed = true;
  for (Constraint k : v.constraints) {
    ConstraintState& c = constraints_[k];
    c.left -= rate;
    c.weight -= v.weight;
    if (c.weight < 1e-12) c.weight = 0;
    ++c.version;
  }
}

void FairShare::fill() {
  full_ = {};
  for (Constraint id : component_constraints_) {
    ConstraintState& c = constraints_[id];
    c.left = c.capacity;
    c.weight = 0;
  }
  for (Variable id : component_) {
    VariableState& v = variables_[id];
    v.is_fixed = false;
    for (Constraint c : v.constraints) constraints_[c].weight += v.weight;
  }
  std::vector<Variable> by_bound(component_);
  std::stable_sort(by_bound.begin(), by_bound.end(), [&](Variable a, Variable b) {
    return variables_[a].bound / variables_[a].weight < variables_[b].bound / variables_[b].weight;
  });
  for (Constraint id : component_constraints_) push_level(id);
  std::size_t next_bound = 0;
  for (;;) {
    while (next_bound < by_bound.size() && variables_[by_bound[next_bound]].is_fixed) ++next_bound;
    if (next_bound == by_bound.size()) break;
    while (!full_.empty() && full_.top().version != constraints_[full_.top().constraint].version) {
      // Variables left it since: its level has risen, look again.
      const Full stale = full_.top();
      full_.pop();
      ConstraintState& c = constraints_[stale.constraint];
      if (c.weight > 0) full_.push({std::max(0.0, c.left) / c.weight, stale.constraint, c.version});
    }
    const VariableState& bounded = variables_[by_bound[next_bound]];
    const double bound_level = bounded.bound / bounded.weight;
    if (full_.empty() || bound_level <= full_.top().level) {
      fix(by_bound[next_bound], bounded.bound);
      continue;
    }
    const Full full = full_.top();
    full_.pop();
    for (const Use& use : constraints_[full.constraint].users)
      if (!variables_[use.variable].is_fixed) fix(use.variable, full.level * variables_[use.variable].weight);
  }
}

void FairShare::solve() {
  collect_component();
  if (!component_.empty()) fill();
}

}  // namespace peal::sim
