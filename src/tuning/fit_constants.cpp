// Damped Gauss-Newton over the logarithms of the terms, so that a term stays positive and errors count as ratios. Terms that the
// measurements do not tell apart stay near where they start (data/constants), and rates of neighbouring sizes near each other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuning/cost.hpp>
#include <tuning/fit_constants.hpp>
#include <tuning/message_cost.hpp>
#include <tuning/positive_definite.hpp>
#include <tuple>

namespace peal::tuning {

namespace {

constexpr double kNearBest = 1.3;        // of the best way of its case, somewhere: slower ones are not taken, and need not be predicted
constexpr double kLeastShare = 1.0 / 3;  // of the cells of the distance that was met most: with fewer, terms are guessed
constexpr int kFewestRepeats = 2;        // where any cell has as many: a distance that was met once was met just after the cores were moved
constexpr double kUsualWritten = 0.5;    // two ranks on an Emerald Rapids: 0.47; four: 0.4
constexpr double kFirstRate = 64;        // bytes
constexpr double kRateStep = 2;          // from one size of the rates to the next
constexpr double kOutlier = 0.15;        // errors beyond it weigh in proportion, not squared
constexpr double kPriorWeight = 0.03;    // of a term that leaves its start by a factor of e, against one error of 100 %
constexpr double kSmoothWeight = 0.15;   // the same of neighbouring rates
constexpr int kMostRounds = 40;
constexpr double kEnoughGain = 1e-4;  // gain of a round
constexpr int kSingle = 10;          // launch, meeting, hop, op, receive, touch, slot, second, written, power; then the rates of every size
constexpr int kPower = kSingle - 1;  // the one term that is not a logarithm
constexpr int kWritten = kPower - 1;  // what was just written comes at most as fast as what was not
constexpr double kMostPower = 1;      // calls cannot take longer by more than every exchange does

struct Cell {
  Plan plan;
  double us = 0;
  double exchange = 0;  ///< log of how many times the usual exchange of flags took
};

using schedule::Protocol;
using Vector = std::vector<double>;

constexpr double MeasuredRate::*kRates[] = {&MeasuredRate::copy, &MeasuredRate::reduce, &MeasuredRate::copy_among_all,
                                            &MeasuredRate::reduce_among_all, &MeasuredRate::copy_to_root};
constexpr double MeasuredConstants::*kTerms[] = {
    &MeasuredConstants::launch_ns, &MeasuredConstants::meeting_ns, &MeasuredConstants::hop_ns,
    &MeasuredConstants::op_ns,     &MeasuredConstants::receive_ns, &MeasuredConstants::touch_ns,
    &MeasuredConstants::slot_ns,   &MeasuredConstants::second_ns,  &MeasuredConstants::written_share};
static_assert(std::size(kTerms) == kPower);
constexpr int kRateCount = static_cast<int>(std::size(kRates));

class Fit {
 public:
  Fit(const Environment& environment, const Offer& offer, MeasuredConstants start, std::vector<Cell> cells)
      : environment_(environment), offer_(offer), constants_(std::move(start)), cells_(std::move(cells)), start_(terms_of(constants_)) {}

  /// How far the exchanges of its cells lie apart: what they say of the power weighs so much.
  double spread() const {
    return std::accumulate(cells_.begin(), cells_.end(), 0.0, [](double sum, const Cell& c) { return sum + c.exchange * c.exchange; });
  }

  /// Fitted with the power of the exchange, or with that one.
  MeasuredConstants run(std::optional<double> power = std::nullopt) {
    Vector x = start_;
    has_power_ = power.has_value();
    x[kPower] = power.value_or(start_[kPower]);
    double damping = 1e-2;
    Vector errors = errors_of(x);
    double cost = cost_of(x, errors);
    for (int round = 0; round < kMostRounds && damping < 1e6; ++round) {
      const Vector next = step_from(x, errors, damping);
      const Vector next_errors = errors_of(next);
      const double next_cost = cost_of(next, next_errors);
      if (!(next_cost < cost)) {
        damping *= 4;
        continue;
      }
      const bool is_done = cost - next_cost < kEnoughGain * cost;
      x = next;
      errors = next_errors;
      cost = next_cost;
      damping /= 3;
      if (is_done) break;
    }
    return concluded(x, errors);
  }

