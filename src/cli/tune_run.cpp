// Rounds over all ways at all sizes, so that what the machine does meanwhile meets all of them alike: short ones, because a machine that
// others use too differs more from round to round than the calls of a round do among each other. After each of the first of them
// what is too slow to matter is dropped, the others go on until the budget is spent. What a choice is judged by is measured again where it
// was measured too rarely for a judgement.
#include <algorithm>
#include <base/clock.hpp>
#include <base/names.hpp>
#include <base/percentile.hpp>
#include <cli/bench.hpp>
#include <cli/tune.hpp>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <schedule/registry.hpp>
#include <set>
#include <tuning/message_cost.hpp>
#include <tuning/select.hpp>
#include <tuple>

namespace peal::cli {

namespace {

// Times the best of a case's rounds so far: slower ways are dropped after the first round (whose first call of all waits for pages), after
// the second and so on, and the rounds that are left go to those that may be the best.
// Long calls vary little, but the first round has one of each.
struct Hopeless {
  double of_short, of_long;
};
constexpr Hopeless kHopelessAfter[] = {{4, 2}, {2, 1.5}, {1.5, 1.5}, {1.5, 1.5}, {1.3, 1.3}};
constexpr int kRoundsThatDrop = static_cast<int>(std::size(kHopelessAfter));
constexpr int kMostRounds = 25;
constexpr int kRoundsOfLong = 2;                   // the second counts (TunedPoint::typical)
constexpr int kLongOneIn = 6;                      // of the rounds from then on
constexpr std::uint64_t kMostInCaches = 32 << 20;  // a mesh's third caches keep what was used a few times in a row
constexpr int kCallsIntoCaches = 4;
// Every way has a communicator of its own, and between two ranks messages go round in its slots' areas, which the third cache keeps only
// when much has gone through them in a row.
constexpr std::uint64_t kLeastThroughAreas = 4 << 10;
constexpr std::uint64_t kMostThroughAreas = 1 << 20;
constexpr std::uint64_t kBytesIntoAreas = 16 << 20;
// Of the time for a table and its judgement. The least of several ways that were measured once is that of the luckiest.
constexpr double kShareOfDoubts = 0.2;
constexpr int kFewestRoundsOfDoubts = 2;
constexpr int kMostRoundsOfDoubts = 10;
constexpr double kSameSpeed = 1.1;       // of a core that no neighbour slows, from round to round
constexpr double kPointSeconds = 0.001;  // of timed calls a point and round
constexpr double kWarmUpSeconds = 0.02;  // of calls before the first round
constexpr std::uint64_t kWarmUpBytes = 256 * 1024;

using Way = std::pair<std::string, schedule::Protocol>;

std::string name_of_way(const std::string& algorithm, schedule::Protocol protocol) {
  return fmt::format("{} {}", algorithm, schedule::name_of(protocol));
}

/// What all ranks do under a candidate: few ranks do the same by several algorithms.
Result<std::string> doing_of(const tuning::Environment& environment, const tuning::Candidate& candidate, const tuning::Call& call) {
  PEAL_ASSIGN(const tuning::Plan plan, tuning::make_plan(environment, *candidate.algorithm, candidate.protocol, call));
  std::string text = fmt::format("{} {}", schedule::name_of(candidate.protocol), plan.message_bytes);
  const auto add = [&](const auto& all) { text.append(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(all[0])); };
  for (std::int32_t r = 0; r < environment.ranks; ++r) {
    const schedule::Program program = schedule::program_for(plan.schedule, r);
    add(program.ops);
    add(program.strand_begin);
    add(program.sources);
  }
  return text;
}

/// All ways of a call, those that hosts take only by name too; of those that do the same, the first.
Status add_ways(const tuning::Environment& environment, const tuning::Call& call, std::vector<TunedPoint>& points) {
  std::set<std::string> known;
  for (const schedule::Algorithm* algorithm : schedule::algorithms_for(call.collective)) {
    tuning::Question question;
    question.call = call;
    question.algorithm = algorithm->name;
    question.is_to_measure = true;
    const auto selection = tuning::select(environment, question);
    if (!selection) continue;  // not for so many ranks, or not for this size
    for (const tuning::Candidate& c : selection->candidates) {
      PEAL_ASSIGN(std::string doing, doing_of(environment, c, call));
      if (!known.insert(std::move(doing)).second) continue;
      points.push_back({call.collective, call.bytes.value, std::string(algorithm->name), c.protocol});
    }
  }
  return {};
}

/// What ways are compared for: collective, bytes, in place or not.
using TunedCase = std::tuple<Collective, std::uint64_t, bool>;
TunedCase case_of(const TunedPoint& point) { return {point.collective, point.bytes, point.is_in_place}; }

/// One way of a case over where the cores were.
struct MeasuredMean {
  const TunedPoint* point = nullptr;
  double us = 0;
  double spread = 0;
  int repeats = 0;
};

/// Those that were measured at all.
std::vector<MeasuredMean> means_of(const std::vector<const TunedPoint*>& points, const std::vector<tuning::DistanceShare>& distances) {
  std::vector<tuning::DistanceTimes> times(points.size());
  std::vector<double> spreads(points.size());
  std::vector<int> repeats(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const tuning::DistanceShare& at : distances) {
      const auto typical = points[i]->typical(at.cores);
      if (!typical) continue;
      times[i][static_cast<std::size_t>(at.cores)] = typical->us;
      spreads[i] = std::max(spreads[i], typical->spread);
      repeats[i] += typical->repeats;
    }
  }
  const std::vector<double> us = tuning::mean_over_distances(times, distances);
  std::vector<MeasuredMean> means;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (us[i] > 0) means.push_back({points[i], us[i], spreads[i], repeats[i]});
  return means;
}

class Tuner {
 public:
  Tuner(comm::Core& world, const std::function<void(const std::string&)>& say) : world_(world), say_(say) {}

