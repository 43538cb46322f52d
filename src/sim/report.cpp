#include <algorithm>
#include <base/names.hpp>
#include <base/units.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sim/report.hpp>

namespace peal::sim {

namespace {

std::string timing_text(const std::optional<Timing>& t) {
  if (!t) return fmt::format("{:>9} {:>7} {:>7}", "-", "-", "-");
  const int digits = t->time_us < 100 ? 2 : t->time_us < 10000 ? 1 : 0;
  return fmt::format("{:>9.{}f} {:>7.2f} {:>7.2f}", t->time_us, digits, t->algbw, t->busbw);
}

/// Bus bandwidth that goes with a time; `t` has the mean of both.
double busbw_at(const Timing& t, double us) { return us > 0 ? t.busbw * t.time_us / us : 0; }

/// How fast the call is over the choices of a hash.
std::string hashes_text(std::string_view words, std::uint64_t first_seed, const std::vector<double>& us, const Timing& t) {
  const Spread& s = *t.spread;
  const auto slowest = static_cast<std::uint64_t>(std::max_element(us.begin(), us.end()) - us.begin());
  const double percentiles[] = {s.least, s.p10, t.p50_us, s.p90, s.most};
  std::string text = fmt::format("#   {}, seeds {} to {} of the hash", words, first_seed, first_seed + us.size() - 1);
  const std::size_t width = std::max<std::size_t>(text.size(), 40);
  text += fmt::format("{:{}} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "", width - text.size(), "least", "p10", "half below", "p90", "most");
  text += fmt::format("{:<{}}", "#     time (us)", width);
  for (const double time : percentiles) text += fmt::format(" {:>10.2f}", time);
  text += fmt::format("  with seed={}\n{:<{}}", first_seed + slowest, "#     bus bandwidth then (GB/s)", width);
  for (const double time : percentiles) text += fmt::format(" {:>10.2f}", busbw_at(t, time));
  return text + fmt::format("  of {} seeds\n", s.runs);
}

nlohmann::json to_tree(const std::optional<Timing>& t) {
  if (!t) return nullptr;
  nlohmann::json tree = {{"time_us", t->time_us}, {"p50_us", t->p50_us}, {"algbw", t->algbw}, {"busbw", t->busbw}};
  if (t->spread) {
    tree["runs"] = t->spread->runs;
    tree["min_us"] = t->spread->least;
    tree["p10_us"] = t->spread->p10;
    tree["p90_us"] = t->spread->p90;
    tree["p99_us"] = t->spread->p99;
    tree["max_us"] = t->spread->most;
    for (const char* key : {"min", "p10", "p50", "p90", "max"})
      tree[fmt::format("busbw_at_{}_us", key)] = busbw_at(*t, tree[fmt::format("{}_us", key)]);
  }
  return tree;
}

nlohmann::json to_tree(const std::vector<GroupTime>& groups) {
  nlohmann::json tree = nlohmann::json::array();
  for (const GroupTime& group : groups)
    tree.push_back({{"time_us", group.time_us}, {"algorithm", group.algorithm}, {"protocol", group.protocol}});
  return tree;
}

nlohmann::json to_tree(const std::vector<BesideTime>& beside) {
  nlohmann::json tree = nlohmann::json::array();
  for (const BesideTime& other : beside)
    tree.push_back({{"collective", name_of(other.collective)},
                    {"bytes", other.bytes},
                    {"ranks", other.ranks},
                    {"groups", other.groups},
                    {"time_us", other.slowest.time_us},
                    {"algorithm", other.slowest.algorithm},
                    {"protocol", other.slowest.protocol}});
  return tree;
}

/// "0-3, 6"
std::string ranges_text(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

bool are_alike(const GroupTime& a, const GroupTime& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol && std::abs(a.time_us - b.time_us) <= 1e-3 * std::max(a.time_us, b.time_us);
}

constexpr std::size_t kMostKinds = 8;  // of groups, in words

std::string folded_text(std::span<const Row> rows) {
  int least = 0;
  int most = 0;
  int ranks = 0;
  int pieces = 0;
  double spread = 0;
  for (const Row& row : rows) {
    const Folded& folded = row.folded;
    ranks = std::max(ranks, folded.ranks);
    least = least == 0 ? folded.simulated_ranks : std::min(least, folded.simulated_ranks);
    most = std::max(most, folded.simulated_ranks);
    pieces = std::max(pieces, folded.repeated_pieces);
    spread = std::max(spread, folded.chunk_spread);
  }
  std::string text;
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.is_in_place_same; }))
    text += "# In place          : the same ops as out of place where both times are equal, simulated once\n";
  if (least < ranks)
    text += fmt::format("# Folded            : {}{} of {} ranks simulated, the others behave like one of them\n",
                        least < most ? fmt::format("{} to ", least) : "", most, ranks);
  if (pieces > 0) text += fmt::format("# Repeated pieces   : up to {} counted, not simulated\n", pieces);
  if (spread > 0)
    text += fmt::format("# Parts of a buffer : taken as equally long; the longest is {:.2g} % longer than the mean\n", 100 * spread);
  return text;
}

}  // namespace

