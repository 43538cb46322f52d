#include "crypto.hpp"

#include <sodium.h>

#include <cstdlib>
#include <cstring>

namespace peal::net {
namespace {

static_assert(crypto_auth_hmacsha512256_BYTES == kMacBytes);
static_assert(crypto_auth_hmacsha512256_KEYBYTES == sizeof(Key::bytes));

void start_sodium() {
  // Safe from several threads and more than once. It fails only where the kernel has no randomness at all; going on without would
  // make every key worthless.
  if (sodium_init() < 0) std::abort();
}

}  // namespace

Mac authenticate(const Key& key, std::initializer_list<std::span<const std::uint8_t>> parts) {
  start_sodium();
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, key.bytes.data(), key.bytes.size());
  for (const auto part : parts) crypto_auth_hmacsha512256_update(&state, part.data(), part.size());
  Mac out{};
  crypto_auth_hmacsha512256_final(&state, out.data());
  return out;
}

bool is_equal(std::span<const std::uint8_t, kMacBytes> a, std::span<const std::uint8_t, kMacBytes> b) {
  return sodium_memcmp(a.data(), b.data(), kMacBytes) == 0;
}

void fill_random(std::span<std::uint8_t> out) {
  start_sodium();
  randombytes_buf(out.data(), out.size());
}

Key make_key() {
  Key key;
  fill_random(key.bytes);
  return key;
}

Key derive_key(const Key& key, std::string_view purpose) {
  const std::string_view label = "peal-derive-v1";
  Key out;
  out.bytes = authenticate(key, {{reinterpret_cast<const std::uint8_t*>(label.data()), label.size()},
                                 {reinterpret_cast<const std::uint8_t*>(purpose.data()), purpose.size()}});
  return out;
}

std::uint64_t hash_text(std::string_view text) {
  start_sodium();
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  std::uint64_t out = 0;
  for (int i = 0; i < 8; ++i) out |= std::uint64_t{hash[static_cast<std::size_t>(i)]} << (8 * i);
  return out;
}

}  // namespace peal::net