  /// Measures until the budget is spent; the first round is always done.
  Result<int> measure(std::vector<TunedPoint>& points, double budget_s, const std::string& what) {
    const std::int64_t begin = now_ns();
    PEAL_TRY(warm_up());
    double round_s = 0;
    for (int round = 1; round <= kMostRounds; ++round) {
      const std::int64_t round_begin = now_ns();
      PEAL_TRY(measure_these(points, order_of_round(points, round), round == 1, what));
      if (round <= kRoundsThatDrop) drop_hopeless(points, kHopelessAfter[round - 1].of_short, kHopelessAfter[round - 1].of_long);
      round_s = static_cast<double>(now_ns() - round_begin) * 1e-9;
      if (round <= kRoundsThatDrop) round_s /= 2;
      PEAL_ASSIGN(const double spent_s, longest_since(begin, round_s));
      say_(fmt::format("{}: round {} done after {:.1f} s of {:.0f}", what, round, spent_s, budget_s));
      if (spent_s + round_s > budget_s) return round;
    }
    return kMostRounds;
  }

  /// The judgements of `ways` by `points`. What is in doubt of them is measured again, until nothing is or the budget is spent.
  Result<std::vector<Judgement>> judge_surely(const std::vector<tuning::MeasuredWay>& ways, std::vector<TunedPoint>& points,
                                              double budget_s, const std::string& what) {
    const std::int64_t begin = now_ns();
    bool has_time = true;
    for (int round = 1;; ++round) {
      PEAL_ASSIGN(std::vector<Judgement> judgements, judge(*world_.plans().environment(), ways, points));
      const std::vector<std::size_t> order = order_of_doubts(points, judgements, round);
      if (order.empty() || !has_time || round > kMostRoundsOfDoubts) return judgements;
      const std::int64_t round_begin = now_ns();
      PEAL_TRY(measure_these(points, order, false, what));
      double round_s = static_cast<double>(now_ns() - round_begin) * 1e-9;
      PEAL_ASSIGN(const double spent_s, longest_since(begin, round_s));
      say_(fmt::format("{}: {} measurements in doubt again, {:.1f} s of {:.0f}", what, order.size(), spent_s, budget_s));
      has_time = round < kFewestRoundsOfDoubts || spent_s + round_s <= budget_s;
    }
  }

 private:
  static BenchPoint aligned_calls(comm::Core* core, Collective collective, std::uint64_t bytes, double budget_s, bool in_place = false) {
    BenchPoint point;
    point.core = core;
    point.options.collective = collective;
    point.options.first = point.options.last = {bytes};
    point.options.in_place = in_place;
    point.options.out_of_place = !in_place;
    point.options.only_aligned = true;
    point.options.budget_s = budget_s;
    return point;
  }

  /// Where the cores lie is learnt while calls are made, and all ways share it (executor::WaysFound): not at the cost of those that are
  /// measured first.
  Status warm_up() {
    return run_points(world_, {aligned_calls(&world_, Collective::all_gather, kWarmUpBytes, kWarmUpSeconds)},
                      [](std::size_t, const BenchRow&) {});
  }

