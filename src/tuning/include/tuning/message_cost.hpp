// What one op of a program costs, apart from waiting and sharing. The predictor and the simulator read these terms; they differ only in
// how they treat contention. Units: nanoseconds and bytes a nanosecond (GB/s).
//
//   memory (shared memory of one host): the sender's core writes the slot, a flag crosses, the receiver's core reads or reduces it.
//   wire, host (sockets):               the sender's core copies while the bytes cross; the receiver's core copies or reduces them.
//   wire, device (GPUs):                the bytes cross; copying and reducing go on beside them and cost only what they are slower.
#pragma once

#include <algorithm>
#include <schedule/cursor.hpp>
#include <schedule/op.hpp>
#include <tuning/plan.hpp>

namespace peal::tuning {

/// Between two ranks under one protocol.
struct MessageCost {
  bool is_on_core = true;            ///< a core does the work, one op at a time
  bool is_memory = true;             ///< no flow of its own: the passes of the two cores are the transfer
  bool is_read_in_place = false;     ///< direct_read: sending is only saying so
  bool is_written_in_place = false;  ///< direct_write: receiving is only being told
  double per_op = 0;                 ///< issuing what is no message, and the mean of the next two
  double per_send = 0;               ///< issuing what sends
  double per_receive = 0;            ///< issuing what only receives
  double hop = 0;                    ///< from the sender's side done to the receiver's side seen
  double wire_rate = 0;              ///< of the payload, one pair alone
  double link_rate = 0;              ///< the same without the pattern's cap: what a way in takes from several senders
  double pattern_cap = 0;            ///< of the payload, all that one rank sends; 0: none
  double efficiency = 1;             ///< payload / bytes on the wire
  double copy = 0;                   ///< 0: never a limit
  double stored_share = 1;           ///< of that rate, what is received and not reduced
  double reduce = 0;
  double kept = 0;         ///< bytes sent within the host after which a message begins to leave the caches (twice: has left); 0: any number
  double left_share = 1;   ///< of the rate of copying, then
  double fetch_share = 1;  ///< of the time of a copy: what a reduction waits for where the other core wrote it (Environment)
};

/// Nanoseconds to issue an op that receives by `in` and sends by `out`; null: it does not. One that does both takes the longer time.
inline double issue_time(const MessageCost* in, const MessageCost* out) {
  return std::max(in != nullptr ? in->per_receive : 0, out != nullptr ? out->per_send : 0);
}

/// What a message costs since whose sending so many bytes were sent within its host; `cost` counts that (kept).
inline MessageCost cost_after(MessageCost cost, double bytes) {
  const double left = std::clamp(bytes / cost.kept - 1, 0.0, 1.0);
  cost.copy /= 1 + left * (1 / cost.left_share - 1);
  return cost;
}

/// Messages at a level pass the memory of one host, not a wire.
bool is_by_memory(const Environment& environment, int level);
/// Two ranks with a core each, and memory between them.
bool is_pair(const Environment& environment);

/// Terms of a protocol at a level. `way_latency` and `bottleneck` of the pair (the level's own where the pair is not known).
/// `is_one_core`: the pair takes turns on a core.
MessageCost message_cost(const Environment& environment, const topology::ProtocolConstants& constants, schedule::Protocol protocol,
                         int level, Nanoseconds way_latency, Bandwidth bottleneck, bool is_one_core = false);

/// The same of a plan's messages, whose readers hold one another up, and which cost cold_end c / (c + half_cold_ends) more at either end
/// where a core goes through Plan::ends_a_core = warm_ends + c of their channels' ends in a call (Environment).
MessageCost message_cost(const Environment& environment, const Plan& plan, int level, Nanoseconds way_latency, Bandwidth bottleneck,
                         bool is_one_core = false);
/// The same for what the plan's ranks copy and reduce in their own memory, at whichever level they have wires.
MessageCost local_cost(const Environment& environment, const Plan& plan);

/// True where two ranks of a host that send each other long messages are done sooner when each reads in the other's memory (direct_read)
/// than through slots (staged), by the constants of this host.
bool reads_in_place(const Environment& environment);

/// Time for `bytes` at a rate that may be "never a limit".
inline double time_at(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

/// Nanoseconds of the receiving (or only) side of an op over `bytes`: combining, copying, storing; for devices what exceeds the wire's
/// time.
double receive_work(const MessageCost& cost, schedule::OpKind kind, std::uint8_t flags, double bytes);
/// Nanoseconds of a core to send `bytes`.
inline double send_work(const MessageCost& cost, double bytes) {
  return !cost.is_on_core || cost.is_read_in_place ? 0 : time_at(bytes, cost.copy);
}
/// The same for one of a row of sends of the same bytes (schedule::SameSends): what goes through slots is copied by the first that can.
/// `has_copied` is the strand's, kept from send to send.
double send_work(const MessageCost& cost, const schedule::SameSends& same, double bytes, bool& has_copied);
/// A local copy, or a reduce over `more` further sources.
double local_work(const MessageCost& cost, schedule::OpKind kind, int more, double bytes);
/// Nanoseconds that `bytes` occupy the way between two ranks alone (0 for memory).
double wire_time(const MessageCost& cost, double bytes);

}  // namespace peal::tuning
