// Rings are packed into wires: a ring takes one unit of every wire that it crosses, and there are as many units as fit a wire's capacity.
// Ring after ring is searched for depth first in shuffled order until none is found; the fullest of several packings is taken.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuning/wiring.hpp>

namespace peal::tuning {

namespace {

constexpr std::size_t kMostRanks = 64;
constexpr std::int32_t kMostPackedRanks = 16;
constexpr std::size_t kMostRings = 16;
constexpr int kTries = 400;         // packings a unit
constexpr int kMostSteps = 2000;    // of one search
constexpr double kLeastGain = 1.1;  // over one ring

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

}  // namespace

double Wiring::width(const Way& way) const {
  double width = capacity[way.wires.front()];
  for (const std::uint16_t w : way.wires) width = std::min(width, capacity[w]);
  return width;
}

Wiring wiring_of(const topology::Resources& resources, std::span<const int> device_of_rank) {
  const std::size_t n = device_of_rank.size();
  if (n < 3 || n > kMostRanks) return {};
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
  return best;
}

}  // namespace peal::tuning