 private:
  static Vector terms_of(const MeasuredConstants& c) {
    Vector x;
    for (const auto term : kTerms) x.push_back(std::log(c.*term));
    x.push_back(c.exchange_power);
    for (const MeasuredRate& r : c.rates)
      for (const auto rate : kRates) x.push_back(std::log(r.*rate));
    return x;
  }
  MeasuredConstants constants_with(const Vector& x) const {
    MeasuredConstants c = constants_;
    std::size_t next = 0;
    for (const auto term : kTerms) c.*term = std::exp(x[next++]);
    c.exchange_power = x[next++];
    for (MeasuredRate& r : c.rates)
      for (const auto rate : kRates) r.*rate = std::exp(x[next++]);
    return c;
  }

  /// log(predicted / measured) of every cell.
  Vector errors_of(const Vector& x) {
    const MeasuredConstants constants = constants_with(x);
    Vector errors;
    for (Cell& cell : cells_) {
      cell.plan.offer = offer_with(environment_, cell.plan.call, cell.plan.longest, cell.plan.worked, offer_, constants);
      errors.push_back(error_of(cell, constants.exchange_power));
    }
    return errors;
  }
  double error_of(const Cell& cell, double power) const {
    return std::log(std::max(1e-6, predict(environment_, cell.plan).time.microseconds()) / cell.us) + power * cell.exchange;
  }

  /// How each cell's error changes with term i. Most cells do not know it: a call has the rates of its own size alone.
  Vector slope_of(const Vector& x, std::size_t i, const Vector& errors) {
    constexpr double kStep = 1e-3;
    Vector slope(cells_.size());
    if (i == kPower) {
      if (has_power_) return slope;
      for (std::size_t c = 0; c < cells_.size(); ++c) slope[c] = cells_[c].exchange;
      return slope;
    }
    Vector moved = x;
    moved[i] += kStep;
    const MeasuredConstants here = constants_with(x), there = constants_with(moved);
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      Plan& plan = cells_[c].plan;
      plan.offer = offer_with(environment_, plan.call, plan.longest, plan.worked, offer_, there);
      if (has_same_terms(plan.offer, offer_with(environment_, plan.call, plan.longest, plan.worked, offer_, here))) continue;
      slope[c] = (error_of(cells_[c], x[kPower]) - errors[c]) / kStep;
    }
    return slope;
  }
  static bool has_same_terms(const Offer& a, const Offer& b) {
    const auto terms = [](const Offer& offer) {
      const topology::ProtocolConstants& c = offer.constants[0];
      return std::tuple{c.launch.value, c.per_hop.value, c.per_op.value,      c.efficiency,
                        c.copy.value,   c.reduce.value,  offer.written_share, offer.receive_ns};
    };
    return terms(a) == terms(b);
  }
  double cost_of(const Vector& x, const Vector& errors) const {
    double cost = 0;
    for (const double e : errors) cost += std::abs(e) <= kOutlier ? e * e : kOutlier * (2 * std::abs(e) - kOutlier);
    for (const auto& [i, j, weight, target] : ties()) {
      const double e = (j < 0 ? x[at(i)] : x[at(i)] - x[at(j)]) - target;
      cost += weight * weight * e * e;
    }
    return cost;
  }

  struct Tie {
    int i, j;  // j < 0: to `target` itself
    double weight, target;
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::vector<Tie> ties() const {
    std::vector<Tie> all;
    const int n = static_cast<int>(start_.size());
    for (int i = 0; i < n; ++i) all.push_back({i, -1, kPriorWeight, start_[at(i)]});
    for (int i = kSingle; i + kRateCount < n; ++i) all.push_back({i + kRateCount, i, kSmoothWeight, 0});
    return all;
  }

