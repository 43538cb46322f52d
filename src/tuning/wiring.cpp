// Rings are packed into wires: a ring takes one unit of every wire that it crosses, and there are as many units as fit a wire's capacity.
// Ring after ring is searched for depth first in shuffled order until none is found; the fullest of several packings is taken, and where it
// stays behind the most that rings can carry, the mixture that carries it in equal parts (ring_mixture.hpp).
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuning/ring_mixture.hpp>
#include <tuning/wiring.hpp>
#include <utility>

namespace peal::tuning {

namespace {

constexpr std::size_t kMostRanks = 64;
constexpr std::int32_t kMostPackedRanks = 16;
constexpr std::size_t kMostRings = 16;
constexpr int kTries = 400;                  // packings a unit
constexpr int kMostSteps = 2000;             // of one search
constexpr double kLeastGain = 1.1;           // over one ring
constexpr double kLeastMixtureGain = 1.001;  // over what was packed: an uneven mixture repeats its rings

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

/// The same numbers everywhere (xorshift64).
class Shuffler {
 public:
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[next() % i]);
  }

 private:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }
  std::uint64_t state_ = 0x9e3779b97f4a7c15ull;
};

class Packing {
 public:
  Packing(const Wiring& wiring, double unit) : wiring_(wiring) {
    for (const double capacity : wiring.capacity) units_.push_back(static_cast<int>(capacity / unit + 1e-6));
    left_ = units_;
  }

  /// No packing can have more rings: what leaves a rank does so by the first wires of its ways.
  std::size_t most() const {
    std::size_t most = kMostRings;
    for (std::int32_t a = 0; a < wiring_.ranks; ++a) {
      std::vector<std::uint16_t> first;
      for (std::int32_t b = 0; b < wiring_.ranks; ++b)
        if (const Wiring::Way* way = wiring_.way(a, b); way != nullptr) first.push_back(way->wires.front());
      std::sort(first.begin(), first.end());
      first.erase(std::unique(first.begin(), first.end()), first.end());
      int out = 0;
      for (const std::uint16_t wire : first) out += units_[wire];
      most = std::min(most, static_cast<std::size_t>(out));
    }
    return most;
  }

  /// `in_pairs`: with every ring the one that runs the other way, as long as both fit.
  Rings pack(Shuffler& shuffler, std::size_t most, bool in_pairs) {
    left_ = units_;
    Rings rings;
    while (rings.size() < most) {
      std::vector<std::int32_t> ring{0};
      std::vector<bool> is_in(at(wiring_.ranks), false);
      is_in[0] = true;
      steps_ = 0;
      if (!extend(ring, is_in, shuffler)) break;
      rings.push_back(ring);
      if (!in_pairs || rings.size() == most) continue;
      std::reverse(ring.begin() + 1, ring.end());
      if (take_all(ring)) rings.push_back(std::move(ring));
    }
    return rings;
  }

 private:
  bool can_take(std::int32_t a, std::int32_t b) const {
    const Wiring::Way* way = wiring_.way(a, b);
    return way != nullptr && std::all_of(way->wires.begin(), way->wires.end(), [this](std::uint16_t w) { return left_[w] > 0; });
  }
  void take(std::int32_t a, std::int32_t b, int units) {
    for (const std::uint16_t w : wiring_.way(a, b)->wires) left_[w] -= units;
  }
  bool take_all(const std::vector<std::int32_t>& ring) {
    for (std::size_t p = 0; p < ring.size(); ++p) {
      const std::int32_t next = ring[(p + 1) % ring.size()];
      if (can_take(ring[p], next)) {
        take(ring[p], next, 1);
        continue;
      }
      while (p-- > 0) take(ring[p], ring[p + 1], -1);
      return false;
    }
    return true;
  }

