#include <sodium.h>

#include <base/names.hpp>
#include <cli/digest.hpp>

namespace peal::cli {

static_assert(sizeof(Digest) == crypto_hash_sha256_BYTES);

// Hashing needs no sodium_init(): it has no state and draws no random numbers.
Digest sha256(std::span<const std::byte> data) {
  Digest digest;
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(digest.data()), reinterpret_cast<const unsigned char*>(data.data()), data.size());
  return digest;
}

std::string hex_of(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

}  // namespace peal::cli
