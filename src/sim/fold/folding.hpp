// Which ranks behave alike, so that one of each class is simulated for all.
//
// A folding is an equitable partition of ranks, channels and resources. Ranks of a class run programs of one shape; the k-th channel that
// one of them names is of the same class as the k-th of any other (of strands that can be exchanged, as many are of each class); channels
// of a class end at ranks of one class, cost the same and cross as many resources of each class; resources of a class have one capacity and
// are crossed by as many channels of each class. Then, by induction over the events, members of a class do the same at the same time: the
// sets of flows under way are unions of classes, and max-min fair rates, which are unique, are equal within them. So a simulation of one
// rank a class, in which one strand stands for those of a rank that can be exchanged and whose channels are of one class, and a flow of
// class F counts on a resource of class R as many times as flows of F cross one of R, gives the times of the whole (Boldi and Vigna,
// "Fibrations of graphs", 2002, call this the base of a fibration).
#pragma once

#include <memory>
#include <sim/interpret.hpp>
#include <span>

#include "implied_wires.hpp"
#include "message_sizes.hpp"

namespace peal::sim {

class Folding {
 public:
  static constexpr std::uint64_t kNoName = ~std::uint64_t{0};
  /// A class that something belongs to: a name that no other class has, and its members.
  struct Kin {
    std::uint64_t name = 0;
    double members = 1;
  };

  virtual ~Folding() = default;
  std::int32_t classes() const { return static_cast<std::int32_t>(representatives_.size()); }
  /// The lowest rank of the class of `rank`.
  std::int32_t representative(std::int32_t rank) const {
    return representatives_[static_cast<std::size_t>(class_of_[static_cast<std::size_t>(rank)])];
  }
  /// Of the channel `number` from one rank to another; kNoName where there is none, as far as is known.
  virtual Kin channel(std::int32_t from, std::int32_t to, std::int32_t number) const = 0;
  virtual Kin resource(topology::ResourceId id) const = 0;
  double members(std::int32_t rank) const { return members_[static_cast<std::size_t>(class_of_[static_cast<std::size_t>(rank)])]; }
  /// Of each strand of a representative's program the first that does the same at the same time, by a channel of the same class.
  std::vector<std::uint32_t> twins(const schedule::Program& program, const MessageSizes& sizes) const;

 protected:
  /// Classes are numbered from 0 by their lowest rank.
  void set_classes(std::vector<std::int32_t> class_of);

 private:
  std::vector<std::int32_t> class_of_;
  std::vector<std::int32_t> representatives_;
  std::vector<double> members_;  // by class
};

/// What is to be folded; all of it outlives the folding.
struct Unfolded {
  const tuning::Plan& plan;
  const topology::Resources& resources;
  std::span<const int> device_of_rank;
  const tuning::Environment& environment;
  tuning::Wires wires;
  const Perturbation& perturbation;
  const MessageSizes& sizes;
  const ImpliedWires& implied;
};

/// Ranks on machines that are all alike on a fabric that treats them alike, with programs that differ only by where they stand: rank r and
/// r + (ranks of a machine) are of one class. O(ranks), also where everybody talks to everybody. Null where it is not so.
std::unique_ptr<Folding> fold_by_machine(const Unfolded& whole);

/// The ranks of a machine, where ranks are on machines that are all alike, on a fabric that treats them alike; else 0.
std::int32_t ranks_of_alike_machines(const Unfolded& whole);

/// Ranks on such machines that play unlike parts, as in a tree: machines by refinement of colours over the channels between them, ranks by
/// the machine and where they stand in it. Not the coarsest, since ranks of one machine are told apart, but no more than the machines and
/// what crosses them is refined. Null where it is not so, and where more than half of the machines would be classes of their own.
struct ByPartsOrNot {
  std::unique_ptr<Folding> folding;
  bool is_hopeless = false;  ///< more than half of the ranks are told apart by their programs alone: no other folding helps
};
ByPartsOrNot fold_by_parts(const Unfolded& whole, std::size_t most_channels);

/// The coarsest folding there is, by refinement of colours over all channels. O((ranks + channels) log ranks). Null where programs do what
/// it does not look into, or name more than `most_channels`, and where more than half of the ranks would be classes of their own.
std::unique_ptr<Folding> fold_by_colours(const Unfolded& whole, std::size_t most_channels);

/// How an interpretation is made smaller.
struct Fold {
  std::unique_ptr<Folding> folding;    ///< null: every rank is simulated
  ImpliedWires implied;                ///< that need not be simulated
  bool takes_chunks_as_equal = false;  ///< only where ranks would be too many otherwise
  double messages = 0;                 ///< to be simulated one by one, about; 0: nobody counted
  bool repeats = false;                ///< pieces that repeat are counted
};
/// Channels that the programs of a plan name, about, as some ranks tell; those that several ops name count several times.
double named_channels(const tuning::Plan& plan);
Fold fold_of(std::span<const Job> jobs, const topology::Resources& resources, const InterpretOptions& options);

}  // namespace peal::sim
