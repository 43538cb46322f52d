#include <base/pages.hpp>
#include <transport/shm_layout.hpp>

namespace peal::transport {

ShmLayout ShmLayout::of(int ranks, int channels, std::size_t control_bytes) {
  ShmLayout layout;
  layout.ranks = ranks;
  layout.channels = channels;
  layout.control_bytes = control_bytes;
  if (ranks == 2) layout.spread = 2;
  if (ranks > 2) layout.lines = kFewLines;
  if (ranks > 16) layout.slot_bytes = 64 * 1024;
  if (ranks > 32) layout.slot_bytes = 16 * 1024;
  if (ranks > 128) layout.slot_bytes = 4 * 1024;
  return layout;
}

Status ShmLayout::check() const {
  const auto is_power = [](int v) { return v > 0 && (v & (v - 1)) == 0; };
  if (ranks < 1 || ranks > 65536) return fail(ErrorCode::invalid_argument, "shared memory for {} ranks: 1 to 65536 are possible", ranks);
  if (channels < 1 || channels > 1024)
    return fail(ErrorCode::invalid_argument, "{} channels between two ranks: 1 to 1024 are possible", channels);
  if (!is_power(slots) || slots > kMaxShmSlots) {
    return fail(ErrorCode::invalid_argument, "{} slots: a power of two up to {} is possible", slots, kMaxShmSlots);
  }
  if (spread < 1 || spread > static_cast<int>(kPlaces))
    return fail(ErrorCode::invalid_argument, "{} messages in a slot's area: 1 to {} are possible", spread, kPlaces);
  if (!is_power(lines) || lines < kFewestLines || lines > 65536)
    return fail(ErrorCode::invalid_argument, "{} descriptor lines: a power of two from {} on is possible", lines, kFewestLines);
  if (base % kPageBytes != 0) return fail(ErrorCode::invalid_argument, "shared memory from byte {} on: it begins with a page", base);
  if (slot_bytes < kPageBytes || slot_bytes % kPageBytes != 0 || slot_bytes > (std::size_t{1} << 30)) {
    return fail(ErrorCode::invalid_argument, "slots of {} bytes: multiples of {} up to 1 GiB are possible", slot_bytes, kPageBytes);
  }
  return {};
}

}  // namespace peal::transport
