// Whole shares for rings that a mixture gives any rate. Private to this room.
#pragma once

#include <tuning/mixture.hpp>
#include <tuning/ring_set.hpp>

namespace peal::tuning {

/// Rings of `shares` shares together that come near `rate` GB/s: the mixture rounded, or what a packing of equal rings or the mixture
/// rounded down leaves, filled; the best of these. Wires may be too full for that rate: rate_of() says what the rings carry.
RingSet share_out(const Wiring& wiring, const Mixture& mixture, const Rings& packed, std::int32_t shares, double rate);

}  // namespace peal::tuning
