// Units that live in types. GB/s is 10^9 bytes a second, per direction unless said; sizes on the command line are powers of 1024.
#pragma once

#include <base/result.hpp>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace peal {

inline constexpr double kGigabyte = 1e9;
inline constexpr double kSecondsOfNanosecond = 1e-9;

struct Bytes {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const Bytes&) const = default;
};

struct Nanoseconds {
  double value = 0;
  constexpr auto operator<=>(const Nanoseconds&) const = default;
  constexpr double microseconds() const { return value * 1e-3; }
  constexpr double seconds() const { return value * 1e-9; }
};

/// Bytes a second.
struct Bandwidth {
  double value = 0;
  constexpr auto operator<=>(const Bandwidth&) const = default;
  static constexpr Bandwidth gigabytes(double gbps) { return {gbps * 1e9}; }
  constexpr double gigabytes() const { return value * 1e-9; }
};

constexpr Nanoseconds operator+(Nanoseconds a, Nanoseconds b) { return {a.value + b.value}; }
constexpr Nanoseconds operator*(double k, Nanoseconds a) { return {k * a.value}; }
/// Time that `size` takes at `rate`; infinite when the rate is zero.
constexpr Nanoseconds operator/(Bytes size, Bandwidth rate) { return {static_cast<double>(size.value) / rate.value * 1e9}; }

/// "8", "64K", "1M", "8G" (powers of 1024; lower case, "KiB" and "KB" are accepted) to bytes.
Result<Bytes> parse_bytes(std::string_view text);
/// 65536 -> "64 KiB".
std::string to_text(Bytes size);
/// 1234.5 ns -> "1.23 us".
std::string to_text(Nanoseconds time);

}  // namespace peal