std::string header_text(const Table& table) {
  const std::string groups = table.groups > 1 ? fmt::format(" in each of {} groups at the same time", table.groups) : "";
  std::string text = fmt::format("# {} on {} ranks{}, {} node{}: {} ({}), simulated\n", name_of(table.collective), table.ranks, groups,
                                 table.nodes, table.nodes == 1 ? "" : "s", table.machine, table.wires);
  text += fmt::format("#{:>12} {:>12} {:>7} {:>6} {:>5}  {:^25}  {:^25}  {:>9}  {:<14} {}\n", "", "", "", "", "", "out-of-place",
                      "in-place", "", "", "");
  text += fmt::format("#{:>12} {:>12} {:>7} {:>6} {:>5}  {:>9} {:>7} {:>7}  {:>9} {:>7} {:>7}  {:>9}  {:<14} {}\n", "size", "count", "type",
                      "redop", "root", "time", "algbw", "busbw", "time", "algbw", "busbw", "predicted", "algorithm", "protocol");
  text += fmt::format("#{:>12} {:>12} {:>7} {:>6} {:>5}  {:>9} {:>7} {:>7}  {:>9} {:>7} {:>7}  {:>9}\n", "(B)", "(elements)", "", "", "",
                      "(us)", "(GB/s)", "(GB/s)", "(us)", "(GB/s)", "(GB/s)", "(us)");
  return text;
}

std::string row_text(const Row& row) {
  return fmt::format(" {:>12} {:>12} {:>7} {:>6} {:>5}  {}  {}  {:>9.2f}  {:<14} {}\n", row.bytes, row.count, name_of(row.type), row.op,
                     row.root, timing_text(row.out_of_place), timing_text(row.in_place), row.predicted_us, row.algorithm, row.protocol);
}

std::string notes_text(const Row& row) {
  std::string text;
  if (!row.instead_of.empty()) text += fmt::format("#   in place of what would be chosen, {}\n", row.instead_of);
  if (row.kept_rates_from)
    text += fmt::format(
        "#   approximate from {:.2f} us on: so many messages are in each other's way that their rates are worked out about once "
        "in the time of a message; --rates exact works them out at every change\n",
        row.kept_rates_from->microseconds());
  std::vector<std::pair<GroupTime, std::vector<std::size_t>>> kinds;
  for (std::size_t g = 0; g < row.groups.size(); ++g) {
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return are_alike(kind.first, row.groups[g]); });
    if (same == kinds.end())
      kinds.push_back({row.groups[g], {g}});
    else
      same->second.push_back(g);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.first.time_us > b.first.time_us; });
  for (std::size_t k = 0; kinds.size() > 1 && k < std::min(kinds.size(), kMostKinds); ++k) {
    const auto& [time, numbers] = kinds[k];
    text += fmt::format("#   group{} {}: {:.2f} us, {} {}\n", numbers.size() == 1 ? "" : "s", ranges_text(numbers), time.time_us,
                        time.algorithm, time.protocol);
  }
  if (kinds.size() > kMostKinds) text += fmt::format("#   and {} kinds of groups that are faster\n", kinds.size() - kMostKinds);
  for (const BesideTime& other : row.beside)
    text += fmt::format("#   beside it {} of {} on {} ranks{}: {:.2f} us, {} {}\n", name_of(other.collective), to_text(Bytes{other.bytes}),
                        other.ranks, other.groups > 1 ? fmt::format(" in each of {} groups", other.groups) : "", other.slowest.time_us,
                        other.slowest.algorithm, other.slowest.protocol);
  for (const auto& [words, timing] : {std::pair{"out of place", &row.out_of_place}, std::pair{"in place", &row.in_place}}) {
    if (!*timing || !(*timing)->spread || (timing == &row.in_place && row.is_in_place_same)) continue;
    const Spread& s = *(*timing)->spread;
    if (row.hashes) {
      const bool is_outside = timing == &row.out_of_place;
      text += hashes_text(words, row.hashes->first_seed, is_outside ? row.hashes->out_of_place : row.hashes->in_place, **timing);
      continue;
    }
    text += fmt::format("#   {}, {} runs: least {:.2f}, half below {:.2f}, p90 {:.2f}, p99 {:.2f}, most {:.2f} us\n", words, s.runs,
                        s.least, (*timing)->p50_us, s.p90, s.p99, s.most);
  }
  return text;
}

