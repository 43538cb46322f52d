// Places in an array that are used again.
#pragma once

#include <cstdint>
#include <vector>

namespace peal::sim {

/// The place that was freed last, with what is left there, or a new one at the end. `free` belongs to the owner, who pushes what he frees.
template <class Places>
std::uint32_t take_place(Places& places, std::vector<std::uint32_t>& free) {
  if (free.empty()) {
    places.emplace_back();
    return static_cast<std::uint32_t>(places.size() - 1);
  }
  const std::uint32_t place = free.back();
  free.pop_back();
  return place;
}

}  // namespace peal::sim
