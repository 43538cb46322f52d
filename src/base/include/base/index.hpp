// Ranks, nodes and ops are numbered in int32; containers are indexed in size_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peal {

/// The index of what has this number, which is not negative.
constexpr std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

}  // namespace peal