  Vector step_from(const Vector& x, const Vector& errors, double damping) {
    const std::size_t n = x.size();
    std::vector<Vector> slopes;  // of a term, of every cell
    for (std::size_t i = 0; i < n; ++i) slopes.push_back(slope_of(x, i, errors));
    Vector a(n * n), step(n);
    for (std::size_t c = 0; c < errors.size(); ++c) {
      const double weight = std::min(1.0, kOutlier / std::max(1e-9, std::abs(errors[c])));
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) a[i * n + j] += weight * slopes[i][c] * slopes[j][c];
        step[i] -= weight * slopes[i][c] * errors[c];
      }
    }
    for (const auto& [first, second, weight, target] : ties()) {
      const double w = weight * weight;
      const std::size_t i = at(first);
      a[i * n + i] += w;
      if (second < 0) {
        step[i] -= w * (x[i] - target);
        continue;
      }
      const std::size_t j = at(second);
      a[j * n + j] += w;
      a[i * n + j] -= w;
      a[j * n + i] -= w;
      step[i] -= w * (x[i] - x[j] - target);
      step[j] += w * (x[i] - x[j] - target);
    }
    for (std::size_t i = 0; i < n; ++i) a[i * n + i] *= 1 + damping;
    if (!solve_positive_definite(std::move(a), step)) return x;
    Vector next = x;
    for (std::size_t i = 0; i < n; ++i) next[i] += std::clamp(step[i], -1.0, 1.0);
    next[kWritten] = std::min(next[kWritten], 0.0);
    next[kPower] = has_power_ ? x[kPower] : std::clamp(next[kPower], 0.0, kMostPower);
    return next;
  }

  MeasuredConstants concluded(const Vector& x, const Vector& errors) const {
    MeasuredConstants c = constants_with(x);
    Vector sizes;
    for (const double e : errors) sizes.push_back(std::abs(std::exp(e) - 1));
    std::sort(sizes.begin(), sizes.end());
    if (!has_slots_in_memory(environment_, offer_)) c.slot_ns = c.touch_ns = 0;
    if (!has_lines_in_memory(environment_, offer_)) c.second_ns = 0;
    c.cells = static_cast<int>(sizes.size());
    c.median_error = sizes[sizes.size() / 2];
    c.worst_error = sizes.back();
    return c;
  }

  const Environment& environment_;
  const Offer& offer_;
  MeasuredConstants constants_;
  std::vector<Cell> cells_;
  Vector start_;
  bool has_power_ = false;
};

Call call_of(Collective collective, std::uint64_t bytes) {
  Call call;
  call.collective = collective;
  call.bytes = {bytes};
  call.type = DataType::f32;
  return call;
}

/// Median over what was measured for these ranks and wires with the cores there.
double usual_exchange(const Environment& environment, const std::vector<MeasuredWay>& ways, CoreDistance cores) {
  std::vector<double> exchanges;
  for (const MeasuredWay& way : ways)
    if (way.cores == cores && way.ranks == environment.ranks && way.scope == environment.level[0].scope)
      for (const MeasuredPoint& p : way.points) exchanges.push_back(p.exchange_ns);
  if (exchanges.empty()) return 0;
  std::sort(exchanges.begin(), exchanges.end());
  return exchanges[exchanges.size() / 2];
}

// The exchange is that of ranks 0 and 1. Among more ranks it is one way of many: on 16 cores of an Emerald Rapids predictions that went by
// it were off by 18, 11, 9 and 15 % in the median (4, 8, 16 and 16 ranks), without it by 10, 9, 10 and 10 %.
double ratio_of(const Environment& environment, double exchange_ns, double usual_ns) {
  if (environment.ranks > 2 || !is_by_memory(environment, 0) || exchange_ns <= 0 || usual_ns <= 0) return 1;
  return exchange_ns / usual_ns;
}

using Case = std::tuple<CoreDistance, Collective, std::uint64_t>;

/// A way at one size.
using SizedWay = std::tuple<Collective, std::string_view, schedule::Protocol, std::uint64_t>;

