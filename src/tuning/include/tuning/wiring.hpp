// The wires inside nodes as plain data: which of them the way of each pair of ranks takes. Kept where ranks have several ways out or pairs
// are of different width (a cube mesh, wired all to all), or what leaves a rank shares a slot with what enters; elsewhere a level says all.
#pragma once

#include <cstdint>
#include <span>
#include <topology/resources.hpp>
#include <vector>

namespace peal::tuning {

struct Wiring {
  struct Way {
    std::vector<std::uint16_t> wires;  ///< in the order of travel; none: between nodes, which the level says
    double latency_ns = 0;
    bool operator==(const Way&) const = default;
  };
  std::int32_t ranks = 0;
  std::vector<double> capacity;  ///< of each wire, GB/s, one direction
  std::vector<Way> ways;         ///< of a to b at a * ranks + b

  bool is_known() const { return ranks > 0; }
  /// Null where nothing is known of this pair.
  const Way* way(std::int32_t a, std::int32_t b) const {
    if (!is_known()) return nullptr;
    const Way& found = ways[static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(b)];
    return found.wires.empty() ? nullptr : &found;
  }
  /// Of the narrowest wire, GB/s.
  double width(const Way& way) const;
  bool operator==(const Wiring&) const = default;
};

inline constexpr std::size_t kMostWiredRanks = 128;

/// Whether a slot's two directions together are looked at beside its wires (topology/resources.hpp): a call takes that long, while rings
/// and trees are searched, as NCCL's are, for what wires carry.
enum class Slots : std::uint8_t { ignored, counted };

/// Of 2 to kMostWiredRanks ranks; empty where two ranks of a node have no way to each other.
Wiring wires_of(const topology::Resources& resources, std::span<const int> device_of_rank, Slots slots = Slots::ignored);
/// What a placement keeps of them: of up to 64 ranks on GPUs; empty where all pairs of a node are alike and every rank has one way out,
/// which shares nothing with its way in.
Wiring wiring_of(const topology::Resources& resources, std::span<const int> device_of_rank, Slots slots = Slots::counted);

/// The different wires by which a rank's ways to others begin, or, not `is_out`, those from others end; ascending.
std::vector<std::uint16_t> ends_of(const Wiring& wiring, std::int32_t rank, bool is_out);

/// GB/s that no rings exceed together: what enters and leaves a rank does so by the last or first wires of its ways.
double rate_at_the_ends(const Wiring& wiring);

}  // namespace peal::tuning
