#include <algorithm>
#include <bit>
#include <comm/area.hpp>

namespace peal::comm {

namespace {
constexpr int kFirstAreas = 4;
static_assert(kFirstAreas >= AreaBatches::kMostOfASplit, "the first batch must serve any split");
constexpr std::size_t kMostAddresses = std::size_t{1} << 36;
}  // namespace

std::uint32_t AreaBatch::idle() const {
  std::uint32_t idle = 0;
  for (int area = 0; area < areas_; ++area)
    if (counters(area).ended.load(std::memory_order_acquire) == taken_[static_cast<std::size_t>(area)]) idle |= 1u << area;
  return idle;
}

std::uint32_t AreaBatch::prepare(std::size_t head_bytes) {
  const std::uint32_t idle = this->idle();
  std::uint32_t ready = 0;
  for (int area = 0; area < areas_ && std::popcount(ready) < kPrepared; ++area) {
    const std::uint32_t bit = 1u << area;
    if ((idle & bit) == 0) continue;
    if ((prepared_ & bit) == 0 && !segment_.allocate(offset_of(area), head_bytes)) break;
    prepared_ |= bit;
    ready |= bit;
  }
  return ready;
}

void AreaBatch::take(int area) {
  ++taken_[static_cast<std::size_t>(area)];
  prepared_ &= ~(1u << area);
}

void AreaBatch::give_back(int area, int ranks) {
  Counters& counters = this->counters(area);
  if (counters.returned.fetch_add(1, std::memory_order_acq_rel) + 1 != static_cast<std::uint64_t>(ranks)) return;
  // Memory that cannot be cleared is not used again: the group counts as one that is still there.
  if (!segment_.discard(offset_of(area), area_bytes_)) return;
  counters.returned.store(0, std::memory_order_relaxed);
  counters.ended.fetch_add(1, std::memory_order_release);
}

AreaBatches::Choice AreaBatches::choose(std::span<const AreaClaim> claims, int groups) {
  if (groups == 0 || groups > kMostOfASplit) return {};
  std::uint32_t newest = 0;
  for (const AreaClaim& claim : claims) newest = std::max(newest, claim.batch);
  std::uint32_t idle = newest == 0 ? 0 : ~0u;
  // A rank that could not map the newest one has none of its areas.
  for (const AreaClaim& claim : claims) idle &= claim.batch == newest ? claim.idle : 0;
  if (std::popcount(idle) < groups) return {(1u << groups) - 1, newest + 1};
  std::uint32_t areas = 0;
  for (; std::popcount(areas) < groups; idle &= idle - 1) areas |= idle & -idle;
  return {areas, newest};
}

int AreaBatches::areas_of(std::uint32_t batch, std::size_t area_bytes) {
  const int wanted = std::min(AreaBatch::kMostAreas, kFirstAreas << std::min<std::uint32_t>(batch - 1, 8));
  return static_cast<int>(std::clamp<std::size_t>(kMostAddresses / area_bytes, kMostOfASplit, static_cast<std::size_t>(wanted)));
}

}  // namespace peal::comm