/// The best time of every case.
std::map<Case, double> best_of(const std::vector<const MeasuredWay*>& ways) {
  std::map<Case, double> best;
  for (const MeasuredWay* way : ways)
    for (const MeasuredPoint& p : way->points) {
      const auto [known, is_new] = best.emplace(Case{way->cores, way->collective, p.bytes}, p.us);
      if (!is_new) known->second = std::min(known->second, p.us);
    }
  return best;
}

/// Those that are near the best wherever the cores were: what is taken because it is fast at one distance is met at the others, too.
std::set<SizedWay> near_best_of(const std::vector<const MeasuredWay*>& ways) {
  const std::map<Case, double> best = best_of(ways);
  std::set<SizedWay> near;
  for (const MeasuredWay* way : ways)
    for (const MeasuredPoint& p : way->points)
      if (p.us <= kNearBest * best.at({way->cores, way->collective, p.bytes}))
        near.insert({way->collective, way->algorithm, way->protocol, p.bytes});
  return near;
}

int most_repeats(const std::vector<const MeasuredWay*>& ways) {
  int most = 0;
  for (const MeasuredWay* way : ways)
    for (const MeasuredPoint& p : way->points) most = std::max(most, p.repeats);
  return most;
}

/// What of a table is worth fitting to.
struct Worth {
  explicit Worth(const std::vector<const MeasuredWay*>& ways)
      : near_best(near_best_of(ways)), fewest(std::min(kFewestRepeats, most_repeats(ways))) {}
  bool has(const MeasuredWay& way, const MeasuredPoint& point) const {
    return point.repeats >= fewest && near_best.contains({way.collective, way.algorithm, way.protocol, point.bytes});
  }
  std::set<SizedWay> near_best;
  int fewest;
};

/// Whether calls that all wait for and calls that go one way were both measured with the cores there: by one of the two alone the wait is
/// not told from the way (sockets, far, from all_gather alone: all of it was the wait, and a broadcast took 0.5 us instead of 9).
bool has_both_kinds(const std::vector<const MeasuredWay*>& ways, const Worth& worth, CoreDistance cores) {
  bool has[2] = {};
  for (const MeasuredWay* way : ways)
    for (const MeasuredPoint& p : way->points)
      if (way->cores == cores && worth.has(*way, p)) has[has_root(way->collective) ? 1 : 0] = true;
  return has[0] && has[1];
}

/// Whether this distance was met for a while: a protocol has a fair share there of the cells that it has at the distance met most.
bool was_met_long(const std::vector<const MeasuredWay*>& ways, const Worth& worth, CoreDistance cores, schedule::Protocol protocol) {
  std::map<CoreDistance, double> cells;
  double most = 0;
  for (const MeasuredWay* way : ways)
    for (const MeasuredPoint& p : way->points)
      if (way->protocol == protocol && worth.has(*way, p)) most = std::max(most, ++cells[way->cores]);
  return cells[cores] >= kLeastShare * most;
}

std::vector<Cell> cells_of(const Environment& environment, const std::vector<const MeasuredWay*>& ways, const Worth& worth,
                           CoreDistance cores, schedule::Protocol protocol, double usual_ns) {
  std::vector<Cell> cells;
  for (const MeasuredWay* way : ways) {
    if (way->cores != cores || way->protocol != protocol) continue;
    const auto algorithm = schedule::find_algorithm(way->collective, way->algorithm);
    if (!algorithm) continue;  // of another version
    for (const MeasuredPoint& p : way->points) {
      if (!worth.has(*way, p)) continue;
      auto plan = make_plan(environment, **algorithm, protocol, call_of(way->collective, p.bytes));
      if (plan) cells.push_back({*std::move(plan), p.us, std::log(ratio_of(environment, p.exchange_ns, usual_ns))});
    }
  }
  return cells;
}

