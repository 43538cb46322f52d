#include <algorithm>
#include <cmath>
#include <tuning/core_turns.hpp>
#include <tuning/cost.hpp>
#include <tuning/message_cost.hpp>

#include "walk.hpp"

namespace peal::tuning {

namespace {

/// Longer calls are walked at these two lengths (pieces or slices) and continued in a straight line; by the first of them pipelines run
/// full.
constexpr std::int32_t kShort = 8;
constexpr std::int32_t kLong = 16;

std::int64_t visits_of(const schedule::Program& program) {
  std::int64_t visits = 0;
  schedule::each_counted(program, [&](const schedule::Op&, std::int64_t times) { visits += times; });
  return visits;
}

/// Of all ranks. Where the first rank does more than the last one does, they are looked at one by one; `enough`: more need not be told
/// from it.
double visits_of_all(const Plan& plan, double enough) {
  const std::int32_t n = plan.schedule.request.ranks;
  const auto of = [&](std::int32_t rank) { return static_cast<double>(visits_of(schedule::program_for(plan.schedule, rank))); };
  const double of_first = of(0);
  if (of_first * n <= enough || of(n - 1) * n > enough) return of_first * n;
  double visits = 0;
  for (std::int32_t r = 0; r < n && visits <= enough; ++r) visits += of(r);
  return visits;
}

/// How long the plan is, in pieces, or in the slices of its longest op; fractions count.
double length_of(const Plan& plan) {
  const auto chunk = static_cast<double>(plan.extents.largest_chunk());
  if (plan.schedule.pieced) return plan.pieces.count == 1 ? 1 : chunk / static_cast<double>(plan.pieces.elements);
  if (plan.message_bytes == ~std::uint64_t{0}) return 1;
  return std::max(1.0, chunk * plan.element_bytes / static_cast<double>(plan.message_bytes));
}

double steps_of(const schedule::CostTerms& terms) { return terms.rounds() + terms.switched[0].rounds + terms.switched[1].rounds; }

/// y(at) of the straight line through (x0, y0) and (x1, y1), for every figure of a prediction.
Prediction continue_line(const Prediction& a, double x0, const Prediction& b, double x1, double x) {
  const auto line = [&](double y0, double y1) { return std::max(0.0, y1 + (y1 - y0) * (x - x1) / (x1 - x0)); };
  Prediction p = b;
  p.time.value = line(a.time.value, b.time.value);
  const Breakdown& s = a.breakdown;
  const Breakdown& t = b.breakdown;
  p.breakdown = {line(s.launch, t.launch),     line(s.latency, t.latency), line(s.overhead, t.overhead),
                 line(s.transfer, t.transfer), line(s.copy, t.copy),       line(s.reduce, t.reduce)};
  // Where the critical path changes its course between the two lengths, a part may run below zero: the rest is shared out again.
  const double whole = p.breakdown.total();
  const double share = whole > 0 ? p.time.value / whole : 1;
  Breakdown& parts = p.breakdown;
  for (double* part : {&parts.launch, &parts.latency, &parts.overhead, &parts.transfer, &parts.copy, &parts.reduce}) *part *= share;
  for (int l = 0; l < kLevels; ++l) p.bytes[l] = line(a.bytes[l], b.bytes[l]);
  p.crossed = line(a.crossed, b.crossed);
  p.busiest_group = line(a.busiest_group, b.busiest_group);
  return p;
}

/// Ranks on the core that most ranks share.
int most_on_a_core(const Environment& environment) {
  if (!environment.is_host) return 1;
  const CoreTurns turns(environment);
  int most = 1;
  for (std::int32_t r = 0; r < environment.ranks; ++r) most = std::max(most, turns.sharing(r));
  return most;
}

/// How many times the bytes of its elements a plan sends, where fp32 partial sums are among them.
double stretch_of(const Plan& plan) {
  if (!plan.has_wide_partials) return 1;
  constexpr std::int32_t kMostLookedAt = 64;
  const std::int32_t n = plan.schedule.request.ranks;
  double chunks = 0;
  double wide = 0;
  for (std::int32_t r = 0; r < n; r += std::max(1, n / kMostLookedAt)) {
    schedule::each_counted(schedule::program_for(plan.schedule, r), [&](const schedule::Op& op, std::int64_t times) {
      if (!schedule::sends(op.kind)) return;
      const double sent = static_cast<double>(times) * (op.kind == schedule::OpKind::send ? op.src.count : op.dst.count);
      chunks += sent;
      if (schedule::sent_wire(op) == schedule::Wire::fp32) wide += sent;
    });
  }
  return chunks > 0 ? 1 + wide / chunks * (4.0 / plan.element_bytes - 1) : 1;
}

/// Bytes of the ops that switches compute at a level, over one rank's wires.
double switched_time(const Environment& environment, const schedule::CostTerms::Switched& terms, int l, double bytes, double length) {
  const double passed = terms.moved + (terms.critical - terms.moved) / std::max(1.0, length);
  return time_at(passed * bytes * (l == 1 ? environment.level[1].ranks_per_outlet : 1), environment.switches[l].rate());
}

/// What slots add to a row of messages to the same peer: as many of them are under way as it has slots, and a slot is free again when its
/// message has come and the word of that is back.
double held_by_slots(const MessageCost& message, double in_a_row, double wire, int slots) {
  if (slots == 0 || in_a_row <= 0) return 0;
  const double each = 2 * message.per_op + wire;
  return in_a_row * std::max(0.0, (2 * message.hop + each) / slots - each);
}

/// Two phases that pieces pass one after the other: the shorter shows in one piece alone.
double beside(double a, double b, double length) { return std::max(a, b) + std::min(a, b) / std::max(1.0, length); }

/// Transfer `before`, with that of one more level. Ops of switches go beside messages, and so do strands that each take up piece after
/// piece (or a round of one level beside one of the other); what a rank receives at both levels comes at the same time; what it sends goes
/// in turns.
double with_level(const schedule::CostTerms& terms, double before, double wire, double length) {
  const bool is_beside = terms.switched[0].rounds + terms.switched[1].rounds > 0 || terms.level[1].strand_rounds > 0 ||
                         (terms.pipelined && (terms.both_levels_at_once || terms.level[0].received + terms.level[1].received > 0));
  const double parts = terms.rounds_at_once ? length * std::min(terms.level[0].rounds, terms.level[1].rounds) : length;
  return is_beside ? beside(before, wire, parts) : before + wire;
}

std::vector<schedule::Program> programs_of(const Plan& plan) {
  std::vector<schedule::Program> programs;
  programs.reserve(static_cast<std::size_t>(plan.schedule.request.ranks));
  for (std::int32_t r = 0; r < plan.schedule.request.ranks; ++r) programs.push_back(schedule::program_for(plan.schedule, r));
  return programs;
}

Result<Prediction> walk_whole(const Environment& environment, const Plan& plan, const std::vector<schedule::Program>& programs) {
  const double length = length_of(plan);
  if (length <= kLong) return walk(environment, plan, programs, {plan.pieces.count, 1});
  const bool is_pieced = plan.schedule.pieced;
  const auto part = [&](std::int32_t units) { return is_pieced ? WalkExtent{units, 1} : WalkExtent{1, units / length}; };
  PEAL_ASSIGN(const Prediction a, walk(environment, plan, programs, part(kShort)));
  PEAL_ASSIGN(const Prediction b, walk(environment, plan, programs, part(kLong)));
  return continue_line(a, kShort, b, kLong, length);
}

}  // namespace

Result<Prediction> predict_walked(const Environment& environment, const Plan& plan) {
  PEAL_ASSIGN(Prediction prediction, walk_whole(environment, plan, programs_of(plan)));
  if (plan.algorithm != nullptr && environment.ranks > 1) prediction.steps = steps_of(plan.algorithm->cost(plan.schedule.request));
  return prediction;
}

Prediction predict_closed(const Environment& environment, const Plan& plan) {
  Prediction prediction;
  if (plan.algorithm == nullptr) return prediction;
  const Offer& offer = plan.offer;
  const schedule::CostTerms terms = environment.ranks == 1 ? schedule::CostTerms{} : plan.algorithm->cost(plan.schedule.request);
  const double bytes = static_cast<double>(plan.call.bytes.value) * stretch_of(plan);
  const double length = length_of(plan);
  Breakdown& cost = prediction.breakdown;
  double reduced = terms.reduced;
  double all_rounds = 0;
  double busiest_wire = 0;
  double held = 0;  // what a piece takes a strand that waits for others in every round
  // A chunk's way round rings takes every hop at both levels, while the busiest of the wires carries all chunks without a pause: the longer
  // decides.
  const bool is_round = terms.both_levels_at_once && !terms.pipelined;
  for (int l = 0; l < kLevels; ++l) {
    if (!environment.is_used(l)) continue;
    const Level& level = environment.level[l];
    const schedule::CostTerms::Level& term = terms.level[l];
    const MessageCost message = message_cost(environment, plan, l, level.latency, level.bottleneck);
    cost.launch = std::max(cost.launch, offer.constants[l].launch.value);
    // Pieces follow one another through a pipeline, or each starts when the one before has ended.
    const double rounds = terms.pipelined ? term.rounds : term.rounds * std::max(1.0, length);
    const double spread = std::min<double>(term.ways, level.outlets);
    const double busiest = std::max(term.sent, term.received) / spread;
    const double moved = terms.pipelined && length > 1 ? busiest + (term.critical - busiest) / length : term.critical;
    double latency = rounds * message.hop;
    cost.overhead += 2 * message.per_op * std::max(rounds, term.messages * length);
    const schedule::CostTerms::Switched& switched = terms.switched[l];
    const double outlet = wire_time(message, term.sent * (l == 1 ? level.ranks_per_outlet : 1) / spread * bytes);
    const double way = wire_time(message, moved / terms.rows_at_once * bytes);
    const double wire = (is_round ? way : std::max(way, outlet)) + switched_time(environment, switched, l, bytes, length);
    busiest_wire = std::max(busiest_wire, outlet);
    if (term.in_a_row > 0) latency += held_by_slots(message, term.in_a_row * length, wire / (term.messages * length), plan.slots);
    if (term.strand_rounds > 0) held = std::max(held, term.strand_rounds * message.hop + wire / length);
    const double combined = std::min(reduced, moved);
    reduced -= combined;
    cost.transfer = with_level(terms, cost.transfer, wire, length);
    if (message.is_on_core) {
      cost.copy += send_work(message, moved * bytes) + time_at((moved - combined) * bytes, message.copy);
      cost.reduce += time_at(combined * bytes, message.reduce);
    }
    all_rounds += rounds;
    latency += switched.rounds * environment.switches[l].hop();
    cost.latency = terms.rounds_at_once ? std::max(cost.latency, latency) : cost.latency + latency;
    prediction.bytes[l] = (term.sent + switched.moved) * bytes;
    if (l == 0 || !environment.is_used(0)) cost.copy += time_at(terms.copied * bytes, local_cost(environment, plan).copy);
  }
  prediction.steps = steps_of(terms);
  if (is_round) cost.transfer = std::max(cost.transfer, busiest_wire - cost.latency);
  if (terms.pipelined && held > 0) cost.latency += std::max(0.0, (length - 1) * (held - cost.transfer / length));
  // Ranks of one core do their parts of every step one after another, and in every step the core goes round them once.
  const int sharing = most_on_a_core(environment);
  for (double* part : {&cost.overhead, &cost.copy, &cost.reduce}) *part *= sharing;
  cost.overhead += all_rounds * (sharing - 1) * environment.core_switch.value;
  prediction.time = {cost.total()};
  return prediction;
}

Prediction predict(const Environment& environment, const Plan& plan) {
  const double units = std::min(length_of(plan), static_cast<double>(kShort + kLong));
  // The closed form knows nothing of wires.
  const auto most = static_cast<double>(environment.wiring.is_known() ? 10 * kMostVisits : kMostVisits);
  const bool is_small = environment.ranks <= 256 && visits_of_all(plan, most / units) * units <= most;
  if (is_small || plan.algorithm == nullptr) {
    if (auto walked = predict_walked(environment, plan)) return *std::move(walked);
  }
  return predict_closed(environment, plan);
}

}  // namespace peal::tuning
