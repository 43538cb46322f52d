#include <algorithm>
#include <sim/crowd.hpp>
#include <sim/take_place.hpp>

namespace peal::sim {

namespace {
/// Of an equal share: with all of it, what crosses a constraint that is full is too much for as long as the others keep their rates. Tried
/// on all-to-alls of 128 to 2,048 ranks over colliding hashes (bench/RESULTS.md, "Rates that are kept").
constexpr double kOfAShare = 0.7;
}  // namespace

Crowd::Crowd(const FairShare& share) : variables_(share.variables()), constraints_(share.constraints()), solved_(share.solved()) {
  for (Constraint c = 0; c < constraints_.size(); ++c) {
    constraints_[c].capacity = share.capacity(c);
    constraints_[c].left = share.left(c);
    constraints_[c].carried = share.carried(c);
  }
  for (Variable id = 0; id < variables_.size(); ++id) {
    if (!share.is_used(id)) {
      free_.push_back(id);
      continue;
    }
    VariableState& v = variables_[id];
    v.rate = share.rate(id);
    v.bound = share.bound(id);
    for (const FairShare::Link& link : share.links(id)) {
      v.links.push_back({link.constraint, static_cast<float>(link.count)});
      ++constraints_[link.constraint].users;
    }
  }
}

Crowd::Constraint Crowd::add_constraint(double capacity) {
  constraints_.push_back({.capacity = capacity, .left = capacity});
  return static_cast<Constraint>(constraints_.size() - 1);
}

Crowd::Variable Crowd::add_variable(std::span<const Constraint> constraints, double bound, std::span<const double> counts) {
  const Variable id = take_place(variables_, free_);
  VariableState& v = variables_[id];
  v.links.clear();
  v.rate = v.bound = bound;
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    ConstraintState& c = constraints_[constraints[i]];
    const Link link{constraints[i], counts.empty() ? 1 : static_cast<float>(counts[i])};
    v.links.push_back(link);
    v.rate = std::min(v.rate, std::max(c.left, kOfAShare * c.capacity / ++c.users) / link.count);
  }
  for (const Link& link : v.links)
    if (constraints_[link.constraint].capacity != FairShare::kUnbounded) constraints_[link.constraint].left -= link.count * v.rate;
  return id;
}

void Crowd::remove_variable(Variable id, double carried) {
  VariableState& v = variables_[id];
  for (const Link& link : v.links) {
    ConstraintState& c = constraints_[link.constraint];
    c.carried += link.count * carried;
    c.left = --c.users == 0 ? c.capacity : c.left + link.count * v.rate;
  }
  v.rate = kUnused;
  free_.push_back(id);
}

/// A constraint that nobody else crosses is a bound.
void Crowd::enter(const VariableState& v) {
  double bound = v.bound;
  for (const Link& link : v.links) {
    const ConstraintState& c = constraints_[link.constraint];
    if (c.users == 1) bound = std::min(bound, std::max(0.0, c.capacity) / link.count);
  }
  filling_.add_member(bound, 1, true);
  for (const Link& link : v.links) {
    ConstraintState& c = constraints_[link.constraint];
    if (c.users == 1) continue;
    if (c.limit == Filling::kNone) {
      c.limit = filling_.add_limit(c.capacity, false);
      shared_.push_back(link.constraint);
    }
    filling_.add_crossing(c.limit, link.count, 0);
  }
}

void Crowd::solve() {
  filling_.clear();
  shared_.clear();
  each_variable([&](Variable id) { enter(variables_[id]); });
  filling_.run();
  solved_ += filling_.members().size();
  Filling::Number number = 0;
  each_variable([&](Variable id) {
    VariableState& v = variables_[id];
    v.rate = filling_.members()[number++].level;
    for (const Link& link : v.links) {
      ConstraintState& c = constraints_[link.constraint];
      if (c.users == 1 && c.capacity != FairShare::kUnbounded) c.left = c.capacity - link.count * v.rate;
    }
  });
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    ConstraintState& c = constraints_[shared_[i]];
    c.left = filling_.limits()[i].left;
    c.limit = Filling::kNone;
  }
}

}  // namespace peal::sim
