// Ranks that share a core take turns. Who waits yields, so the core goes round its ranks in order, and every rank that it passes costs a
// switch, whether it finds something to do or not. A rank that has the core keeps it until it must wait. The predictor and the simulator
// read the same rule.
#pragma once

#include <tuning/environment.hpp>
#include <vector>

namespace peal::tuning {

class CoreTurns {
 public:
  explicit CoreTurns(const Environment& environment);

  /// Ranks on the core of `rank`; 1 for GPUs.
  int sharing(std::int32_t rank) const { return places_.empty() ? 1 : places_[static_cast<std::size_t>(rank)].of; }

  /// How many ranks the core passes from `last` (-1: it has run none) to `rank`; 0 from a rank to itself.
  int steps(std::int32_t last, std::int32_t rank) const {
    if (places_.empty()) return 0;
    const Place& to = places_[static_cast<std::size_t>(rank)];
    const int from = last < 0 ? 0 : places_[static_cast<std::size_t>(last)].at;
    return (to.at - from + to.of) % to.of;
  }

  /// Nanoseconds from the end of what `last` did to the start of `rank`.
  double cost(std::int32_t last, std::int32_t rank) const { return switch_ns_ * steps(last, rank); }

  /// Of strands that wait for a core, the one that has it next: the first of the rank that comes round first. `rank_of(strand)`.
  template <typename Line, typename RankOf>
  typename Line::const_iterator next(const Line& line, std::int32_t last, const RankOf& rank_of) const {
    auto best = line.begin();
    for (auto it = line.begin(); it != line.end(); ++it)
      if (steps(last, rank_of(*it)) < steps(last, rank_of(*best))) best = it;
    return best;
  }

 private:
  struct Place {
    std::int32_t at;  ///< among the ranks of its core
    std::int32_t of;  ///< ranks on its core
  };
  std::vector<Place> places_;
  double switch_ns_ = 0;
};

}  // namespace peal::tuning
