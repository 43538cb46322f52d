#include <algorithm>
#include <tuning/core_turns.hpp>

namespace peal::tuning {

CoreTurns::CoreTurns(const Environment& environment) : switch_ns_(environment.core_switch.value) {
  if (!environment.is_host || environment.core_of.empty()) return;
  std::vector<std::int32_t> ranks_on(static_cast<std::size_t>(*std::max_element(environment.core_of.begin(), environment.core_of.end())) +
                                     1);
  for (const std::int32_t core : environment.core_of) places_.push_back({ranks_on[static_cast<std::size_t>(core)]++, 1});
  for (std::size_t r = 0; r < places_.size(); ++r) places_[r].of = ranks_on[static_cast<std::size_t>(environment.core_of[r])];
}

}  // namespace peal::tuning
