#include <algorithm>
#include <base/names.hpp>
#include <schedule/protocol.hpp>

namespace peal::schedule {

namespace {
constexpr std::uint64_t kAnySize = ~std::uint64_t{0};
constexpr std::uint64_t kHalfGranule = 4 * 1024;
constexpr ProtocolTraits kProtocols[kProtocolCount] = {
    {Protocol::line, "line", "data and flag in one pair of cache lines", 8, 64, true, false},
    {Protocol::staged, "staged", "through slots of a channel: copied in, reduced or copied out", 4, kSlotMessageBytes, true, false},
    {Protocol::direct_read, "direct_read", "the receiver reads the sender's memory", 4, kAnySize, false, false},
    {Protocol::direct_write, "direct_write", "the sender writes into the receiver's memory", 0, kAnySize, true, true},
    {Protocol::fused, "fused", "a hand-written routine that equals a named schedule", 4, 256 * 1024, true, false},
};

std::uint64_t half_of(std::uint64_t whole) noexcept { return (whole / 2 + kHalfGranule - 1) / kHalfGranule * kHalfGranule; }
}  // namespace

std::uint64_t staged_message_bytes(std::uint64_t whole) noexcept {
  return std::clamp(half_of(whole), kWholeMessageBytes, kSlotMessageBytes);
}

std::uint64_t referenced_message_bytes(std::uint64_t whole, std::uint64_t least) noexcept {
  return whole < least || whole > kMostReferencedBytes ? staged_message_bytes(whole) : kMostReferencedBytes;
}

std::uint64_t socket_message_bytes(std::uint64_t whole, std::uint64_t uncut, std::uint64_t most) noexcept {
  return std::min(most, std::max(half_of(whole), uncut));
}

const ProtocolTraits& traits_of(Protocol protocol) noexcept { return kProtocols[static_cast<int>(protocol)]; }
std::span<const ProtocolTraits> all_protocols() noexcept { return kProtocols; }
std::string_view name_of(Protocol protocol) noexcept { return traits_of(protocol).name; }

Result<Protocol> parse_protocol(std::string_view text) {
  std::string known;
  std::string_view names[kProtocolCount];
  for (int i = 0; i < kProtocolCount; ++i) {
    names[i] = kProtocols[i].name;
    if (names[i] == text) return kProtocols[i].protocol;
    known += known.empty() ? "" : ", ";
    known += names[i];
  }
  const std::string_view near = nearest(text, names, kProtocolCount);
  return fail(ErrorCode::invalid_argument, "there is no protocol \"{}\"{}; type one of: {}", text,
              near.empty() ? std::string() : fmt::format(" (did you mean {}?)", near), known);
}

}  // namespace peal::schedule
