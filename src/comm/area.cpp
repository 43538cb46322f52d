#include <algorithm>
#include <bit>
#include <comm/area.hpp>

namespace peal::comm {

namespace {
constexpr int kFirstAreas = 4;
constexpr std::size_t kMostAddresses = std::size_t{1} << 36;
}  // namespace

std::uint32_t AreaBatch::prepare(std::size_t head_bytes) {
  const std::uint32_t idle = this->idle();
  std::uint32_t ready = 0;
  for (int area = 0; area < kMostAreas && std::popcount(ready) < kPrepared; ++area) {
    const std::uint32_t bit = 1u << area;
    if ((idle & bit) == 0 || returned(area).load(std::memory_order_acquire) != 0) continue;
    if ((prepared_.load(std::memory_order_relaxed) & bit) == 0 && !segment_.allocate(offset_of(area), head_bytes)) break;
    prepared_.fetch_or(bit, std::memory_order_relaxed);
    ready |= bit;
  }
  return ready;
}

void AreaBatch::give_back(int area) {
  prepared_.fetch_and(~(1u << area), std::memory_order_relaxed);
  if (returned(area).fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint64_t>(ranks_)) {
    // Memory that cannot be cleared is not used again: the bit stays away.
    if (!segment_.discard(offset_of(area), area_bytes_)) return;
    returned(area).store(0, std::memory_order_release);
  }
  idle_.fetch_or(1u << area, std::memory_order_acq_rel);
}

AreaBatches::Choice AreaBatches::choose(std::span<const AreaClaim> claims) {
  std::uint32_t newest = 0;
  for (const AreaClaim& claim : claims) newest = std::max(newest, claim.batch);
  std::uint32_t idle = ~0u;
  // A rank that could not map the newest one has none of its areas.
  for (const AreaClaim& claim : claims) idle &= claim.batch == newest ? claim.idle : 0;
  if (newest == 0 || idle == 0) return {-1, newest + 1};
  return {std::countr_zero(idle), newest};
}

int AreaBatches::areas_of(std::uint32_t batch, std::size_t area_bytes) {
  const int wanted = std::min(AreaBatch::kMostAreas, kFirstAreas << std::min<std::uint32_t>(batch - 1, 8));
  return static_cast<int>(std::clamp<std::size_t>(kMostAddresses / area_bytes, 1, static_cast<std::size_t>(wanted)));
}

}  // namespace peal::comm
