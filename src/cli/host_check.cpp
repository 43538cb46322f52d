#include <algorithm>
#include <base/clock.hpp>
#include <base/names.hpp>
#include <base/percentile.hpp>
#include <cli/bench.hpp>
#include <cli/host_check.hpp>
#include <nlohmann/json.hpp>
#include <tuning/fit_constants.hpp>

namespace peal::cli {

namespace {

constexpr std::uint64_t kFirstChecked = 48;  // tables go 32, 64, 128, ...: these lie between
constexpr double kCheckedSeconds = 0.004;    // of timed calls a cell and round
constexpr int kFewestRoundsOfCell = 4;       // of a cell
// One after the other: where the lines of a communicator lie on a mesh of cores, small calls of a few ranks are faster or slower by a
// quarter for all of its life, and a prediction is of any.
constexpr std::size_t kCommunicators = 3;
constexpr int kMostCheckRounds = 100;

BenchPoint bench_point_of(const TunedPoint& point, comm::Core& core) {
  BenchPoint asked;
  asked.core = &core;
  asked.options.collective = point.collective;
  asked.options.first = asked.options.last = {point.bytes};
  asked.options.in_place = false;
  asked.options.only_aligned = true;
  asked.options.only_full_speed = true;
  asked.options.budget_s = kCheckedSeconds;
  asked.options.fewest = 3;
  return asked;
}

/// The cells of a point, measured over each communicator: one for each distance that has enough rounds.
Result<std::vector<HostCell>> cells_of(comm::Core& core, const std::vector<TunedPoint>& measured) {
  using tuning::CoreDistance;
  const TunedPoint& point = measured[0];
  std::vector<HostCell> cells;
  for (const CoreDistance cores : {CoreDistance::siblings, CoreDistance::near, CoreDistance::far}) {
    HostCell cell{"", point.collective, point.bytes, point.algorithm, std::string(schedule::name_of(point.protocol)), cores};
    std::vector<double> us, exchanges, of_all;
    double full_speed = 0;
    for (const TunedPoint& part : measured) {
      for (const TunedSample& sample : part.samples) {
        if (sample.cores != cores) continue;
        of_all.push_back(sample.all_us);
        full_speed += sample.full_speed;
      }
      const auto typical = part.typical(cores);
      if (!typical) continue;
      us.push_back(typical->us);
      exchanges.push_back(typical->exchange_ns);
    }
    cell.rounds = static_cast<int>(of_all.size());
    if (cell.rounds < kFewestRoundsOfCell) continue;
    cell.full_speed = full_speed / cell.rounds;
    cell.all_us = value_at(std::move(of_all), 0.5);
    cell.least_us = *std::min_element(us.begin(), us.end());
    cell.most_us = *std::max_element(us.begin(), us.end());
    cell.us = value_at(std::move(us), 0.5);
    cell.exchange_ns = value_at(std::move(exchanges), 0.5);
    tuning::Environment environment = *core.plans().environment();
    environment.stay_at(cores);
    if (environment.constants_of(point.protocol) != nullptr) {
      const int root = has_root(point.collective) ? 0 : -1;
      PEAL_ASSIGN(const tuning::PredictedTime predicted,
                  core.plans().predicted_time(point.collective, {point.bytes}, DataType::f32, root, cores));
      const double ratio = tuning::exchange_ratio(environment, point.protocol, cores, cell.exchange_ns);
      cell.predicted_us = ratio * predicted.us;
      cell.model_us = ratio * predicted.model_us;
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace

double HostCell::noise() const { return least_us > 0 ? most_us / least_us - 1 : 0; }

std::vector<TunedPoint> points_to_check(const HostCheckOptions& options) {
  std::vector<TunedPoint> points;
  for (const Collective collective : options.collectives) {
    if (collective == Collective::barrier) {
      points.push_back({collective, 0, {}, {}, {}, false});
      continue;
    }
    for (std::uint64_t bytes = kFirstChecked; bytes <= options.largest; bytes *= 4)
      points.push_back({collective, bytes, {}, {}, {}, false});
  }
  return points;
}

Result<std::vector<HostCell>> run_host_check(comm::Core& world, const HostCheckOptions& options,
                                             const std::function<void(const std::string&)>& say) {
  // As `peal tune` does: what is measured has a communicator of its own, whose calls follow one another.
  std::vector<std::shared_ptr<comm::Core>> communicators(kCommunicators);
  for (std::shared_ptr<comm::Core>& core : communicators) {
    PEAL_ASSIGN(core, world.split(0, world.rank(), {}));
  }
  const std::vector<TunedPoint> asked = points_to_check(options);
  std::vector<std::vector<TunedPoint>> points(asked.size());  // over each communicator
  for (std::size_t k = 0; k < asked.size(); ++k) points[k].assign(kCommunicators, asked[k]);
  const std::int64_t begin = now_ns();
  for (int round = 1; round <= kMostCheckRounds; ++round) {
    const std::int64_t round_begin = now_ns();
    const std::size_t which = static_cast<std::size_t>(round - 1) % kCommunicators;
    std::vector<BenchPoint> calls;
    for (const TunedPoint& point : asked) calls.push_back(bench_point_of(point, *communicators[which]));
    Status read;
    PEAL_TRY(run_points(world, calls, [&](std::size_t k, const BenchRow& row) {
      const auto protocol = schedule::parse_protocol(row.protocol);
      const auto sample = sample_of(row.half[0]);
      if (!protocol || !sample) {
        read = pass_on(protocol ? sample.error() : protocol.error());
        return;
      }
      for (TunedPoint& point : points[k]) {
        point.algorithm = row.algorithm;
        point.protocol = *protocol;
      }
      if (*sample) points[k][which].samples.push_back(**sample);
    }));
    PEAL_TRY(read);
    // All ranks must come to the same end.
    double spent[2] = {static_cast<double>(now_ns() - begin) * 1e-9, static_cast<double>(now_ns() - round_begin) * 1e-9};
    comm::Call call{Collective::all_reduce, spent, spent, 2, DataType::f64, ReduceOp::max};
    PEAL_TRY(world.run(call));
    say(fmt::format("round {} of {} cells done after {:.1f} s of {:.0f}", round, points.size(), spent[0], options.budget_s));
    if (spent[0] + spent[1] > options.budget_s) break;
  }
  std::vector<HostCell> cells;
  for (const std::vector<TunedPoint>& point : points) {
    PEAL_ASSIGN(std::vector<HostCell> of_point, cells_of(*communicators[0], point));
    cells.insert(cells.end(), of_point.begin(), of_point.end());
  }
  return cells;
}

HostErrors errors_of(const std::vector<HostCell>& cells) {
  HostErrors found;
  std::vector<double> errors, of_model, noise, of_all;
  for (const HostCell& cell : cells) {
    if (cell.predicted_us <= 0) {
      ++found.unpredicted;
      continue;
    }
    errors.push_back(std::abs(cell.error()));
    of_model.push_back(std::abs(cell.model_us / cell.us - 1));
    noise.push_back(cell.noise());
    of_all.push_back(std::abs(cell.predicted_us / cell.all_us - 1));
    found.full_speed += cell.full_speed;
  }
  found.cells = static_cast<int>(errors.size());
  if (errors.empty()) return found;
  found.median = value_at(errors, 0.5);
  found.worst = *std::max_element(errors.begin(), errors.end());
  found.model_worst = *std::max_element(of_model.begin(), of_model.end());
  found.model_median = value_at(std::move(of_model), 0.5);
  found.median_noise = value_at(noise, 0.5);
  found.median_of_all = value_at(of_all, 0.5);
  found.full_speed /= found.cells;
  found.worst_noise = *std::max_element(noise.begin(), noise.end());
  return found;
}

std::string host_check_text(const std::vector<HostCell>& cells, double median, double worst) {
  std::string text = fmt::format("{:>9} {:>17} {:>8} {:>8} {:>5} {:>29} {:>11} {:>10} {:>7} {:>6} {:>6}\n", "transport", "collective",
                                 "size", "cores", "ns", "by", "measured us", "predicted", "error", "noise", "rounds");
  std::vector<std::string> transports;
  for (const HostCell& cell : cells) {
    if (std::find(transports.begin(), transports.end(), cell.transport) == transports.end()) transports.push_back(cell.transport);
    const bool is_predicted = cell.predicted_us > 0;
    text += fmt::format("{:>9} {:>17} {:>8} {:>8} {:>5.0f} {:>29} {:>11.4g} {:>10} {:>7} {:>6} {:>6}{}\n", cell.transport,
                        name_of(cell.collective), to_text(Bytes{cell.bytes}), name_of(cell.cores), cell.exchange_ns,
                        cell.algorithm + " " + cell.protocol, cell.us, is_predicted ? fmt::format("{:.4g}", cell.predicted_us) : "-",
                        is_predicted ? fmt::format("{:+.0f} %", 100 * cell.error()) : "-", fmt::format("{:.0f} %", 100 * cell.noise()),
                        cell.rounds, is_predicted && std::abs(cell.error()) > worst ? "  beyond the bound" : "");
  }
  const auto line = [&](const std::string& of, const HostErrors& e) {
    if (e.cells > 0)
      text += fmt::format(
          "{}: {} cells, error {:.1f} % in the median, {:.0f} % at worst ({:.1f} and {:.0f} by the constants alone); the same "
          "call over three communicators differs by {:.1f} % in the median, {:.0f} % at worst\n",
          of, e.cells, 100 * e.median, 100 * e.worst, 100 * e.model_median, 100 * e.model_worst, 100 * e.median_noise, 100 * e.worst_noise);
    if (e.cells > 0 && e.full_speed < 1)
      text += fmt::format(
          "  {:.0f} % of the calls are left out: a neighbour of this virtual machine slowed a core; against all calls the median "
          "error is {:.1f} %\n",
          100 * (1 - e.full_speed), 100 * e.median_of_all);
    if (e.unpredicted > 0)
      text += fmt::format(
          "{}{} cells have no prediction: the table has no constants for {} with cores that lie so; type `peal tune --transport {}` while "
          "they do\n",
          e.cells > 0 ? "  " : of + ": ", e.unpredicted, of, of);
  };
  text += '\n';
  for (const std::string& transport : transports) {
    std::vector<HostCell> part;
    std::copy_if(cells.begin(), cells.end(), std::back_inserter(part), [&](const HostCell& c) { return c.transport == transport; });
    line(transport, errors_of(part));
  }
  const HostErrors all = errors_of(cells);
  if (transports.size() != 1 && all.cells > 0) {
    HostErrors of_predicted = all;
    of_predicted.unpredicted = 0;  // said already
    line("all", of_predicted);
  }
  return text + fmt::format("bounds: {:.0f} % in the median ({}), {:.0f} % at worst ({})\n", 100 * median,
                            all.cells > 0 && all.median <= median ? "kept" : "not kept", 100 * worst,
                            all.cells > 0 && all.worst <= worst ? "kept" : "not kept");
}

std::string host_check_json(const std::vector<HostCell>& cells) {
  nlohmann::json all = nlohmann::json::array();
  for (const HostCell& c : cells)
    all.push_back({{"transport", c.transport},
                   {"collective", name_of(c.collective)},
                   {"bytes", c.bytes},
                   {"algorithm", c.algorithm},
                   {"protocol", c.protocol},
                   {"cores", name_of(c.cores)},
                   {"rounds", c.rounds},
                   {"exchange_ns", c.exchange_ns},
                   {"us", c.us},
                   {"least_us", c.least_us},
                   {"most_us", c.most_us},
                   {"predicted_us", c.predicted_us},
                   {"model_us", c.model_us},
                   {"full_speed", c.full_speed},
                   {"all_us", c.all_us}});
  return all.dump();
}

Result<std::vector<HostCell>> host_cells_from_json(const std::string& text) {
  std::vector<HostCell> cells;
  try {
    for (const nlohmann::json& t : nlohmann::json::parse(text)) {
      HostCell c;
      c.transport = t.at("transport").get<std::string>();
      PEAL_ASSIGN(c.collective, parse_collective(t.at("collective").get<std::string>()));
      c.bytes = t.at("bytes").get<std::uint64_t>();
      c.algorithm = t.at("algorithm").get<std::string>();
      c.protocol = t.at("protocol").get<std::string>();
      PEAL_ASSIGN(c.cores, tuning::parse_core_distance(t.at("cores").get<std::string>()));
      c.rounds = t.at("rounds").get<int>();
      c.exchange_ns = t.at("exchange_ns").get<double>();
      c.us = t.at("us").get<double>();
      c.least_us = t.at("least_us").get<double>();
      c.most_us = t.at("most_us").get<double>();
      c.predicted_us = t.at("predicted_us").get<double>();
      c.model_us = t.at("model_us").get<double>();
      c.full_speed = t.at("full_speed").get<double>();
      c.all_us = t.at("all_us").get<double>();
      cells.push_back(std::move(c));
    }
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::corrupt, "the report of the ranks does not parse: {}", error.what());
  }
  return cells;
}

}  // namespace peal::cli
