// How far two cores are from each other, told by the time in which they show each other a flag: a virtual machine's cores are moved
// together and apart while it runs, and everything that ranks exchange takes up to four times as long when they are apart. The bounds
// stand in data/constants/host.yaml.
#pragma once

#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace peal::tuning {

/// siblings: threads of one core; near: under one cache; unknown: not measured, or ranks take turns on cores.
enum class CoreDistance : std::uint8_t { unknown, siblings, near, far };
inline constexpr std::size_t kCoreDistances = 4;

std::string_view name_of(CoreDistance distance) noexcept;
Result<CoreDistance> parse_core_distance(std::string_view name);

/// Of one exchange, in nanoseconds; 0: unknown.
Result<CoreDistance> core_distance(double exchange_ns);
/// Where the cores were between two exchanges; unknown when they were moved.
Result<CoreDistance> core_distance(double before_ns, double after_ns);

}  // namespace peal::tuning
