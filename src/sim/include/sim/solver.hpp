// Max-min fair sharing by progressive filling: the rates of all variables rise together, each in proportion to its weight, until a
// constraint is full or a variable meets its bound; those stop there, the others go on rising. (Bertsekas and Gallager, Data
// Networks, 6.5.) Knows variables, constraints, weights and bounds, and nothing else. Incremental: solve() touches only the connected
// components in which something was added, removed or changed since the last time; a variable that is alone on its constraints costs
// nothing but them. Not thread-safe. Deterministic.
//
// A variable may stand for a class of variables that are all alike: then constraint i of it is one of a class too, and `counts` says how
// many members cross one such constraint. Rates are those of a member.
#pragma once

#include <cstdint>
#include <limits>
#include <sim/large_pages.hpp>
#include <sim/short_list.hpp>
#include <span>
#include <vector>

namespace peal::sim {

class FairShare {
 public:
  using Constraint = std::uint32_t;
  using Variable = std::uint32_t;
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();

  /// The rates of the variables that use a constraint sum to at most `capacity` (>= 0, or kUnbounded).
  Constraint add_constraint(double capacity);
  void set_capacity(Constraint constraint, double capacity);

  /// A variable that uses `constraints` (no repeats). Its rate is at most `bound`; weight > 0. Numbers of removed variables come again.
  /// Without constraints and without bound its rate is infinite. `counts`: one for each constraint; empty: all are 1.
  Variable add_variable(std::span<const Constraint> constraints, double bound = kUnbounded, double weight = 1,
                        std::span<const double> counts = {});
  void remove_variable(Variable variable);

  struct Link {
    Constraint constraint;
    std::uint32_t place;  // in the constraint's list
    double count;
  };
  /// What a variable in use crosses.
  std::span<const Link> links(Variable variable) const { return {variables_[variable].links.begin(), variables_[variable].links.size()}; }

  /// Makes rates right again. O(v k log v) for the v variables of the touched components, each in k constraints.
  void solve();

  double rate(Variable variable) const { return variables_[variable].rate; }
  /// Variables whose rate the last solve() set anew (their value may be what it was): those that are alone in the order in which they
  /// were added, then the others in ascending order.
  std::span<const Variable> touched() const { return component_; }
  /// Has the memory that remove_variable() needs fetched; fetch_links() a while after fetch().
  void fetch(Variable variable) const {
    const auto* lines = reinterpret_cast<const char*>(&variables_[variable]);
    __builtin_prefetch(lines, 1);
    __builtin_prefetch(lines + 64, 1);
  }
  void fetch_links(Variable variable) const {
    for (const Link& link : variables_[variable].links) __builtin_prefetch(&constraints_[link.constraint], 1);
  }
  std::size_t variables_in_use() const { return variables_.size() - free_.size(); }

 private:
  // Both fill whole cache lines.
  struct alignas(64) VariableState {
    ShortList<Link, 4> links;
    double bound = kUnbounded;
    double weight = 1;
    double rate = 0;
    double limit = 0;  // while solving: the level at which its bound, or a constraint that nobody else uses, stops it
    std::uint32_t visited = 0;
    bool is_used = false;
    bool is_fixed = false;
  };
  struct Use {
    Variable variable;
    std::uint32_t index;  // of this constraint in the variable's list
  };
  struct alignas(64) ConstraintState {
    double capacity = 0;
    double left = 0;    // while solving
    double weight = 0;  // of variables not yet fixed, while solving
    std::uint32_t visited = 0;
    std::uint32_t version = 0;
    ShortList<Use, 3> users;
  };
  static_assert(sizeof(VariableState) == 128 && sizeof(ConstraintState) == 64);
  struct Full {
    double level;
    Constraint constraint;
    std::uint32_t version;
    bool operator>(const Full& o) const { return level != o.level ? level > o.level : constraint > o.constraint; }
  };

  bool solve_alone(Variable variable);
  void visit(Constraint constraint);
  void visit_variable(Variable variable);
  void collect_component();
  void fill();
  void fix(Variable variable, double rate);
  void push_full(const Full& full);
  void pop_full();

  LargeVector<VariableState> variables_;
  LargeVector<ConstraintState> constraints_;
  std::vector<Variable> free_;
  std::vector<Constraint> dirty_constraints_;
  std::vector<Variable> dirty_variables_;
  std::vector<Variable> component_;
  std::vector<Constraint> component_constraints_;
  std::vector<std::pair<double, Variable>> by_limit_;
  std::vector<Full> full_;  // a heap, lowest level first
  std::size_t alone_ = 0;   // of component_, from the front: solved already
  std::uint32_t stamp_ = 0;
};

}  // namespace peal::sim