namespace {

/// One line for neighbouring rows that are worth the same.
std::string evidence_text(std::span<const Row> rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end].evidence == rows[i].evidence) ++end;
    const std::string sizes =
        end - i == 1 ? fmt::format("{} B", rows[i].bytes) : fmt::format("{} to {} B", rows[i].bytes, rows[end - 1].bytes);
    if (!rows[i].evidence.empty()) text += fmt::format("# Worth of the figures, {}: {}\n", sizes, rows[i].evidence);
    i = end;
  }
  return text;
}

}  // namespace

std::string footer_text(std::span<const Row> rows) {
  double sum = 0;
  int count = 0;
  for (const Row& row : rows) {
    for (const auto* t : {&row.out_of_place, &row.in_place}) {
      if (!*t) continue;
      sum += (*t)->busbw;
      ++count;
    }
  }
  return fmt::format("# Avg bus bandwidth : {:.4g} GB/s\n", count > 0 ? sum / count : 0.0) + folded_text(rows) + evidence_text(rows);
}

std::string to_json(const Table& table, std::span<const Row> rows, std::span<const Detail> details) {
  nlohmann::json tree = {{"schema", "peal.sim/1"},         {"collective", name_of(table.collective)},
                         {"ranks", table.ranks},           {"nodes", table.nodes},
                         {"machine", table.machine},       {"transport", table.wires},
                         {"rows", nlohmann::json::array()}};
  if (table.groups > 1) tree["groups"] = table.groups;
  for (const Row& r : rows) {
    tree["rows"].push_back({{"bytes", r.bytes},
                            {"count", r.count},
                            {"dtype", name_of(r.type)},
                            {"op", r.op},
                            {"root", r.root},
                            {"algorithm", r.algorithm},
                            {"protocol", r.protocol},
                            {"predicted_us", r.predicted_us},
                            {"out_of_place", to_tree(r.out_of_place)},
                            {"in_place", to_tree(r.in_place)},
                            {"in_place_is_same", r.is_in_place_same},
                            {"bottleneck", r.bottleneck},
                            {"evidence", r.evidence},
                            {"utilisation", r.utilisation},
                            {"simulated_ranks", r.folded.simulated_ranks},
                            {"repeated_pieces", r.folded.repeated_pieces},
                            {"chunk_spread", r.folded.chunk_spread}});
    if (!r.groups.empty()) tree["rows"].back()["groups"] = to_tree(r.groups);
    if (r.hashes)
      tree["rows"].back()["hash_seeds"] = {
          {"first", r.hashes->first_seed}, {"out_of_place_us", r.hashes->out_of_place}, {"in_place_us", r.hashes->in_place}};
    if (r.kept_rates_from) tree["rows"].back()["approximate_from_us"] = r.kept_rates_from->microseconds();
    if (!r.instead_of.empty()) tree["rows"].back()["instead_of"] = r.instead_of;
    if (!r.beside.empty()) tree["rows"].back()["beside"] = to_tree(r.beside);
  }
  for (const Detail& detail : details) tree[detail.key] = nlohmann::json::parse(detail.json);
  return tree.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace peal::sim
