// Faults, calls beside a call, and messages that are asked for, as people type them. Every wrong word fails with what can be typed instead.
#pragma once

#include <sim/simulate.hpp>
#include <string>
#include <string_view>

namespace peal::sim {

/// "40us", "1.5ms", "2s", "300ns" to nanoseconds; not negative.
Result<Nanoseconds> parse_time(std::string_view text);

struct SlowLink {
  std::string name;
  double factor = 1;  ///< of the capacity, above 0 and finite
};
/// "gpu0 > nvswitch0=0.5", "...=17/18"
Result<SlowLink> parse_slow_link(std::string_view text);

struct Straggler {
  int rank = 0;
  double factor = 1;  ///< whatever it does itself takes so many times as long
  double delay = 0;   ///< nanoseconds after the others
};
/// "3=1.5" (a factor), "3=100us" (a delay)
Result<Straggler> parse_straggler(std::string_view text);

/// "0-31", "0-7,16-23,40": places of a cluster in the order of the ranks that sit there; none twice.
Result<std::vector<int>> parse_places(std::string_view text);

/// "all_to_all:64M", "all_to_all:64M:32-63" (ranks at these places), "all_reduce:64M/8" (neighbours in groups of 8), "all_reduce:64M%8"
/// (ranks equal modulo 8 make a group), and any of them with "@100us", when it starts. Elements are f32, the root is 0.
Result<Beside> parse_beside(std::string_view text);

/// "3:4" (the first message from rank 3 to rank 4), "3:4:17" (that after 17 others)
Result<MessageAsked> parse_message(std::string_view text);

struct ComputeWords {
  Nanoseconds compute;
  int parts = 1;
};
/// "20ms", "20ms/8" (in eight parts)
Result<ComputeWords> parse_compute(std::string_view text);

/// "3@40us"
Result<RankFailure> parse_failure(std::string_view text);

}  // namespace peal::sim