  bool extend(std::vector<std::int32_t>& ring, std::vector<bool>& is_in, Shuffler& shuffler) {
    const std::int32_t last = ring.back();
    if (ring.size() == is_in.size()) {
      if (!can_take(last, ring.front())) return false;
      take(last, ring.front(), 1);
      return true;
    }
    if (++steps_ > kMostSteps) return false;
    std::vector<std::int32_t> next;
    for (std::int32_t b = 0; b < wiring_.ranks; ++b)
      if (!is_in[at(b)] && can_take(last, b)) next.push_back(b);
    shuffler.shuffle(next);
    for (const std::int32_t b : next) {
      take(last, b, 1);
      is_in[at(b)] = true;
      ring.push_back(b);
      if (extend(ring, is_in, shuffler)) return true;
      ring.pop_back();
      is_in[at(b)] = false;
      take(last, b, -1);
    }
    return false;
  }

  const Wiring& wiring_;
  std::vector<int> units_;
  std::vector<int> left_;
  int steps_ = 0;
};

/// Widths of pairs, and parts of them that several rings may share; the widest first.
std::vector<double> units_of(const Wiring& wiring) {
  std::vector<double> units;
  for (const Wiring::Way& way : wiring.ways)
    for (int part = 1; part <= 4 && !way.wires.empty(); ++part) units.push_back(wiring.width(way) / part);
  std::sort(units.begin(), units.end(), std::greater<>());
  units.erase(std::unique(units.begin(), units.end(), [](double a, double b) { return a - b < 1e-6 * a; }), units.end());
  return units;
}

/// True where ranks have one way out each and all pairs are equally wide.
bool is_plain(const Wiring& wiring) {
  double width = 0;
  for (std::int32_t a = 0; a < wiring.ranks; ++a) {
    const Wiring::Way* first = nullptr;
    for (std::int32_t b = 0; b < wiring.ranks; ++b) {
      const Wiring::Way* way = wiring.way(a, b);
      if (way == nullptr) continue;
      if (first == nullptr) first = way;
      if (width == 0) width = wiring.width(*way);
      if (way->wires.front() != first->wires.front() || wiring.width(*way) != width) return false;
    }
  }
  return true;
}

/// So many equal rings in the proportions of a mixture, by largest remainders.
Rings in_equal_parts(const RingMixture& mixture, std::size_t parts) {
  std::vector<std::size_t> order(mixture.rings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto share = [&](std::size_t i) { return mixture.rates[i] * static_cast<double>(parts) / mixture.total; };
  const auto remainder = [&](std::size_t i) { return share(i) - std::floor(share(i) + 1e-6); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return remainder(a) > remainder(b) + 1e-9; });
  Rings rings;
  for (std::size_t i = 0; i < mixture.rings.size(); ++i)
    rings.insert(rings.end(), static_cast<std::size_t>(share(i) + 1e-6), mixture.rings[i]);
  for (std::size_t i = 0; rings.size() < parts; ++i) rings.push_back(mixture.rings[order[i % order.size()]]);
  return rings;
}

/// Replaces one ring by another of the mixture as long as all together gain by it.
double improve(const Wiring& wiring, const RingMixture& mixture, Rings& rings) {
  double rate = rate_of(wiring, rings);
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (std::vector<std::int32_t>& ring : rings) {
      for (const std::vector<std::int32_t>& other : mixture.rings) {
        std::vector<std::int32_t> before = std::exchange(ring, other);
        const double now = rate_of(wiring, rings);
        if (now > rate * (1 + 1e-9)) {
          rate = now;
          is_better = true;
        } else {
          ring = std::move(before);
        }
      }
    }
  }
  return rate;
}

}  // namespace

double Wiring::width(const Way& way) const {
  double width = capacity[way.wires.front()];
  for (const std::uint16_t w : way.wires) width = std::min(width, capacity[w]);
  return width;
}

