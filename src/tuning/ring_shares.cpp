#include "ring_shares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "column_generation.hpp"
#include "ring_packing.hpp"

namespace peal::tuning {

namespace {

constexpr int kMostMends = 400;
constexpr int kFills = 150;

using Crossings = std::vector<std::pair<std::uint16_t, int>>;

Crossings crossings_of(const Wiring& wiring, const std::vector<std::int32_t>& ring) {
  std::map<std::uint16_t, int> times;
  for (std::size_t p = 0; p < ring.size(); ++p)
    for (const std::uint16_t wire : wiring.way(ring[p], ring[(p + 1) % ring.size()])->wires) ++times[wire];
  return {times.begin(), times.end()};
}

/// Shares of known rings, moved from ring to ring as long as wires that are too full gain by it.
class Rounding {
 public:
  Rounding(const Wiring& wiring, const Mixture& mixture, std::int32_t shares, double rate)
      : wiring_(wiring), each_(rate / shares), rings_(mixture.shapes) {
    rings_.insert(rings_.end(), mixture.others.begin(), mixture.others.end());
    for (const std::vector<std::int32_t>& ring : rings_) crossings_.push_back(crossings_of(wiring, ring));
    uses_.resize(wiring.capacity.size(), 0);
    shares_.resize(rings_.size(), 0);
    // By largest remainders.
    std::vector<std::size_t> order(mixture.shapes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<double> remainder;
    std::int32_t left = shares;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double exact = mixture.rates[i] * shares / mixture.total;
      const auto whole = static_cast<std::int32_t>(exact + 1e-6);
      remainder.push_back(exact - whole);
      give(i, whole);
      left -= whole;
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b] + kTiny; });
    for (std::size_t i = 0; left > 0; --left) give(order[i++ % order.size()], 1);
  }

  RingSet mended() {
    for (int i = 0; i < kMostMends && mend(); ++i) {
    }
    RingSet set;
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (shares_[i] == 0) continue;
      set.rings.push_back(rings_[i]);
      set.shares.push_back(shares_[i]);
    }
    return set;
  }

 private:
  void give(std::size_t ring, std::int32_t shares) {
    shares_[ring] += shares;
    for (const auto& [wire, times] : crossings_[ring]) uses_[wire] += times * shares;
  }
  /// How much too full a wire is.
  double excess(std::uint16_t wire, int uses) const {
    const double excess = uses * each_ / wiring_.capacity[wire] - 1;
    return excess > kTiny ? excess : 0;
  }
  double change(std::size_t ring, int shares) const {
    double sum = 0;
    for (const auto& [wire, times] : crossings_[ring]) sum += excess(wire, uses_[wire] + shares * times) - excess(wire, uses_[wire]);
    return sum;
  }
  /// Moves the one share that gains most; false where none gains.
  bool mend() {
    double best = -kTiny;
    std::size_t from = 0, to = 0;
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (shares_[i] == 0) continue;
      const double gain = change(i, -1);
      if (gain > best) continue;
      give(i, -1);
      for (std::size_t j = 0; j < rings_.size(); ++j) {
        if (j == i || gain + change(j, 1) >= best) continue;
        best = gain + change(j, 1);
        from = i;
        to = j;
      }
      give(i, 1);
    }
    if (best >= -kTiny) return false;
    give(from, -1);
    give(to, 1);
    return true;
  }

  const Wiring& wiring_;
  double each_;  // GB/s of a share
  std::vector<std::vector<std::int32_t>> rings_;
  std::vector<Crossings> crossings_;
  std::vector<int> uses_;
  std::vector<std::int32_t> shares_;
};

/// Every ring as often as it fits, up to what `wanted` says, and then whatever else does. Empty where that is less than `shares`.
RingSet fill(const Wiring& wiring, const Rings& rings, const std::vector<std::int32_t>& wanted, std::int32_t shares, double rate,
             Shuffler& shuffler) {
  RingPacking packing(wiring, rate / shares);
  RingSet set{rings, std::vector<std::int32_t>(rings.size(), 0)};
  std::int32_t left = shares;
  for (bool is_any = true; is_any && left > 0;) {
    is_any = false;
    for (std::size_t k = 0; k < rings.size() && left > 0; ++k) {
      if (set.shares[k] == wanted[k] || !packing.take(rings[k])) continue;
      ++set.shares[k];
      --left;
      is_any = true;
    }
  }
  for (; left > 0; --left) {
    std::vector<std::int32_t> ring = packing.find(shuffler);
    if (ring.empty()) return {};
    const auto known = std::find(set.rings.begin(), set.rings.end(), ring);
    if (known != set.rings.end()) {
      ++set.shares[static_cast<std::size_t>(known - set.rings.begin())];
      continue;
    }
    set.rings.push_back(std::move(ring));
    set.shares.push_back(1);
  }
  for (std::size_t k = set.rings.size(); k-- > 0;) {
    if (set.shares[k] > 0) continue;
    set.rings.erase(set.rings.begin() + static_cast<std::ptrdiff_t>(k));
    set.shares.erase(set.shares.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return set;
}

/// False where even what all wires are worth together buys less: every ring costs 1 or more.
bool may_fit(const Wiring& wiring, const Mixture& mixture, std::int32_t shares, double rate) {
  if (mixture.price.empty()) return true;
  double worth = 0;
  for (std::size_t w = 0; w < mixture.price.size(); ++w) worth += mixture.price[w] * std::floor(wiring.capacity[w] / rate * shares + 1e-6);
  return worth >= shares * (1 - 1e-6);
}

}  // namespace

RingSet share_out(const Wiring& wiring, const Mixture& mixture, const Rings& packed, std::int32_t shares, double rate) {
  RingSet best = Rounding(wiring, mixture, shares, rate).mended();
  double most = rate_of(wiring, best);
  if (most >= rate * (1 - kTiny) || !may_fit(wiring, mixture, shares, rate)) return best;
  Shuffler shuffler;
  const auto take = [&](const Rings& rings, const std::vector<std::int32_t>& wanted) {
    RingSet filled = fill(wiring, rings, wanted, shares, rate, shuffler);
    const double found = rate_of(wiring, filled);
    if (found <= most) return;
    most = found;
    best = std::move(filled);
  };
  std::vector<std::int32_t> whole;
  for (const double each : mixture.rates) whole.push_back(static_cast<std::int32_t>(each * shares / mixture.total + 1e-6));
  take(packed, std::vector<std::int32_t>(packed.size(), shares));
  for (int i = 0; i < kFills && most < rate * (1 - kTiny); ++i) take(mixture.shapes, whole);
  return best;
}

}  // namespace peal::tuning
