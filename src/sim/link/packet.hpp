// What the transaction layer hands down and the data link layer carries.
#pragma once

#include <array>
#include <cstdint>
#include <sim/link.hpp>

namespace peal::sim {

constexpr LinkChannel kAllLinkChannels[] = {LinkChannel::posted, LinkChannel::request, LinkChannel::response};
constexpr std::size_t index_of(LinkChannel channel) { return static_cast<std::size_t>(channel); }
/// One of something for each virtual channel.
template <class T>
using PerChannel = std::array<T, kLinkChannels>;

struct LinkPacket {
  LinkChannel channel = LinkChannel::posted;
  bool is_last = false;         ///< of the operation's requests
  std::uint32_t operation = 0;  ///< of the end that started it
  std::int32_t data = 0;        ///< bytes of payload
  std::int32_t asked = 0;       ///< bytes of payload that the answer is to have
  std::int32_t wire = 0;        ///< bytes with everything around the data
  std::uint64_t number = 0;     ///< in its direction and channel
};

}  // namespace peal::sim
