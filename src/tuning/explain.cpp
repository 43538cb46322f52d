#include <algorithm>
#include <base/names.hpp>
#include <nlohmann/json.hpp>
#include <tuning/explain.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_set.hpp>

namespace peal::tuning {

using nlohmann::json;

namespace {

constexpr std::ptrdiff_t kMostShown = 64;  // ranks of a ring

std::string order_of(const Candidate& c, Collective collective) {
  if (!has_reduction(collective)) return "no summation";
  return c.is_canonical ? "canonical order of summation (bitwise equal whatever the placement)"
                        : "order of summation depends on the algorithm";
}

std::string fits(std::uint64_t bytes) {
  return bytes == ~std::uint64_t{0} ? "of any size" : fmt::format("of at most {}", to_text(Bytes{bytes}));
}

/// A list of parts that are not zero.
std::string parts_of(const Breakdown& b) {
  std::string text;
  const std::pair<const char*, double> parts[] = {{"launch", b.launch},     {"latency", b.latency}, {"issuing", b.overhead},
                                                  {"transfer", b.transfer}, {"copying", b.copy},    {"reducing", b.reduce}};
  for (const auto& [name, ns] : parts)
    if (ns > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, to_text(Nanoseconds{ns}));
  return text;
}

json candidate_tree(const Candidate& c) {
  return {{"algorithm", c.algorithm->name},
          {"protocol", schedule::name_of(c.protocol)},
          {"predicted_us", c.prediction.time.microseconds()},
          {"measured_us", c.measured_us ? json(*c.measured_us) : json(nullptr)},
          {"measured_in_place_us", c.measured_in_place_us ? json(*c.measured_in_place_us) : json(nullptr)},
          {"steps", c.prediction.steps},
          {"pieces", c.pieces},
          {"canonical", c.is_canonical},
          {"bytes_per_link", {c.prediction.bytes[0], c.prediction.bytes[1]}},
          {"method", c.prediction.is_walked ? "walk" : "closed form"}};
}

std::string times_of(const Candidate& c) {
  const std::string predicted = fmt::format("predicted {}", to_text(c.prediction.time));
  if (!c.measured_us) return predicted;
  const std::string in_place =
      c.measured_in_place_us ? fmt::format("in place {}, ", to_text(Nanoseconds{*c.measured_in_place_us * 1e3})) : std::string();
  return fmt::format("measured {} ({}{})", to_text(Nanoseconds{*c.measured_us * 1e3}), in_place, predicted);
}

/// What figures of several distances of the cores stand for.
std::string where_measured(const Environment& environment) {
  const std::vector<DistanceShare> distances = environment.distances();
  if (distances.size() < 2) return "";
  std::string text;
  for (const DistanceShare& at : distances)
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name_of(at.cores), 100 * at.share);
  return fmt::format("; the mean over where the cores were ({}), predictions are for {}", text, name_of(environment.cores));
}

/// The orders that it takes if it takes several; each up to kMostShown ranks are shown.
RingSet rings_of_candidate(const Environment& environment, const Candidate& c) {
  if (c.algorithm->name != "multi_ring") return {};
  return {environment.placement.rings, environment.placement.shares};
}

/// How much longer a candidate takes than the chosen one, by what chose.
std::string against(const Candidate& c, const Candidate& best) {
  if (best.measured_us && !c.measured_us) return "not measured";
  const double ratio =
      best.measured_us ? *c.measured_us / *best.measured_us : c.prediction.time.value / std::max(1e-9, best.prediction.time.value);
  if (!best.measured_in_place_us || !c.measured_in_place_us) return fmt::format("{:.2f} times as long", ratio);
  return fmt::format("{:.2f} times as long, in place {:.2f}", ratio, *c.measured_in_place_us / *best.measured_in_place_us);
}

/// Whether a candidate has the switches of a level compute. sharp does inside machines, too, where they can.
bool uses_switches(const Candidate& c, const Environment& environment, int l) {
  if (c.algorithm->switches == 0 || environment.ranks == 1 || !environment.switches[l].computes) return false;
  return l == 0 || (c.algorithm->switches & schedule::kSwitchesBetween) != 0;
}

json links_of(const Environment& environment, const Candidate& c) {
  json links = json::array();
  for (int l = 0; l < kLevels; ++l) {
    const Level& level = environment.level[l];
    if (!level.is_used) continue;
    links.push_back({{"level", level_name(l)},
                     {"scope", level.scope},
                     {"class", topology::name_of(level.path_class)},
                     {"GBps", std::min(level.bottleneck.gigabytes(), 1e21)},
                     {"latency_ns", level.latency.value},
                     {"bytes", c.prediction.bytes[l]}});
  }
  return links;
}

/// How two ranks make this sum in memory of peal::allocate, where that is not as chosen; empty: as chosen.
std::string_view way_in_shared_memory(const Environment& environment, const Selection& selection) {
  if (!is_faster_by_halves(size_of_call(selection.question.call, environment.ranks).value, true)) return "";
  return way_by_halves(environment, selection.question, selection.chosen().algorithm->name);
}

bool is_for_sums_in_place_alone(const Environment& environment, const Selection& selection) {
  return !is_faster_by_halves(size_of_call(selection.question.call, environment.ranks).value, false);
}

}  // namespace

