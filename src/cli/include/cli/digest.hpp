// SHA-256 (FIPS 180-4), by libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace peal::cli {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> data);

/// 64 hexadecimal digits.
std::string hex_of(const Digest& digest);

}  // namespace peal::cli
