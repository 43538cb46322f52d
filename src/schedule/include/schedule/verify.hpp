// Proof before a byte moves. The verifier walks all ranks of a plan symbolically: every chunk carries the expression tree of its
// contributions, every strand a vector clock.
//
// It proves, for one collective on n ranks under one protocol:
//   - every output chunk holds exactly what the collective promises, no contribution missing, doubled or of a wrong chunk; avg's
//     division and premul_sum's scaling happen exactly once; inputs are left alone when not in place;
//   - no deadlock with the declared slots (and, where an op streams more than the slots hold, without any slots);
//   - no race: two accesses to a chunk, one of them a write, are always ordered by strand order, signals and messages; under
//     direct_read a source is read when it is received;
//   - one channel is written by one strand and read by one strand of a rank, and every message is received;
//   - where partial sums are wide, that none of them lies or travels in its own type: each result is rounded once;
//   - whether the sum is taken in the canonical order.
// Because channels are first-in-first-out with one writer and one reader, execution is confluent: one greedy walk decides.
// The canonical order is one binary tree over rank order, a function of n alone: n ranks split at the largest power of two below n.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <functional>
#include <schedule/protocol.hpp>
#include <schedule/schedule.hpp>
#include <string>

namespace peal::schedule {

struct Algorithm;

struct VerifyOptions {
  Protocol protocol = Protocol::staged;
  std::int32_t slots = 0;   ///< 0: the protocol's own number
  bool fuse = true;         ///< check the lowered program; false: the schedule as built
  std::int32_t pieces = 0;  ///< 0: two for pieced schedules, else one
  bool shows = false;  ///< messages that lie in the sender's memory are read there when they are received, others taken when they are sent
  /// With `shows`: whoever adds such a message to a sum that is finished then writes it into the sender's memory too, where the send's
  /// `dst` says; the sum, when it is sent back, is read there.
  bool answers = false;
};

struct Verdict {
  bool ok = false;
  bool canonical = false;   ///< all reductions in canonical order (true for collectives without reduction)
  std::uint64_t steps = 0;  ///< ops walked, over all ranks
  std::int32_t rank = -1;   ///< first deviation: the lowest (step, rank)
  std::int64_t step = -1;
  std::string why;  ///< one sentence, empty when ok
};

/// Checks one schedule under one protocol.
Verdict verify(const Schedule& schedule, const VerifyOptions& options);

/// Whether `algorithm` serves requests like this one under `protocol`. Up to eight ranks the request itself is verified; larger ones
/// on seven and eight ranks with the same place, radix and levels, and the answer is remembered (tests hold it at up to 64 ranks).
/// For those who choose protocols: a ring under a rendezvous protocol deadlocks, a chunk reused in place races under direct_read.
/// Thread-safe; some milliseconds the first time, then a look-up.
bool is_right_under(const Algorithm& algorithm, const Request& request, Protocol protocol);
/// The same for staged messages of which any may be read where they lie in the sender's memory (VerifyOptions::shows).
bool is_right_when_shown(const Algorithm& algorithm, const Request& request);
/// The same where such messages may also be answered in place (VerifyOptions::answers).
bool is_right_when_answered(const Algorithm& algorithm, const Request& request);

/// Checks explicit programs (one a rank, index = rank) against a request; `layouts` as in the schedule they came from.
Verdict verify_programs(const Request& request, const Layouts& layouts, bool pieced, const std::function<Program(std::int32_t)>& program_of,
                        const VerifyOptions& options);

}  // namespace peal::schedule
