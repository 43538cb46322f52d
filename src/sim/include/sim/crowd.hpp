// Flows that are all in each other's way: their rates are worked out for all at once, now and then, and not where something changed. So no
// list is kept of who crosses what, and what comes or goes between costs little but the memory of what it crosses. Rates are max-min fair
// each time that they are worked out, as FairShare's, whose variables and constraints these are, in the owner's unit. Numbers that are not
// in use are not asked for. Not thread-safe. Deterministic.
#pragma once

#include <cstdint>
#include <sim/fetch.hpp>
#include <sim/filling.hpp>
#include <sim/large_pages.hpp>
#include <sim/short_list.hpp>
#include <sim/solver.hpp>
#include <span>
#include <vector>

namespace peal::sim {

class Crowd {
 public:
  using Constraint = FairShare::Constraint;
  using Variable = FairShare::Variable;

  Crowd() = default;
  /// Takes over all that it knows, under the same numbers, with the rates at hand and what has been solved. Of lines, weights and what
  /// holds up nothing is kept.
  explicit Crowd(const FairShare& share);

  Constraint add_constraint(double capacity);
  /// As FairShare::add_variable, all of the same weight; counts are kept to the precision of a float. Its rate until the next solve() is
  /// what the others leave of its constraints, or most of an equal share where that is more: constraints may then be overdrawn, as others
  /// are not slowed down.
  Variable add_variable(std::span<const Constraint> constraints, double bound, std::span<const double> counts = {});
  /// `carried`: as FairShare::remove_variable.
  void remove_variable(Variable variable, double carried);
  /// Works out all rates anew. O(v k log v) for v variables in k constraints each.
  void solve();

  double rate(Variable variable) const { return variables_[variable].rate; }
  bool is_used(Variable variable) const { return variables_[variable].rate >= 0; }
  std::size_t variables_in_use() const { return variables_.size() - free_.size(); }
  /// In ascending order.
  template <class F>
  void each_variable(F&& f) const {
    for (Variable id = 0; id < variables_.size(); ++id)
      if (is_used(id)) f(id);
  }
  void carry(Constraint constraint, double amount) { constraints_[constraint].carried += amount; }
  double carried(Constraint constraint) const { return constraints_[constraint].carried; }
  std::size_t constraints() const { return constraints_.size(); }
  /// Rates that have been worked out, each time anew, those of the FairShare among them.
  std::uint64_t solved() const { return solved_; }
  /// Has the memory that remove_variable() needs fetched; fetch_links() a while after fetch().
  void fetch(Variable variable) const { fetch_line(&variables_[variable]); }
  void fetch_links(Variable variable) const {
    for (const Link& link : variables_[variable].links) fetch_line(&constraints_[link.constraint]);
  }
  void fetch_constraint(Constraint constraint) const { fetch_line(&constraints_[constraint]); }

 private:
  struct Link {
    Constraint constraint;
    float count;
  };
  // Two cache lines.
  struct alignas(64) VariableState {
    double rate = kUnused;
    double bound = FairShare::kUnbounded;
    ShortList<Link, 13> links;
  };
  static constexpr double kUnused = -1;
  struct alignas(32) ConstraintState {
    double capacity = 0;
    double left = 0;  // of the capacity, by those who use it
    double carried = 0;
    std::uint32_t users = 0;
    Filling::Number limit = Filling::kNone;  // of the solution that is being worked out
  };
  static_assert(sizeof(VariableState) == 128 && sizeof(ConstraintState) == 32);

  void enter(const VariableState& variable);

  LargeVector<VariableState> variables_;
  LargeVector<ConstraintState> constraints_;
  std::vector<Variable> free_;
  std::vector<Constraint> shared_;  // the limits of filling_
  Filling filling_;
  std::uint64_t solved_ = 0;
};

}  // namespace peal::sim
