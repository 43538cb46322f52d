// Max-min fair sharing by progressive filling: the rates of all variables rise together, each in proportion to its weight, until a
// constraint is full or a variable meets its bound; those stop there, the others go on rising. (Bertsekas and Gallager, Data
// Networks, 6.5.) Knows variables, constraints, weights and bounds, and nothing else. Incremental: a variable that is alone on its
// constraints costs nothing but them; of others solve() finds new rates for those that were added or stopped where something was removed,
// given the rates of all others, and for those others for whom that is wrong, until it is right of all. Not thread-safe. Deterministic.
//
// A constraint may be a line: those who use it pass one behind the other, so whoever is stopped further on, by a constraint later in its
// list, keeps all who use the line from passing faster than itself, and they in turn those who share their lines before. With lines the
// rates are not max-min fair: they are what a network of queues comes to that lose nothing and push back.
//
// A variable may stand for a class of variables that are all alike: then constraint i of it is one of a class too, and `counts` says how
// many members cross one such constraint. Rates are those of a member.
#pragma once

#include <cstdint>
#include <limits>
#include <sim/fetch.hpp>
#include <sim/filling.hpp>
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
  static constexpr Constraint kNowhere = std::numeric_limits<Constraint>::max();

  /// The rates of the variables that use a constraint sum to at most `capacity` (>= 0, or kUnbounded).
  Constraint add_constraint(double capacity, bool is_line = false);
  void set_capacity(Constraint constraint, double capacity);

  /// A variable that uses `constraints` (no repeats). Its rate is at most `bound`; weight > 0. Numbers of removed variables come again.
  /// Without constraints and without bound its rate is infinite. `counts`: one for each constraint; empty: all are 1. `holds_up`: where it
  /// is stopped, those who stand behind it in a line are.
  Variable add_variable(std::span<const Constraint> constraints, double bound = kUnbounded, double weight = 1,
                        std::span<const double> counts = {}, bool holds_up = true);
  /// `carried`: an amount in the owner's unit that is added to what each of its constraints has carried, as often as it crossed it.
  void remove_variable(Variable variable, double carried = 0);
  /// From now on it holds nobody up.
  void let_pass(Variable variable);

  struct Link {
    Constraint constraint;
    std::uint32_t place;  // in the constraint's list
    double count;
  };
  /// What a variable in use crosses.
  std::span<const Link> links(Variable variable) const { return {variables_[variable].links.begin(), variables_[variable].links.size()}; }

  /// Makes rates right again. O(v k log v) for v variables that are solved anew, each in k constraints; with lines, and after a change of
  /// a capacity, these are all of the touched components.
  void solve();

  double rate(Variable variable) const { return variables_[variable].rate; }
  double bound(Variable variable) const { return variables_[variable].bound; }
  /// The constraint that keeps a variable from going faster; of several one, where there are lines the last in its list; kNowhere: its
  /// bound.
  Constraint stopped_by(Variable variable) const { return variables_[variable].stopped_by; }
  bool is_line(Constraint constraint) const { return constraint < lines_.size() && lines_[constraint].is_line; }
  double capacity(Constraint constraint) const { return constraints_[constraint].capacity; }
  /// Of the capacity, by those who use it.
  double left(Constraint constraint) const { return constraints_[constraint].left; }
  /// How many variables use a line, members of classes counted one by one.
  double users(Constraint line) const { return lines_[line].members; }
  /// Variables whose rate the last solve() set anew (their value may be what it was): those that are alone in the order in which they
  /// were added, then the others in ascending order.
  std::span<const Variable> touched() const { return component_; }
  /// Has the memory that remove_variable() needs fetched; fetch_links() a while after fetch().
  void fetch(Variable variable) const { fetch_line(&variables_[variable]); }
  void fetch_links(Variable variable) const {
    for (const Link& link : variables_[variable].links) fetch_line(&constraints_[link.constraint]);
  }
  void fetch_constraint(Constraint constraint) const { fetch_line(&constraints_[constraint]); }
  /// The same of one constraint; and the sum.
  void carry(Constraint constraint, double amount) { constraints_[constraint].carried += amount; }
  double carried(Constraint constraint) const { return constraints_[constraint].carried; }
  std::size_t constraints() const { return constraints_.size(); }
  bool is_used(Variable variable) const { return variables_[variable].is_used(); }
  /// Rates that have been worked out together with others', each time anew; what a solution costs goes with them.
  std::uint64_t solved() const { return solved_; }
  /// Those in use, and numbers that will come again.
  std::size_t variables() const { return variables_.size(); }

 private:
  // Both fill whole cache lines. All that remove_variable() needs lies in the first, where there are three links at most.
  struct alignas(64) VariableState {
    double rate = kUnused;
    ShortList<Link, 6> links;
    double bound = kUnbounded;
    double weight = 1;
    double level = 0;  // rate / weight
    Constraint stopped_by = kNowhere;
    std::uint32_t visited = 0;  // the last solution of which it is part
    bool holds_up = true;

    bool is_used() const { return rate >= 0; }
  };
  static constexpr double kUnused = -1;
  struct Use {
    Variable variable;
    std::uint32_t index;  // of this constraint in the variable's list
  };
  struct alignas(64) ConstraintState {
    double capacity = 0;
    double left = 0;  // of the capacity, by those who use it
    double carried = 0;
    std::uint32_t visited = 0;
    Filling::Number limit = 0;  // of the last solution of which it is part
    ShortList<Use, 3> users;
  };
  static_assert(sizeof(VariableState) == 192 && sizeof(ConstraintState) == 64);
  /// Of a constraint that is a line.
  struct LineState {
    double members = 0;  // of its users
    bool is_line = false;
  };
  /// A constraint that is part of a solution.
  struct Touched {
    Constraint constraint;
    bool was_full;
  };
  /// What is taken out of the constraints that a variable crosses, before they are filled again.
  enum class Gives : std::uint8_t { back_its_rate, all_users_start_afresh };

  bool solve_alone(Variable variable);
  void solve_those_alone();
  bool solve_changed();
  void solve_component();
  void begin_solution();
  Filling::Number limit_of(Constraint constraint, Gives gives);
  void visit(Variable variable);
  void enter_visited(Gives gives);
  void hold_against(Filling::Number limit);
  bool widen();
  void fill();
  void keep_solution();

  LargeVector<VariableState> variables_;
  LargeVector<ConstraintState> constraints_;
  std::vector<Variable> free_;
  std::vector<Constraint> dirty_constraints_;
  std::vector<Variable> dirty_variables_;
  std::vector<Variable> component_;  // solved anew; from alone_ on together, as the members of filling_
  std::vector<Touched> limits_;      // as the limits of filling_
  std::vector<Variable> wider_;
  Filling filling_;
  bool has_lines_ = false;
  bool is_capacity_changed_ = false;
  std::vector<LineState> lines_;  // by constraint, where there are any
  std::size_t alone_ = 0;         // of component_, from the front: solved already
  std::uint32_t stamp_ = 0;
  std::uint64_t solved_ = 0;
};

}  // namespace peal::sim