  /// Seconds since `begin`, and `round_s`, by the rank that took longest: all must come to the same end.
  Result<double> longest_since(std::int64_t begin, double& round_s) {
    double spent[2] = {static_cast<double>(now_ns() - begin) * 1e-9, round_s};
    comm::Call call{Collective::all_reduce, spent, spent, 2, DataType::f64, ReduceOp::max};
    PEAL_TRY(world_.run(call));
    round_s = spent[1];
    return spent[0];
  }

  /// A sample more of the points at these places, in this order. The first of a long call is one call, that says which ways are hopeless.
  Status measure_these(std::vector<TunedPoint>& points, const std::vector<std::size_t>& order, bool is_first, const std::string& what) {
    std::vector<BenchPoint> asked;
    const bool goes_round = tuning::is_pair(*world_.plans().environment());
    for (const std::size_t i : order) {
      PEAL_ASSIGN(comm::Core* const core, core_of({points[i].algorithm, points[i].protocol}));
      BenchPoint point = aligned_calls(core, points[i].collective, points[i].bytes, kPointSeconds, points[i].is_in_place);
      point.options.only_full_speed = !world_.shares_cores();
      const bool is_glance = is_first && points[i].bytes > kTunedFinely;
      point.options.fewest = is_glance ? 1 : 2;
      if (!is_glance && points[i].bytes > kTunedFinely && points[i].bytes <= kMostInCaches) {
        point.options.warmup = kCallsIntoCaches;
        point.options.warms_while_faster = true;
      }
      if (goes_round && points[i].protocol == schedule::Protocol::staged && points[i].bytes >= kLeastThroughAreas &&
          points[i].bytes <= kMostThroughAreas)
        point.options.warmup = static_cast<int>(kBytesIntoAreas / points[i].bytes);
      asked.push_back(point);
    }
    Status read;
    PEAL_TRY(run_points(world_, asked, [&](std::size_t k, const BenchRow& row) {
      const auto sample = sample_of(row.half[points[order[k]].is_in_place ? 1 : 0]);
      if (!sample)
        read = pass_on(sample.error());
      else if (*sample)
        points[order[k]].samples.push_back(**sample);
      if (!is_first || now_ns() - said_ns_ < 3'000'000'000) return;
      said_ns_ = now_ns();
      say_(fmt::format("{}: first round, {} of {} measurements", what, k + 1, asked.size()));
    }));
    return read;
  }

  /// A communicator that takes no other way. Collective when the way is new.
  Result<comm::Core*> core_of(const Way& way) {
    std::shared_ptr<comm::Core>& core = cores_[way];
    if (core == nullptr) {
      PEAL_ASSIGN(core, world_.split(0, world_.rank(), {false, way.first, std::string(schedule::name_of(way.second))}));
    }
    return core.get();
  }

  comm::Core& world_;
  const std::function<void(const std::string&)>& say_;
  std::int64_t said_ns_ = now_ns();
  std::map<Way, std::shared_ptr<comm::Core>> cores_;
};

}  // namespace

Result<std::vector<TunedPoint>> points_of(const tuning::Environment& environment, const std::vector<Collective>& collectives,
                                          const std::vector<std::uint64_t>& sizes) {
  std::vector<TunedPoint> points;
  for (const Collective collective : collectives) {
    for (const std::uint64_t bytes : sizes) {
      tuning::Call call;
      call.collective = collective;
      call.bytes = {collective == Collective::barrier ? 0 : bytes};
      call.type = DataType::f32;
      const std::size_t first = points.size();
      PEAL_TRY(add_ways(environment, call, points));
      std::vector<TunedPoint> in_place(points.begin() + static_cast<std::ptrdiff_t>(first), points.end());
      const bool may_be_read =
          std::any_of(in_place.begin(), in_place.end(), [](const TunedPoint& p) { return p.protocol == schedule::Protocol::direct_read; });
      if (may_be_read && has_in_place(collective)) {
        for (TunedPoint& point : in_place) point.is_in_place = true;
        points.insert(points.end(), in_place.begin(), in_place.end());
      }
      if (collective == Collective::barrier) break;
    }
  }
  if (points.empty()) return fail(ErrorCode::unsupported, "there is nothing to choose between {} ranks here", environment.ranks);
  return points;
}

Result<std::optional<TunedSample>> sample_of(const BenchHalf& half) {
  PEAL_ASSIGN(const tuning::CoreDistance cores, tuning::core_distance(half.line_ns, half.line_after_ns));
  if (half.line_ns > 0 && cores == tuning::CoreDistance::unknown) return std::optional<TunedSample>{};
  return std::optional(TunedSample{std::max(1e-3, half.middle_us), std::min(half.line_ns, half.line_after_ns), cores, half.full_speed,
                                   half.all_us, half.work_ns});
}

std::optional<tuning::MeasuredPoint> TunedPoint::typical(tuning::CoreDistance cores) const {
  std::vector<TunedSample> there;
  const auto take = [&](bool has_settled) {
    for (std::size_t i = has_settled ? 1 : 0; i < samples.size(); ++i)
      if (samples[i].cores == cores && (!has_settled || samples[i - 1].cores == cores)) there.push_back(samples[i]);
  };
  take(true);
  if (there.empty()) take(false);
  std::vector<double> us, all_us, exchanges;
  double fastest = std::numeric_limits<double>::max();
  for (const TunedSample& sample : there) fastest = std::min(fastest, sample.work_ns);
  for (const TunedSample& sample : there) {
    all_us.push_back(sample.us);
    if (sample.work_ns > kSameSpeed * fastest) continue;
    us.push_back(sample.us);
    exchanges.push_back(sample.exchange_ns);
  }
  if (us.empty()) return std::nullopt;
  const auto repeats = static_cast<int>(us.size());
  const std::vector<double>& of_spread = repeats < kFewestRounds ? all_us : us;
  const double quartile = value_at(of_spread, 0.25);
  return tuning::MeasuredPoint{bytes, value_at(us, 0.25), (value_at(of_spread, 0.75) - quartile) / quartile, value_at(exchanges, 0.5),
                               repeats};
}

void drop_hopeless(std::vector<TunedPoint>& points, double hopeless, double hopeless_long) {
  using Times = std::map<tuning::CoreDistance, double>;
  std::map<TunedCase, Times> best;
  const auto keep_least = [](Times& times, tuning::CoreDistance cores, double us) {
    const auto [at, is_new] = times.emplace(cores, us);
    if (!is_new) at->second = std::min(at->second, us);
  };
  for (const TunedPoint& p : points)
    for (const TunedSample& sample : p.samples) keep_least(best[case_of(p)], sample.cores, sample.us);
  for (TunedPoint& p : points) {
    Times least;
    for (const TunedSample& sample : p.samples) keep_least(least, sample.cores, sample.us);
    // A way that was not yet met at one of the distances may be the best there.
    const Times& there = best[case_of(p)];
    const double most = p.bytes > kTunedFinely ? hopeless_long : hopeless;
    p.is_dropped = !there.empty() && std::all_of(there.begin(), there.end(), [&](const auto& at) {
      const auto own = least.find(at.first);
      return own != least.end() && own->second > most * at.second;
    });
  }
}

namespace {

/// Case by case; each round begins one with another way.
std::vector<std::size_t> in_turn(std::vector<std::size_t> order, const std::vector<TunedPoint>& points, int round) {
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return case_of(points[a]) < case_of(points[b]); });
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](std::size_t i) { return case_of(points[i]) != case_of(points[*begin]); });
    std::rotate(begin, begin + round % (end - begin), end);
    begin = end;
  }
  return order;
}

}  // namespace

