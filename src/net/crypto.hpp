// The few words of libsodium that Peal needs, so that its header stays in one source file. Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <net/handshake.hpp>
#include <net/key.hpp>
#include <span>

namespace peal::net {

using Mac = std::array<std::uint8_t, kMacBytes>;

/// HMAC-SHA-512-256 over the parts, one after another.
Mac authenticate(const Key& key, std::initializer_list<std::span<const std::uint8_t>> parts);
/// In constant time.
bool is_equal(std::span<const std::uint8_t, kMacBytes> a, std::span<const std::uint8_t, kMacBytes> b);

}  // namespace peal::net
