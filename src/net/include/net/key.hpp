// The secret of a job: 32 random bytes that launchers hand out by pipe or file, never on a command line.
#pragma once

#include <array>
#include <base/result.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace peal::net {

struct Key {
  std::array<std::uint8_t, 32> bytes{};
};

/// Fills from the kernel's random generator.
void fill_random(std::span<std::uint8_t> out);
Key make_key();
/// A key for one purpose, which does not reveal `key`. Equal inputs give equal keys.
Key derive_key(const Key& key, std::string_view purpose);
/// A stable 64-bit name for a text, for job ids (not secret).
std::uint64_t hash_text(std::string_view text);

/// Reads 32 raw bytes, or 64 hexadecimal digits. A file that group or others may read is refused (chmod 600). A pipe is accepted
/// ("/dev/fd/7").
Result<Key> read_key_file(const std::string& path);
/// Creates a new file of mode 0600 with hexadecimal digits; an existing file is not overwritten.
Status write_key_file(const std::string& path, const Key& key);

}  // namespace peal::net