Wiring wires_of(const topology::Resources& resources, std::span<const int> device_of_rank) {
  const std::size_t n = device_of_rank.size();
  if (n < 2 || n > kMostWiredRanks) return {};
  Wiring wiring;
  wiring.ranks = static_cast<std::int32_t>(n);
  wiring.ways.resize(n * n);
  std::map<topology::ResourceId, std::uint16_t> number;
  topology::Route route;
  const topology::Cluster& cluster = resources.cluster();
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b || cluster.node_of(device_of_rank[a]) != cluster.node_of(device_of_rank[b])) continue;
      resources.route(device_of_rank[a], device_of_rank[b], topology::Via::any, route);
      if (!route.exists() || route.resources.empty()) return {};
      Wiring::Way& way = wiring.ways[a * n + b];
      way.latency_ns = route.latency.value;
      for (const topology::ResourceId id : route.resources) {
        const auto [it, is_new] = number.emplace(id, static_cast<std::uint16_t>(wiring.capacity.size()));
        if (is_new) wiring.capacity.push_back(resources.capacity(id).gigabytes());
        if (wiring.capacity[it->second] > 0) way.wires.push_back(it->second);
      }
      if (way.wires.empty()) return {};
    }
  }
  return wiring;
}

Wiring wiring_of(const topology::Resources& resources, std::span<const int> device_of_rank) {
  if (device_of_rank.size() < 3 || device_of_rank.size() > kMostRanks) return {};
  Wiring wiring = wires_of(resources, device_of_rank);
  return is_plain(wiring) ? Wiring{} : wiring;
}

double rate_of(const Wiring& wiring, const Rings& rings) {
  std::vector<int> uses(wiring.capacity.size(), 0);
  for (const std::vector<std::int32_t>& ring : rings) {
    for (std::size_t p = 0; p < ring.size(); ++p) {
      const Wiring::Way* way = wiring.way(ring[p], ring[(p + 1) % ring.size()]);
      if (way == nullptr) return 0;
      for (const std::uint16_t w : way->wires) ++uses[w];
    }
  }
  double each = 0;
  for (std::size_t w = 0; w < uses.size(); ++w)
    if (uses[w] > 0 && (each == 0 || wiring.capacity[w] / uses[w] < each)) each = wiring.capacity[w] / uses[w];
  return each * static_cast<double>(rings.size());
}

double rate_at_the_ends(const Wiring& wiring) {
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t a = 0; a < wiring.ranks; ++a) {
    for (const bool is_out : {true, false}) {
      std::vector<std::uint16_t> ends;
      for (std::int32_t b = 0; b < wiring.ranks; ++b) {
        const Wiring::Way* way = is_out ? wiring.way(a, b) : wiring.way(b, a);
        if (way != nullptr) ends.push_back(is_out ? way->wires.front() : way->wires.back());
      }
      std::sort(ends.begin(), ends.end());
      ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
      double sum = 0;
      for (const std::uint16_t wire : ends) sum += wiring.capacity[wire];
      least = std::min(least, sum);
    }
  }
  return least;
}

Rings find_rings(const Wiring& wiring, const std::vector<std::int32_t>& ring) {
  if (wiring.ranks < 3 || wiring.ranks > kMostPackedRanks) return {};
  std::vector<std::int32_t> alone = ring;
  if (alone.empty()) {
    alone.resize(at(wiring.ranks));
    std::iota(alone.begin(), alone.end(), 0);
  }
  double best_rate = kLeastGain * rate_of(wiring, {alone});
  Rings best;
  Shuffler shuffler;
  for (const double unit : units_of(wiring)) {
    Packing packing(wiring, unit);
    const std::size_t most = packing.most();
    for (int i = 0; i<kTries&& static_cast<double>(most) * unit> best_rate * (1 + 1e-6); ++i) {
      Rings rings = packing.pack(shuffler, most, i % 2 == 0);
      const double rate = static_cast<double>(rings.size()) * unit;
      if (rings.size() < 2 || rate <= best_rate * (1 + 1e-6)) continue;
      best_rate = rate;
      best = std::move(rings);
    }
  }
  if (best_rate >= rate_at_the_ends(wiring) * (1 - 1e-6)) return best;
  const RingMixture mixture = mix_rings(wiring);
  for (std::size_t parts = 2; parts <= kMostRings && mixture.total > best_rate * kLeastMixtureGain; ++parts) {
    Rings rings = in_equal_parts(mixture, parts);
    const double rate = improve(wiring, mixture, rings);
    if (rate <= best_rate * kLeastMixtureGain) continue;
    best_rate = rate;
    best = std::move(rings);
  }
  return best;
}

}  // namespace peal::tuning