std::vector<std::size_t> order_of_round(const std::vector<TunedPoint>& points, int round) {
  const bool is_for_long = round <= kRoundsOfLong || round % kLongOneIn == 0;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!points[i].is_dropped && (is_for_long || points[i].bytes <= kTunedFinely)) order.push_back(i);
  return in_turn(std::move(order), points, round);
}

std::vector<std::size_t> order_of_doubts(const std::vector<TunedPoint>& points, const std::vector<Judgement>& judgements, int round) {
  std::map<TunedCase, const Judgement*> doubts;
  for (const Judgement& j : judgements)
    if (j.is_in_doubt()) doubts[{j.collective, j.bytes, j.is_in_place}] = &j;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto doubt = doubts.find(case_of(points[i]));
    if (doubt == doubts.end()) continue;
    const std::string name = name_of_way(points[i].algorithm, points[i].protocol);
    if (!points[i].is_dropped || name == doubt->second->tuned || name == doubt->second->untuned) order.push_back(i);
  }
  return in_turn(std::move(order), points, round);
}

std::vector<tuning::MeasuredWay> ways_of(const std::vector<TunedPoint>& points, int ranks, const std::string& scope) {
  using tuning::CoreDistance;
  std::vector<tuning::MeasuredWay> ways;
  for (const TunedPoint& p : points) {
    for (const CoreDistance cores : {CoreDistance::unknown, CoreDistance::siblings, CoreDistance::near, CoreDistance::far}) {
      const auto typical = p.typical(cores);
      if (!typical) continue;
      auto way = std::find_if(ways.begin(), ways.end(), [&](const tuning::MeasuredWay& w) {
        return w.collective == p.collective && w.algorithm == p.algorithm && w.protocol == p.protocol && w.cores == cores &&
               w.is_in_place == p.is_in_place;
      });
      if (way == ways.end()) way = ways.insert(ways.end(), {p.collective, ranks, scope, p.algorithm, p.protocol, {}, cores, p.is_in_place});
      way->points.push_back(*typical);
    }
  }
  for (tuning::MeasuredWay& way : ways)
    std::sort(way.points.begin(), way.points.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return ways;
}

Result<std::vector<Judgement>> judge(const tuning::Environment& environment, const std::vector<tuning::MeasuredWay>& ways,
                                     const std::vector<TunedPoint>& points) {
  tuning::Environment tuned = environment;
  tuned.measured = ways;
  const std::vector<tuning::DistanceShare> distances = tuned.distances();
  std::vector<Judgement> judgements;
  std::map<TunedCase, std::vector<const TunedPoint*>> cases;
  for (const TunedPoint& p : points) cases[case_of(p)].push_back(&p);
  for (const auto& [which, all] : cases) {
    const std::vector<MeasuredMean> means = means_of(all, distances);
    const auto find = [&](const tuning::Candidate& c) -> const MeasuredMean* {
      for (const MeasuredMean& m : means)
        if (m.point->algorithm == c.algorithm->name && m.point->protocol == c.protocol) return &m;
      return nullptr;
    };
    tuning::Question question;
    const auto& [collective, bytes, is_in_place] = which;
    question.call.collective = collective;
    question.call.bytes = {bytes};
    question.call.type = DataType::f32;
    PEAL_ASSIGN(const tuning::Selection with, tuning::select(tuned, question));
    PEAL_ASSIGN(const tuning::Selection without, tuning::select(environment, question));
    const MeasuredMean* const a = find(with.chosen());
    const MeasuredMean* const b = find(without.chosen());
    if (a == nullptr || b == nullptr) continue;  // the cores were moved whenever it was measured
    const MeasuredMean& best =
        *std::min_element(means.begin(), means.end(), [](const MeasuredMean& x, const MeasuredMean& y) { return x.us < y.us; });
    judgements.push_back({collective, bytes, environment.ranks, name_of_way(best.point->algorithm, best.point->protocol),
                          name_of_way(a->point->algorithm, a->point->protocol), name_of_way(b->point->algorithm, b->point->protocol),
                          best.us, a->us, b->us, std::max(best.spread, a->spread), is_in_place,
                          std::min({best.repeats, a->repeats, b->repeats})});
  }
  return judgements;
}

Result<TuneResult> run_tune(comm::Core& world, const TuneOptions& options, const std::function<void(const std::string&)>& say) {
  const tuning::Environment& environment = *world.plans().environment();
  if (environment.nodes != 1) return fail(ErrorCode::unsupported, "peal tune measures one host; start it without a launcher of several");
  TuneResult result;
  Tuner tuner(world, say);
  PEAL_ASSIGN(std::vector<TunedPoint> points, points_of(environment, options.collectives, options.sizes));
  // A barrier has no size that could be kept out.
  std::vector<Collective> sized = options.collectives;
  std::erase(sized, Collective::barrier);
  const bool keeps_out = !options.kept_out.empty() && !sized.empty();
  if (keeps_out) {
    // In the same rounds: what is judged later would find the machine, and the order in which ranks take turns, another one.
    PEAL_ASSIGN(const std::vector<TunedPoint> kept_out, points_of(environment, sized, options.kept_out));
    points.insert(points.end(), kept_out.begin(), kept_out.end());
  }
  const std::string what = fmt::format("{} ranks", world.size());
  const double budget_s = (keeps_out ? 2 : 1) * options.budget_s, doubts_s = keeps_out ? kShareOfDoubts * budget_s : 0;
  PEAL_ASSIGN(result.rounds, tuner.measure(points, budget_s - doubts_s, what));
  const auto kept_out = std::stable_partition(points.begin(), points.end(), [&](const TunedPoint& p) {
    return p.collective == Collective::barrier ||
           std::find(options.kept_out.begin(), options.kept_out.end(), p.bytes) == options.kept_out.end();
  });
  result.ways = ways_of({points.begin(), kept_out}, world.size(), environment.level[0].scope);
  if (keeps_out) {
    std::vector<TunedPoint> judged(kept_out, points.end());
    PEAL_ASSIGN(result.judgements, tuner.judge_surely(result.ways, judged, doubts_s, what));
  }
  return result;
}

namespace {

/// How many of some judgements are good.
struct GoodCases {
  int cases = 0, tuned = 0, untuned = 0;
  void add(const Judgement& j) {
    ++cases;
    tuned += j.is_tuned_good() ? 1 : 0;
    untuned += j.is_untuned_good() ? 1 : 0;
  }
  /// Percent.
  double share(int good) const { return 100.0 * good / std::max(1, cases); }
};

}  // namespace

std::string tune_report(const std::vector<Judgement>& judgements) {
  std::string text;
  GoodCases all, often;
  for (const Judgement& j : judgements) {
    all.add(j);
    if (j.rounds >= kFewestRounds) often.add(j);
    if (j.is_tuned_good()) continue;
    if (text.empty())
      text = fmt::format(
          "\nkept out, and chosen more than 5 % (and the noise) slower than the best:\n{:>16} {:>6} {:>10} {:>26} {:>10} {:>26} {:>10} "
          "{:>6} {:>6} {:>6}\n",
          "collective", "ranks", "size", "chosen", "us", "best", "us", "ratio", "noise", "rounds");
    text += fmt::format("{:>16} {:>6} {:>10} {:>26} {:>10.4g} {:>26} {:>10.4g} {:>6.2f} {:>6.2f} {:>6}{}\n", name_of(j.collective), j.ranks,
                        to_text(Bytes{j.bytes}), j.tuned, j.tuned_us, j.best, j.best_us, j.tuned_us / j.best_us, j.noise, j.rounds,
                        j.is_in_place ? "  in place" : "");
  }
  text += fmt::format(
      "\nof {} cases that were kept out: the table's choice within 5 % of the best, or within the noise, in {} ({:.0f} %); "
      "the cost model's choice within 20 % in {} ({:.0f} %)\n",
      all.cases, all.tuned, all.share(all.tuned), all.untuned, all.share(all.untuned));
  if (often.cases < all.cases)
    text += fmt::format(
        "{} of them were measured in fewer than {} rounds, of the others {} ({:.0f} %) and {} ({:.0f} %): a larger --budget tells more\n",
        all.cases - often.cases, kFewestRounds, often.tuned, often.share(often.tuned), often.untuned, often.share(often.untuned));
  return text;
}

std::string judgements_json(const std::vector<Judgement>& judgements) {
  nlohmann::json all = nlohmann::json::array();
  for (const Judgement& j : judgements)
    all.push_back({{"collective", name_of(j.collective)},
                   {"in_place", j.is_in_place},
                   {"bytes", j.bytes},
                   {"ranks", j.ranks},
                   {"best", j.best},
                   {"tuned", j.tuned},
                   {"untuned", j.untuned},
                   {"best_us", j.best_us},
                   {"tuned_us", j.tuned_us},
                   {"untuned_us", j.untuned_us},
                   {"noise", j.noise},
                   {"rounds", j.rounds}});
  return all.dump();
}

Result<std::vector<Judgement>> judgements_from_json(const std::string& text) {
  std::vector<Judgement> judgements;
  try {
    for (const nlohmann::json& t : nlohmann::json::parse(text)) {
      Judgement j;
      PEAL_ASSIGN(j.collective, parse_collective(t.at("collective").get<std::string>()));
      j.is_in_place = t.at("in_place").get<bool>();
      j.bytes = t.at("bytes").get<std::uint64_t>();
      j.ranks = t.at("ranks").get<int>();
      j.best = t.at("best").get<std::string>();
      j.tuned = t.at("tuned").get<std::string>();
      j.untuned = t.at("untuned").get<std::string>();
      j.best_us = t.at("best_us").get<double>();
      j.tuned_us = t.at("tuned_us").get<double>();
      j.untuned_us = t.at("untuned_us").get<double>();
      j.noise = t.at("noise").get<double>();
      j.rounds = t.at("rounds").get<int>();
      judgements.push_back(std::move(j));
    }
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::corrupt, "the report of the ranks does not parse: {}", error.what());
  }
  return judgements;
}

}  // namespace peal::cli