std::string_view rounding_of(const Candidate& candidate, const Environment& environment, const Call& call) {
  if (!has_reduction(call.collective) || !is_narrow(call.type)) return "not at all";
  if (environment.ranks <= 2) return "once";
  auto schedule = schedule::make_schedule(*candidate.algorithm, request_of(environment, call));
  if (!schedule) return "once a hop";
  // Once where the owner holds all inputs, or where fp32 partial sums travel: no op combines and passes on what was rounded.
  const std::int32_t looked_at = std::min<std::int32_t>(environment.ranks, 64);
  for (std::int32_t rank = 0; rank < looked_at; ++rank) {
    const schedule::Program program = schedule::program_for(*schedule, rank);
    for (const schedule::Op& op : program.ops)
      if (schedule::reduces(op.kind) && (op.flags & schedule::kFinish) == 0 && !schedule::is_wide(op.dst.buffer)) return "once a hop";
  }
  return "once";
}

/// Whether sums that are not finished travel as f32 under the candidate's plan.
bool has_wide_partials(const Candidate& candidate, const Environment& environment, const Call& call) {
  auto schedule = schedule::make_schedule(*candidate.algorithm, request_of(environment, call));
  return schedule && schedule::sends_wide_partials(*schedule);
}

std::string explain_text(const Environment& environment, const Selection& selection) {
  const Call& call = selection.question.call;
  const Candidate& best = selection.chosen();
  std::string text = fmt::format("{} of {} bytes ({}) on {} ranks", name_of(call.collective), size_of_call(call, environment.ranks).value,
                                 name_of(call.type), environment.ranks);
  if (environment.nodes > 1) text += fmt::format(" in {} nodes", environment.nodes);
  text += fmt::format("\n\nchosen: {} with {}, {}\n", best.algorithm->name, schedule::name_of(best.protocol), times_of(best));
  text +=
      fmt::format("  chosen by {}\n", best.measured_us ? "measurement: " + environment.measured_by + where_measured(environment)
                                      : environment.measured_by.empty() ? "the cost model (no table of `peal tune` for this host)"
                                      : environment.measured.empty()
                                          ? "the cost model: " + environment.measured_by
                                          : "the cost model: the table of `peal tune` has nothing for this collective and number of ranks");
  text += fmt::format("  {}\n", best.algorithm->what);
  text += fmt::format("  {}: {}\n", schedule::name_of(best.protocol), schedule::traits_of(best.protocol).what);
  text +=
      fmt::format("  time: {} ({})\n", parts_of(best.prediction.breakdown), best.prediction.is_walked ? "every op walked" : "closed form");
  text += fmt::format("  {:.0f} step{}; {} piece{}, messages {}\n", best.prediction.steps, best.prediction.steps == 1 ? "" : "s",
                      best.pieces, best.pieces == 1 ? "" : "s", fits(best.message_bytes));
  for (int l = 0; l < kLevels; ++l) {
    const Level& level = environment.level[l];
    if (!level.is_used) continue;
    text += fmt::format("  {} ({}, {:.3g} GB/s{}): the busiest rank sends {:.0f} bytes\n", level_name(l), level.scope,
                        level.bottleneck.gigabytes(), l == 0 && environment.wiring.is_known() ? " between the farthest pair" : "",
                        best.prediction.bytes[l]);
  }
  for (int l = 0; l < kLevels; ++l) {
    const SwitchOffer& switches = environment.switches[l];
    if (!uses_switches(best, environment, l)) continue;
    text += fmt::format("  switches {} ({}) compute: {:.3g} GB/s a rank each way, {:.1f} us an op\n", level_name(l),
                        switches.constants.scope, switches.rate(), switches.hop() * 1e-3);
  }
  const RingSet set = rings_of_candidate(environment, best);
  for (std::size_t k = 0; k < set.rings.size(); ++k) {
    const std::vector<std::int32_t>& ring = set.rings[k];
    const std::string share = set.shares.empty() ? "" : fmt::format(" with {} of {} shares", set.share(k), set.all_shares());
    text += fmt::format("  ring {}{}\n",
                        fmt::join(ring.begin(), ring.begin() + std::min<std::ptrdiff_t>(std::ssize(ring), kMostShown), " "), share);
  }
  text += fmt::format("  {}\n", order_of(best, call.collective));
  if (is_narrow(call.type) && has_reduction(call.collective))
    text += fmt::format("  rounded to {} {}{}\n", name_of(call.type), rounding_of(best, environment, call),
                        has_wide_partials(best, environment, call) ? ": its partial sums travel as f32" : "");
  if (!selection.preferred_for.empty())
    text += fmt::format("  taken before ways that are predicted to be a little faster: {}\n", selection.preferred_for);
  if (const std::string_view way = way_in_shared_memory(environment, selection); !way.empty())
    text += fmt::format("  from the second call on in which both ranks' buffers are of peal::allocate{}: {}, half of the sum by each\n",
                        is_for_sums_in_place_alone(environment, selection) ? " and used in place" : "", way);
  if (selection.candidates.size() > 1) text += "\nit beat:\n";
  for (std::size_t i = 1; i < selection.candidates.size(); ++i) {
    const Candidate& c = selection.candidates[i];
    text += fmt::format("  {:<22} {:<13} {:>12}  {}{}\n", c.algorithm->name, schedule::name_of(c.protocol),
                        to_text(c.measured_us ? Nanoseconds{*c.measured_us * 1e3} : c.prediction.time), against(c, best),
                        c.is_canonical && has_reduction(call.collective) ? ", canonical" : "");
  }
  if (!selection.excluded.empty() || !environment.refusals.empty()) text += "\nexcluded:\n";
  for (const Exclusion& e : selection.excluded)
    text += fmt::format("  {:<22} {:<13} {}\n", e.algorithm, e.protocol ? schedule::name_of(*e.protocol) : "", e.why);
  for (const Refusal& r : environment.refusals)
    text += fmt::format("  {:<22} {:<13} {}\n", "every algorithm", schedule::name_of(r.protocol), r.why);
  text += "\nconstants:\n";
  const Offer offer = offer_for(environment, call, best.message_bytes, 0, *environment.offer(best.protocol));
  for (int l = 0; l < kLevels; ++l)
    if (const topology::ProtocolConstants& c = offer.constants[l]; environment.is_used(l))
      text += fmt::format("  {} ({}): {}\n", c.scope, c.protocol, c.source);
  for (int l = 0; l < kLevels; ++l)
    if (const topology::ProtocolConstants& c = environment.switches[l].constants; uses_switches(best, environment, l))
      text += fmt::format("  {} ({}): {}\n", c.scope, c.protocol, c.source);
  return text;
}

