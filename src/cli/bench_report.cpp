// What a benchmark prints: the columns of nccl-tests, and Peal's own behind them.
#include <algorithm>
#include <base/names.hpp>
#include <cli/bench.hpp>
#include <nlohmann/json.hpp>

namespace peal::cli {

namespace {

std::string number(double value, int width) {
  const int decimals = value >= 1e5 ? 0 : value >= 1000 ? 1 : value >= 10 ? 2 : 3;
  return fmt::format("{:>{}.{}f}", value, width, decimals);
}

std::string half_text(const BenchHalf& half) {
  if (!half.is_measured) return fmt::format("{:>9}{:>8}{:>8}{:>7}{:>10}{:>10}", "-", "-", "-", "-", "-", "-");
  const std::string wrong = half.wrong < 0 ? "N/A" : std::to_string(half.wrong);
  return number(half.time_us, 9) + number(half.algbw, 8) + number(half.busbw, 8) + fmt::format("{:>7}", wrong) + number(half.p50_us, 10) +
         number(half.p99_us, 10);
}

nlohmann::ordered_json half_json(const BenchHalf& half) {
  if (!half.is_measured) return nullptr;
  nlohmann::ordered_json json = {
      {"time_us", half.time_us}, {"p50_us", half.p50_us}, {"p99_us", half.p99_us}, {"algbw", half.algbw}, {"busbw", half.busbw}};
  json["wrong"] = half.wrong < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(half.wrong);
  return json;
}

nlohmann::ordered_json line_json(const BenchHalf& half) {
  return half.is_measured ? nlohmann::ordered_json{half.line_ns, half.line_after_ns} : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json digest_json(const BenchDigest& digest) {
  nlohmann::ordered_json json = {{"sha256", digest.sha256}, {"repeats", digest.repeats}, {"differing", digest.differing}};
  json["head"] = nullptr;
  if (digest.head_count > 0) json["head"] = {{"count", digest.head_count}, {"sha256", digest.head_sha256}};
  return json;
}

nlohmann::ordered_json numerics_json(const ErrorFigures& numerics) {
  return {{"elements", numerics.elements},     {"not_finite", numerics.not_finite},     {"max_ulps", numerics.max_ulps},
          {"mean_ulps", numerics.mean_ulps()}, {"max_relative", numerics.max_relative}, {"max_backward", numerics.max_backward}};
}

// What the columns of nccl-tests have no place for stands below the row.
std::string below(const BenchRow& row) {
  std::string text;
  if (row.digest.repeats > 0)
    text += fmt::format("#   digest: sha256 {}  {} calls, {} differ\n", row.digest.sha256, row.digest.repeats, row.digest.differing);
  if (row.numerics.elements > 0) {
    const ErrorFigures& n = row.numerics;
    text += fmt::format("#   error: max {:.4g} ulps, mean {:.4g} ulps; max {:.3g} of the result, max {:.3g} of the inputs; {} results",
                        n.max_ulps, n.mean_ulps(), n.max_relative, n.max_backward, n.elements);
    text += n.not_finite > 0 ? fmt::format(", {} of them not finite\n", n.not_finite) : "\n";
  }
  return text;
}

std::string op_text(const BenchOptions& options) { return has_reduction(options.collective) ? std::string(name_of(options.op)) : "none"; }

int root_of(const BenchOptions& options) { return has_root(options.collective) ? options.root : -1; }

// The better known of the two halves: what a user will call.
const BenchHalf& first_half(const BenchRow& row) { return row.half[row.half[0].is_measured ? 0 : 1]; }

}  // namespace

std::string bench_heading(const BenchOptions& options, const std::vector<std::string>& rank_lines, int ranks,
                          const std::string& transport) {
  std::string text = fmt::format("# peal bench {} over {} rank{}, {}; minBytes {} maxBytes {} step: {}(factor) validation: {}\n",
                                 name_of(options.collective), ranks, ranks == 1 ? "" : "s", transport, options.first.value,
                                 options.last.value, options.factor, options.check ? 1 : 0);
  for (const std::string& line : rank_lines) text += "#  " + line + "\n";
  if (options.rewrites) text += "#  p50 and p99: of calls before each of which the inputs were written anew\n";
  text += fmt::format("#\n# {:>12}{:>14}{:>8}{:>11}{:>6} |{:^52} |{:^52} |\n", "", "", "", "", "", "out-of-place", "in-place");
  const std::string half = fmt::format("{:>9}{:>8}{:>8}{:>7}{:>10}{:>10}", "time", "algbw", "busbw", "#wrong", "p50", "p99");
  text += fmt::format("# {:>12}{:>14}{:>8}{:>11}{:>6} |{} |{} | {:>10} {:>6}  {}\n", "size", "count", "type", "redop", "root", half, half,
                      "predicted", "bound", "algorithm/protocol");
  const std::string units = fmt::format("{:>9}{:>8}{:>8}{:>7}{:>10}{:>10}", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)");
  return text + fmt::format("# {:>12}{:>14}{:>8}{:>11}{:>6} |{} |{} | {:>10} {:>6}\n", "(B)", "(elements)", "", "", "", units, units,
                            "(us)", "(%)");
}

std::string bench_line(const BenchOptions& options, const BenchRow& row) {
  const double p50 = first_half(row).p50_us;
  const std::string predicted = row.predicted_us > 0 ? number(row.predicted_us, 10) : fmt::format("{:>10}", "-");
  const std::string bound =
      row.predicted_us > 0 && p50 > 0 ? fmt::format("{:>6.0f}", 100 * row.predicted_us / p50) : fmt::format("{:>6}", "-");
  return fmt::format("  {:>12}{:>14}{:>8}{:>11}{:>6} |{} |{} | {} {}  {}/{}\n", row.bytes, row.count, name_of(options.type),
                     op_text(options), root_of(options), half_text(row.half[0]), half_text(row.half[1]), predicted, bound, row.algorithm,
                     row.protocol) +
         below(row);
}

std::string bench_ending(const std::vector<BenchRow>& rows) {
  std::int64_t wrong = 0;
  bool is_checked = false;
  double bandwidth = 0;
  int halves = 0;
  int differing = -1;
  bool has_numerics = false;
  for (const BenchRow& row : rows) {
    if (row.digest.repeats > 0) differing = std::max(differing, 0) + row.digest.differing;
    has_numerics = has_numerics || row.numerics.elements > 0;
    for (const BenchHalf& half : row.half) {
      if (!half.is_measured) continue;
      bandwidth += half.busbw;
      ++halves;
      is_checked = is_checked || half.wrong >= 0;
      wrong += std::max<std::int64_t>(half.wrong, 0);
    }
  }
  std::string legend;
  if (differing >= 0)
    legend += fmt::format(
        "# digest: of all ranks' results, of inputs whose sums depend on the order. Calls that differ from the first of their row: {}\n",
        differing);
  if (has_numerics)
    legend +=
        "# error: of sums of mixed sign and magnitude, against compensated f64; ulps: distances of the type's numbers around the right\n"
        "# result; of the inputs: relative to the sum of their magnitudes, which cancellation does not inflate\n";
  const std::string verdict = is_checked ? fmt::format("{} {}", wrong, wrong == 0 ? "OK" : "FAILED") : "not checked (give --check)";
  return fmt::format(
             "# bound: predicted time / measured p50 (out of place); p50, p99: calls with aligned starts, maximum over ranks\n"
             "# Out of bounds values : {}\n# Avg bus bandwidth    : {:.4f}\n",
             verdict, halves > 0 ? bandwidth / halves : 0.0) +
         legend;
}

std::string bench_json(const BenchOptions& options, const std::vector<BenchRow>& rows, int ranks, const std::string& transport) {
  nlohmann::ordered_json json = {
      {"schema", "peal.bench/1"}, {"collective", name_of(options.collective)}, {"ranks", ranks}, {"transport", transport}};
  if (options.zero_copy) json["zero_copy"] = true;
  if (options.rewrites) json["rewrite"] = true;
  if (options.f32_partial_sums) json["partial_sums"] = "f32";
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    nlohmann::ordered_json line = {{"bytes", row.bytes},
                                   {"count", row.count},
                                   {"dtype", name_of(options.type)},
                                   {"op", op_text(options)},
                                   {"root", root_of(options)},
                                   {"algorithm", row.algorithm},
                                   {"protocol", row.protocol},
                                   {"predicted_us", row.predicted_us},
                                   {"line_ns", {{"out_of_place", line_json(row.half[0])}, {"in_place", line_json(row.half[1])}}}};
    line["out_of_place"] = half_json(row.half[0]);
    line["in_place"] = half_json(row.half[1]);
    if (row.digest.repeats > 0) line["digest"] = digest_json(row.digest);
    if (row.numerics.elements > 0) line["numerics"] = numerics_json(row.numerics);
    json["rows"].push_back(std::move(line));
  }
  return json.dump(2) + "\n";
}

}  // namespace peal::cli
