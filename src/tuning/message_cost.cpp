#include <algorithm>
#include <base/pages.hpp>
#include <limits>
#include <tuning/measured_constants.hpp>
#include <tuning/message_cost.hpp>
#include <utility>

namespace peal::tuning {

using schedule::OpKind;
using schedule::Protocol;

bool is_by_memory(const Environment& environment, int level) {
  const topology::PathClass way = environment.level[level].path_class;
  return environment.is_host && way != topology::PathClass::loopback && way != topology::PathClass::net;
}

bool is_pair(const Environment& environment) {
  return environment.ranks == 2 && is_by_memory(environment, 0) && !environment.shares_cores();
}

MessageCost message_cost(const Environment& environment, const topology::ProtocolConstants& constants, Protocol protocol, int level,
                         Nanoseconds way_latency, Bandwidth bottleneck, bool is_one_core) {
  MessageCost cost;
  cost.is_on_core = environment.is_host;
  cost.is_memory = is_by_memory(environment, level);
  cost.is_read_in_place = cost.is_memory && protocol == Protocol::direct_read;
  cost.is_written_in_place = cost.is_memory && protocol == Protocol::direct_write;
  cost.per_op = constants.per_op.value;
  cost.per_receive = constants.receive_share * cost.per_op;
  cost.per_send = (2 - constants.receive_share) * cost.per_op;
  cost.hop = constants.per_hop.value + way_latency.value;
  cost.efficiency = constants.efficiency > 0 ? constants.efficiency : 1;
  const double gain = is_one_core && cost.is_memory ? environment.same_core_gain : 1;
  cost.copy = gain * constants.copy.gigabytes();
  cost.reduce = gain * constants.reduce.gigabytes();
  cost.fetch_share = environment.memory.fetch_share;
  cost.kept = static_cast<double>(constants.kept.value);
  cost.left_share = constants.left_share;
  cost.pattern_cap = constants.cap(environment.nodes).gigabytes();
  cost.link_rate = cost.efficiency * bottleneck.gigabytes();
  cost.wire_rate = cost.link_rate;
  if (cost.pattern_cap > 0) cost.wire_rate = std::min(cost.wire_rate, cost.pattern_cap);
  return cost;
}

namespace {
/// Nanoseconds more for a message at either end where a core goes through so many in a call: when it comes to one again, its lines, and
/// what the CPU knows of its pages, have left the caches.
double cold_end(const Environment& environment, double ends) {
  const double cold = std::max(0.0, ends - environment.warm_ends);
  return environment.cold_end.value * cold / (cold + environment.half_cold_ends);
}

bool knows_own_copies(const Environment& environment, const Plan& plan) {
  return plan.offer.is_measured || environment.memory.knows_own_copies;
}
}  // namespace

MessageCost message_cost(const Environment& environment, const Plan& plan, int level, Nanoseconds way_latency, Bandwidth bottleneck,
                         bool is_one_core) {
  MessageCost cost = message_cost(environment, plan.offer.constants[level], plan.protocol, level, way_latency, bottleneck, is_one_core);
  if (plan.offer.is_measured) {
    cost.per_send = cost.per_op;
    cost.per_receive = plan.offer.receive_ns;
  }
  if (cost.is_memory && !plan.offer.is_measured) {
    const double cold = cold_end(environment, plan.ends_a_core);
    for (double* term : {&cost.per_op, &cost.per_send, &cost.per_receive}) *term += cold;
  }
  const bool is_in_lanes = environment.memory.is_read_in_lanes && cost.is_memory && plan.longest >= schedule::kLeastInLanesBytes;
  if (is_in_lanes && plan.protocol == Protocol::staged && !plan.offer.is_measured) {
    cost.reduce *= environment.memory.lanes_gain;
    cost.fetch_share /= environment.memory.lanes_gain;
  }
  if (!cost.is_read_in_place) return cost;
  // A sender that has nothing else to do copies a part, too.
  const double help_share = knows_own_copies(environment, plan) ? plan.help_share : 1;
  if (plan.helped > 0) cost.copy *= 1 + help_share / plan.helped;
  // What was measured was read by as many.
  if (!plan.offer.is_measured) cost.copy /= 1 + environment.memory.shared_read * (plan.readers - 1);
  if (const double page_ns = environment.memory.small_page.value; page_ns > 0 && !plan.offer.is_measured)
    cost.copy = 1 / (1 / cost.copy + plan.small_pages * page_ns / kPageBytes);
  if (const double lock_ns = environment.memory.page_lock.value; lock_ns > 0 && plan.waiting > 1)
    cost.copy = std::min(cost.copy, static_cast<double>(kPageBytes) / (lock_ns * plan.waiting));
  if (plan.has_sums) cost.stored_share = plan.offer.is_measured ? plan.offer.written_share : environment.memory.written_share;
  return cost;
}

MessageCost local_cost(const Environment& environment, const Plan& plan) {
  const int level = environment.is_used(0) ? 0 : 1;
  const topology::ProtocolConstants& constants = plan.offer.constants[level];
  MessageCost cost = knows_own_copies(environment, plan)
                         ? message_cost(environment, constants, plan.protocol, level, {}, environment.level[level].bottleneck)
                         : message_cost(environment, plan, level, {}, environment.level[level].bottleneck);
  cost.per_op = plan.offer.is_measured ? plan.offer.local_ns : constants.per_op.value;
  return cost;
}

bool reads_in_place(const Environment& environment) {
  if (!is_by_memory(environment, 0) || environment.ranks < 2) return false;
  Call call;
  call.collective = Collective::send_recv;
  call.bytes = {schedule::kMostReferencedBytes};
  const auto time = [&](Protocol protocol, double copies) {
    const Offer* offer = environment.offer(protocol);
    if (offer == nullptr) return std::numeric_limits<double>::infinity();
    const double worked = 2 * static_cast<double>(call.bytes.value);
    const topology::ProtocolConstants terms = offer_for(environment, call, call.bytes.value, worked, *offer).constants[0];
    return 2 * terms.per_op.value + terms.per_hop.value + copies * time_at(static_cast<double>(call.bytes.value), terms.copy.gigabytes());
  };
  return time(Protocol::direct_read, 1) < time(Protocol::staged, 2);
}

double wire_time(const MessageCost& cost, double bytes) { return cost.is_memory ? 0 : time_at(bytes, cost.wire_rate); }

double receive_work(const MessageCost& cost, OpKind kind, std::uint8_t flags, double bytes) {
  if (!schedule::receives(kind)) return 0;
  const bool is_stored = !schedule::sends(kind) || (flags & schedule::kStore) != 0;
  if (schedule::reduces(kind)) {
    // What lies in another process, or in a socket, is copied out before it can be combined.
    const bool is_fetched = cost.is_read_in_place || (cost.is_on_core && !cost.is_memory);
    const double combine = time_at(bytes, cost.reduce) + (is_fetched ? time_at(bytes, cost.copy) : 0);
    return cost.is_on_core ? combine : std::max(0.0, combine - wire_time(cost, bytes));
  }
  if (cost.is_written_in_place || !is_stored) return 0;
  // What stays in its slot until it is reduced is fetched by the reduction, which waits for it as a copy does; it is not stored.
  const bool is_held = (flags & schedule::kHeld) != 0 && cost.is_memory && !cost.is_read_in_place;
  const double copy = (is_held ? cost.fetch_share : 1) * time_at(bytes, cost.stored_share * cost.copy);
  return cost.is_on_core ? copy : std::max(0.0, copy - wire_time(cost, bytes));
}

double send_work(const MessageCost& cost, const schedule::SameSends& same, double bytes, bool& has_copied) {
  if (same.before == 0) has_copied = false;
  const bool may_share = cost.is_memory && !cost.is_written_in_place && same.has_others() && bytes >= schedule::kLeastSharedBytes;
  return may_share && std::exchange(has_copied, true) ? 0 : send_work(cost, bytes);
}

double local_work(const MessageCost& cost, OpKind kind, int more, double bytes) {
  // The rate is that of two streams into one, three in all; all sources are read in one pass, so k of them are k + 1 streams.
  if (kind == OpKind::reduce) return (more + 2) / 3.0 * time_at(bytes, cost.reduce);
  return time_at(bytes, cost.copy);
}

}  // namespace peal::tuning
