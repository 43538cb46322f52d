// Cost terms of this host, fitted to what `peal tune` measured: they stand for those of data/constants where the ranks of a communicator
// all sit here, are as many, and their cores lie as they did. Prediction, simulation and choice read them through the plan (Plan::offer).
//
// What bytes cost depends on which cache they lie in, and short messages cost by the line: so rates are given at several sizes, and between
// them they lie on a straight line in log-log.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <schedule/protocol.hpp>
#include <string>
#include <tuning/core_distance.hpp>
#include <vector>

namespace peal::tuning {

struct Call;
struct Environment;
struct Offer;

/// Rates of calls of which a rank reads and writes so many bytes (Plan::worked), bytes a nanosecond. Calls in which every rank waits for
/// every other have their own: there the lines of both directions cross at the same time. So have those in which a root takes what others
/// send and do nothing else: what an idle sender has stored lies in its nearest cache, from where it comes more slowly.
struct MeasuredRate {
  double bytes = 0;
  double copy = 0;
  double reduce = 0;
  double copy_among_all = 0;
  double reduce_among_all = 0;
  double copy_to_root = 0;
  bool operator==(const MeasuredRate&) const = default;
};

struct MeasuredConstants {
  std::string scope;  ///< "shm", "tcp-loopback": as in Level
  int ranks = 0;
  CoreDistance cores = CoreDistance::unknown;
  schedule::Protocol protocol = schedule::Protocol::staged;
  double launch_ns = 0;       ///< once a call
  double meeting_ns = 0;      ///< added to it where every rank waits for every other: ranks that start aligned enter that much apart
  double hop_ns = 0;          ///< of a message: from the sender's side done to the receiver's side seen
  double op_ns = 0;           ///< issuing one op that sends, or that is no message
  double receive_ns = 0;      ///< the same of one that only receives
  double touch_ns = 0;        ///< added to that where the message lies in a slot of memory: its first lines come from another core
  double slot_ns = 0;         ///< added to the hop of a message that lies in a slot of memory: other lines than its flag's
  double second_ns = 0;       ///< the same of one beside its flag that reaches into a second line (more than schedule::kFlagLineBytes)
  double written_share = 1;   ///< as of Offer
  double exchange_power = 1;  ///< calls take so many powers of the ratio as long, where an exchange of flags takes longer than usual
  std::vector<MeasuredRate> rates;  ///< bytes ascend
  int cells = 0;                    ///< measurements that they were fitted to
  double median_error = 0;          ///< of |predicted / measured - 1| over those
  double worst_error = 0;
  bool operator==(const MeasuredConstants&) const = default;

  MeasuredRate rate_at(double bytes) const;
};

/// True where no rank can leave the call before every other has entered it.
bool all_wait_for_all(const Call& call);

/// What `offer` costs a call whose longest message has `longest` bytes and of which a rank reads and writes `worked` (Plan::worked): with
/// the host's own constants where there are some for it, else as it is.
Offer offer_for(const Environment& environment, const Call& call, std::uint64_t longest, double worked, const Offer& offer);
/// The same with given constants.
Offer offer_with(const Environment& environment, const Call& call, std::uint64_t longest, double worked, const Offer& offer,
                 const MeasuredConstants& constants);
/// Whether messages of this offer that are longer than schedule::kBesideFlagBytes lie in slots of memory.
bool has_slots_in_memory(const Environment& environment, const Offer& offer);
/// Whether short messages of this offer lie beside their flag in memory.
bool has_lines_in_memory(const Environment& environment, const Offer& offer);

}  // namespace peal::tuning
