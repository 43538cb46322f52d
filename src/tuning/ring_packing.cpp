#include "ring_packing.hpp"

#include <base/index.hpp>
#include <limits>

namespace peal::tuning {

namespace {

constexpr int kMostSteps = 2000;  // of one search

}  // namespace

RingPacking::RingPacking(const Wiring& wiring, double unit) : wiring_(wiring) {
  for (const double capacity : wiring.capacity) units_.push_back(static_cast<int>(capacity / unit + 1e-6));
  left_ = units_;
}

std::size_t RingPacking::most() const {
  std::size_t most = std::numeric_limits<std::size_t>::max();
  for (std::int32_t rank = 0; rank < wiring_.ranks; ++rank) {
    std::size_t out = 0;
    for (const std::uint16_t wire : ends_of(wiring_, rank, true)) out += static_cast<std::size_t>(units_[wire]);
    most = std::min(most, out);
  }
  return most;
}

Rings RingPacking::pack(Shuffler& shuffler, std::size_t most, bool in_pairs) {
  left_ = units_;
  Rings rings;
  while (rings.size() < most) {
    std::vector<std::int32_t> ring = find(shuffler);
    if (ring.empty()) break;
    rings.push_back(ring);
    if (!in_pairs || rings.size() == most) continue;
    std::reverse(ring.begin() + 1, ring.end());
    if (take(ring)) rings.push_back(std::move(ring));
  }
  return rings;
}

std::vector<std::int32_t> RingPacking::find(Shuffler& shuffler) {
  std::vector<std::int32_t> ring{0};
  std::vector<bool> is_in(at(wiring_.ranks), false);
  is_in[0] = true;
  steps_ = 0;
  if (!extend(ring, is_in, shuffler)) return {};
  return ring;
}

bool RingPacking::take(const std::vector<std::int32_t>& ring) {
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

bool RingPacking::can_take(std::int32_t a, std::int32_t b) const {
  const Wiring::Way* way = wiring_.way(a, b);
  return way != nullptr && std::all_of(way->wires.begin(), way->wires.end(), [this](std::uint16_t w) { return left_[w] > 0; });
}

void RingPacking::take(std::int32_t a, std::int32_t b, int units) {
  for (const std::uint16_t w : wiring_.way(a, b)->wires) left_[w] -= units;
}

bool RingPacking::extend(std::vector<std::int32_t>& ring, std::vector<bool>& is_in, Shuffler& shuffler) {
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

}  // namespace peal::tuning