std::string explain_json(const Environment& environment, const Selection& selection) {
  const Call& call = selection.question.call;
  const Candidate& best = selection.chosen();
  const Breakdown& b = best.prediction.breakdown;
  json tree = {{"schema", "peal.explain/1"},
               {"collective", name_of(call.collective)},
               {"bytes", size_of_call(call, environment.ranks).value},
               {"dtype", name_of(call.type)},
               {"ranks", environment.ranks},
               {"nodes", environment.nodes},
               {"deterministic", selection.question.is_deterministic},
               {"algorithm", best.algorithm->name},
               {"protocol", schedule::name_of(best.protocol)},
               {"predicted_us", best.prediction.time.microseconds()},
               {"measured_us", best.measured_us ? json(*best.measured_us) : json(nullptr)},
               {"measured_in_place_us", best.measured_in_place_us ? json(*best.measured_in_place_us) : json(nullptr)},
               {"chosen_by", best.measured_us ? "measurement" : "model"},
               {"measured_by", environment.measured_by + (best.measured_us ? where_measured(environment) : "")},
               {"preferred_for", selection.preferred_for},
               {"in_shared_memory", nullptr},
               {"steps", best.prediction.steps},
               {"canonical", best.is_canonical},
               {"rounding", rounding_of(best, environment, call)},
               {"partial_sums", has_wide_partials(best, environment, call) ? "f32" : "element"},
               {"bytes_per_link", links_of(environment, best)},
               {"breakdown_us",
                {{"launch", b.launch * 1e-3},
                 {"latency", b.latency * 1e-3},
                 {"overhead", b.overhead * 1e-3},
                 {"transfer", b.transfer * 1e-3},
                 {"copy", b.copy * 1e-3},
                 {"reduce", b.reduce * 1e-3}}},
               {"candidates", json::array()},
               {"excluded", json::array()},
               {"rings", json::array()},
               {"constants", json::array()}};
  if (const std::string_view way = way_in_shared_memory(environment, selection); !way.empty())
    tree["in_shared_memory"] = {{"algorithm", way}, {"in_place_alone", is_for_sums_in_place_alone(environment, selection)}};
  RingSet set = rings_of_candidate(environment, best);
  for (std::vector<std::int32_t>& ring : set.rings) tree["rings"].push_back(std::move(ring));
  if (!set.shares.empty()) tree["shares"] = std::move(set.shares);
  for (const Candidate& c : selection.candidates) tree["candidates"].push_back(candidate_tree(c));
  for (const Exclusion& e : selection.excluded)
    tree["excluded"].push_back(
        {{"algorithm", e.algorithm}, {"protocol", e.protocol ? json(schedule::name_of(*e.protocol)) : json(nullptr)}, {"why", e.why}});
  for (const Refusal& r : environment.refusals)
    tree["excluded"].push_back({{"algorithm", nullptr}, {"protocol", schedule::name_of(r.protocol)}, {"why", r.why}});
  const Offer offer = offer_for(environment, call, best.message_bytes, 0, *environment.offer(best.protocol));
  for (int l = 0; l < kLevels; ++l)
    if (const topology::ProtocolConstants& c = offer.constants[l]; environment.is_used(l))
      tree["constants"].push_back({{"scope", c.scope}, {"protocol", c.protocol}, {"source", c.source}});
  for (int l = 0; l < kLevels; ++l)
    if (const topology::ProtocolConstants& c = environment.switches[l].constants; uses_switches(best, environment, l))
      tree["constants"].push_back({{"scope", c.scope}, {"protocol", c.protocol}, {"source", c.source}});
  return tree.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace peal::tuning
