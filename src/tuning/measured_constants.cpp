#include <algorithm>
#include <cmath>
#include <tuning/measured_constants.hpp>
#include <tuning/message_cost.hpp>
#include <tuning/plan.hpp>

namespace peal::tuning {

MeasuredRate MeasuredConstants::rate_at(double bytes) const {
  if (rates.empty()) return {};
  const auto above = std::find_if(rates.begin(), rates.end(), [&](const MeasuredRate& r) { return r.bytes >= bytes; });
  if (above == rates.begin()) return rates.front();
  if (above == rates.end()) return rates.back();
  const MeasuredRate& low = *(above - 1);
  const double share = std::log(bytes / low.bytes) / std::log(above->bytes / low.bytes);
  const auto between = [&](double a, double b) { return a * std::pow(b / a, share); };
  return {bytes,
          between(low.copy, above->copy),
          between(low.reduce, above->reduce),
          between(low.copy_among_all, above->copy_among_all),
          between(low.reduce_among_all, above->reduce_among_all),
          between(low.copy_to_root, above->copy_to_root)};
}

bool all_wait_for_all(const Call& call) { return !has_root(call.collective) && call.collective != Collective::send_recv; }

namespace {
bool goes_to_root(const Call& call) { return call.collective == Collective::gather || call.collective == Collective::gather_v; }
}  // namespace

bool has_slots_in_memory(const Environment& environment, const Offer& offer) {
  return offer.protocol == schedule::Protocol::staged && is_by_memory(environment, 0);
}

bool has_lines_in_memory(const Environment& environment, const Offer& offer) {
  return (offer.protocol == schedule::Protocol::line || offer.protocol == schedule::Protocol::staged) && is_by_memory(environment, 0);
}

Offer offer_with(const Environment& environment, const Call& call, std::uint64_t longest, double worked, const Offer& offer,
                 const MeasuredConstants& constants) {
  Offer measured = offer;
  const MeasuredRate rate = constants.rate_at(worked);
  const Level& level = environment.level[0];
  topology::ProtocolConstants& terms = measured.constants[0];
  const bool is_among_all = all_wait_for_all(call);
  terms.launch = {constants.launch_ns + (is_among_all ? constants.meeting_ns : 0)};
  // What was measured is the whole hop; the graph's share of it is added again wherever a message passes.
  const bool is_in_slot = longest > schedule::kBesideFlagBytes && has_slots_in_memory(environment, offer);
  const bool is_in_two_lines = !is_in_slot && longest > schedule::kFlagLineBytes && has_lines_in_memory(environment, offer);
  const double beyond_flag_ns = is_in_slot ? constants.slot_ns : is_in_two_lines ? constants.second_ns : 0;
  terms.per_hop = {constants.hop_ns + beyond_flag_ns - level.latency.value};
  terms.per_hop_tree = terms.per_hop;
  terms.per_op = {constants.op_ns};
  terms.kept = {};  // rates were measured by size
  measured.is_measured = true;
  measured.local_ns = constants.receive_ns;
  measured.receive_ns = constants.receive_ns + (is_in_slot ? constants.touch_ns : 0);
  measured.written_share = constants.written_share;
  terms.copy = Bandwidth::gigabytes(is_among_all ? rate.copy_among_all : goes_to_root(call) ? rate.copy_to_root : rate.copy);
  terms.reduce = Bandwidth::gigabytes(is_among_all ? rate.reduce_among_all : rate.reduce);
  // Over loopback the bytes cross while the sender copies them: the wire is no limit of its own.
  if (level.path_class == topology::PathClass::loopback && level.bottleneck.value > 0)
    terms.efficiency = terms.copy.value / level.bottleneck.value;
  terms.source = fmt::format("peal tune on this host, cores {}: fitted to {} measurements, median error {:.0f} %, worst {:.0f} %",
                             name_of(constants.cores), constants.cells, 100 * constants.median_error, 100 * constants.worst_error);
  return measured;
}

Offer offer_for(const Environment& environment, const Call& call, std::uint64_t longest, double worked, const Offer& offer) {
  const MeasuredConstants* constants = environment.constants_of(offer.protocol);
  return constants == nullptr ? offer : offer_with(environment, call, longest, worked, offer, *constants);
}

}  // namespace peal::tuning