/// Where the fit begins: what data/constants says, at all sizes alike.
MeasuredConstants start_of(const Environment& environment, const Offer& offer, CoreDistance cores, const std::vector<Cell>& cells) {
  const topology::ProtocolConstants& terms = offer.constants[0];
  const auto positive = [](double value, double otherwise) { return value > 0 ? value : otherwise; };
  MeasuredConstants c;
  c.scope = environment.level[0].scope;
  c.ranks = environment.ranks;
  c.cores = cores;
  c.protocol = offer.protocol;
  c.launch_ns = positive(terms.launch.value, 1);
  c.hop_ns = positive(terms.per_hop.value + environment.level[0].latency.value, 1);
  c.meeting_ns = c.slot_ns = c.second_ns = c.hop_ns;
  c.op_ns = c.receive_ns = c.touch_ns = positive(terms.per_op.value, 1);
  c.written_share = offer.protocol == Protocol::direct_read ? kUsualWritten : 1;
  const double copy = positive(terms.copy.gigabytes(), 10), reduce = positive(terms.reduce.gigabytes(), 10);
  double least = std::numeric_limits<double>::max(), most = 0;
  for (const Cell& cell : cells) {
    least = std::min(least, cell.plan.worked);
    most = std::max(most, cell.plan.worked);
  }
  for (double bytes = kFirstRate; c.rates.empty() || bytes < kRateStep * most; bytes *= kRateStep)
    if (bytes * kRateStep > least || bytes >= most) c.rates.push_back({bytes, copy, reduce, copy, reduce, copy});
  return c;
}

}  // namespace

bool is_fitted(Collective collective) noexcept {
  return std::find(std::begin(kFittedCollectives), std::end(kFittedCollectives), collective) != std::end(kFittedCollectives);
}

PredictedTime predicted_time(const Selection& selection) {
  const Candidate& chosen = selection.chosen();
  const double model_us = chosen.prediction.time.microseconds();
  return {is_fitted(selection.question.call.collective) ? chosen.measured_us.value_or(model_us) : model_us, model_us};
}

double exchange_ratio(const Environment& environment, schedule::Protocol protocol, CoreDistance cores, double exchange_ns) {
  const double ratio = ratio_of(environment, exchange_ns, usual_exchange(environment, environment.measured, cores));
  const MeasuredConstants* const constants = environment.constants_of(protocol, cores);
  return constants == nullptr ? 1 : std::pow(ratio, constants->exchange_power);
}

std::vector<MeasuredConstants> fit_constants(const Environment& environment, const std::vector<MeasuredWay>& ways) {
  if (environment.shares_cores() || environment.nodes != 1) return {};
  std::vector<const MeasuredWay*> known;
  for (const MeasuredWay& way : ways)
    if (way.ranks == environment.ranks && way.scope == environment.level[0].scope && is_fitted(way.collective) && !way.is_in_place)
      known.push_back(&way);
  const Worth worth(known);
  std::map<std::pair<CoreDistance, Protocol>, Fit> fits;
  std::vector<decltype(fits)::iterator> in_order;
  for (const MeasuredWay* way : known) {
    const Offer* offer = environment.offer(way->protocol);
    if (offer == nullptr || fits.contains({way->cores, way->protocol}) || !has_both_kinds(known, worth, way->cores)) continue;
    if (!was_met_long(known, worth, way->cores, way->protocol)) continue;
    std::vector<Cell> cells = cells_of(environment, known, worth, way->cores, way->protocol, usual_exchange(environment, ways, way->cores));
    if (cells.empty()) continue;
    MeasuredConstants start = start_of(environment, *offer, way->cores, cells);
    in_order.push_back(fits.try_emplace({way->cores, way->protocol}, environment, *offer, std::move(start), std::move(cells)).first);
  }
  // The power is the distance's, of all protocols together: each alone has too few cells for it.
  std::map<CoreDistance, std::pair<double, double>> power;  // summed, weighed by the spread; the weights
  for (auto& [key, fit] : fits) {
    auto& [sum, weights] = power[key.first];
    sum += fit.spread() * fit.run().exchange_power;
    weights += fit.spread();
  }
  std::vector<MeasuredConstants> all;
  for (const auto& each : in_order) {
    const auto& [sum, weights] = power[each->first.first];
    all.push_back(each->second.run(weights > 0 ? sum / weights : MeasuredConstants{}.exchange_power));
  }
  return all;
}

}  // namespace peal::tuning
