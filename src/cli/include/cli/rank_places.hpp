// Where the ranks of this host run and where their memory lies.
#pragma once

#include <base/result.hpp>
#include <discovery/binding.hpp>
#include <functional>
#include <span>
#include <vector>

namespace peal::cli {

struct RankPlace {
  std::vector<int> cpus;  ///< as the system numbers them
  int domain = 0;         ///< NUMA domain of the first of them
};

/// Of `ranks` ranks, in order: the k-th on the k-th core that has a processor in `allowed`, as the cost model takes it; where ranks are
/// more than cores, neighbours share one, each with hardware threads of its own as far as there are enough of them. Empty where no core
/// may be used. Linear in ranks and processors.
std::vector<RankPlace> place_ranks(const std::vector<discovery::CorePlace>& cores, std::span<const int> allowed, int ranks);

/// Holds what ranks are bound to, from before they are started.
class RankBinding {
 public:
  /// Nothing is bound.
  RankBinding() = default;
  /// For ranks that this process is to start here. PEAL_BIND_MEMORY=0 leaves memory alone. What comes of memory is logged, once: as a
  /// warning where it costs something.
  static Result<RankBinding> find(int ranks);
  /// Binds the calling process, which has one thread and is to become the index-th rank.
  void bind(int index) const;

 private:
  std::vector<RankPlace> places_;
  std::function<int(int domain)> prefer_;  // empty: memory is left alone
};

}  // namespace peal::cli
