// First the fullest of several packings of equal rings. Where that stays behind the most that rings can carry (mixture.hpp), rings of
// unlike shares are tried: for each number of shares the mixture rounded to whole ones and then mended, or a packing and what fits beside
// it.
#include <algorithm>
#include <functional>
#include <numeric>
#include <tuning/mixture.hpp>
#include <tuning/ring_set.hpp>

#include "ring_packing.hpp"
#include "ring_shares.hpp"

namespace peal::tuning {

namespace {

constexpr std::size_t kMostRings = 16;   // of equal shares
constexpr int kTries = 400;              // packings a unit
constexpr int kTriesBeforeMost = 40;     // before it is asked how much more there could be
constexpr double kLeastGain = 1.005;     // over one ring
constexpr double kEnoughOfMost = 0.999;  // of the most; what rings of equal shares carry is enough from kEnoughOfEqual on
constexpr double kNearlyEnough = 0.991;
constexpr double kEnoughOfEqual = 0.99;
constexpr double kLeastGainOfShares = 1.005;

/// Widths of pairs, and parts of them that several rings may share; the widest first.
std::vector<double> units_of(const Wiring& wiring) {
  std::vector<double> units;
  for (const Wiring::Way& way : wiring.ways)
    for (int part = 1; part <= 4 && !way.wires.empty(); ++part) units.push_back(wiring.width(way) / part);
  std::sort(units.begin(), units.end(), std::greater<>());
  units.erase(std::unique(units.begin(), units.end(), [](double a, double b) { return a - b < 1e-6 * a; }), units.end());
  return units;
}

/// The most that rings can carry, found when it is first asked for.
class Most {
 public:
  explicit Most(const Wiring& wiring) : wiring_(wiring), bound_(rate_at_the_ends(wiring)) {}

  const Mixture& mixture() {
    if (is_found_) return mixture_;
    is_found_ = true;
    mixture_ = mix_rings(wiring_);
    if (mixture_.bound > 0) bound_ = std::min(bound_, mixture_.bound);
    return mixture_;
  }
  /// What is known of it so far.
  double bound() const { return bound_; }

 private:
  const Wiring& wiring_;
  double bound_;
  bool is_found_ = false;
  Mixture mixture_;
};

/// The fullest of several packings, if it carries more than `rate`, which is then what it carries.
Rings pack_most(const Wiring& wiring, Most& most_of_all, double& rate) {
  Rings best;
  Shuffler shuffler;
  int tries = 0;
  for (const double unit : units_of(wiring)) {
    RingPacking packing(wiring, unit);
    const std::size_t most = std::min(packing.most(), kMostRings);
    for (int i = 0; i < kTries && rate < most_of_all.bound() * (1 - 1e-6) && static_cast<double>(most) * unit > rate * (1 + 1e-6); ++i) {
      if (++tries == kTriesBeforeMost) most_of_all.mixture();
      Rings rings = packing.pack(shuffler, most, i % 2 == 0);
      const double found = static_cast<double>(rings.size()) * unit;
      if (rings.size() < 2 || found <= rate * (1 + 1e-6)) continue;
      rate = found;
      best = std::move(rings);
    }
  }
  return best;
}

}  // namespace

std::int32_t RingSet::all_shares() const {
  return shares.empty() ? static_cast<std::int32_t>(rings.size()) : std::accumulate(shares.begin(), shares.end(), 0);
}

double rate_of(const Wiring& wiring, const RingSet& set) {
  std::vector<int> uses(wiring.capacity.size(), 0);
  for (std::size_t k = 0; k < set.rings.size(); ++k) {
    const std::vector<std::int32_t>& ring = set.rings[k];
    for (std::size_t p = 0; p < ring.size(); ++p) {
      const Wiring::Way* way = wiring.way(ring[p], ring[(p + 1) % ring.size()]);
      if (way == nullptr) return 0;
      for (const std::uint16_t w : way->wires) uses[w] += set.share(k);
    }
  }
  double each = 0;
  for (std::size_t w = 0; w < uses.size(); ++w)
    if (uses[w] > 0 && (each == 0 || wiring.capacity[w] / uses[w] < each)) each = wiring.capacity[w] / uses[w];
  return each * set.all_shares();
}

RingSet find_rings(const Wiring& wiring, const std::vector<std::int32_t>& ring) {
  if (wiring.ranks < 3 || wiring.ranks > kMostMixedRanks) return {};
  std::vector<std::int32_t> alone = ring;
  if (alone.empty()) {
    alone.resize(static_cast<std::size_t>(wiring.ranks));
    std::iota(alone.begin(), alone.end(), 0);
  }
  double rate = kLeastGain * rate_of(wiring, {{std::move(alone)}, {}});
  Most most(wiring);
  RingSet best{pack_most(wiring, most, rate), {}};
  if (rate >= most.bound() * (1 - 1e-6)) return best;
  const Mixture& mixture = most.mixture();
  if (rate >= kEnoughOfEqual * mixture.total) return best;
  const Rings packed = best.rings;
  const double least = kLeastGainOfShares * rate;
  for (const double enough : {kEnoughOfMost, kNearlyEnough}) {
    for (std::int32_t shares = 2; shares * wiring.ranks <= kMostChunks && rate < enough * mixture.total; ++shares) {
      RingSet set = share_out(wiring, mixture, packed, shares, enough * mixture.total);
      const double found = rate_of(wiring, set);
      if (found <= std::max(least, rate * (1 + 1e-6))) continue;
      rate = found;
      best = std::move(set);
    }
  }
  if (std::adjacent_find(best.shares.begin(), best.shares.end(), std::not_equal_to<>()) == best.shares.end()) best.shares.clear();
  return best;
}

}  // namespace peal::tuning
