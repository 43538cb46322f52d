#include <base/names.hpp>
#include <nlohmann/json.hpp>
#include <sim/report.hpp>

namespace peal::sim {

using nlohmann::json;

namespace {

std::string timing_text(const std::optional<Timing>& t) {
  if (!t) return fmt::format("{:>9} {:>7} {:>7}", "-", "-", "-");
  const int digits = t->time_us < 100 ? 2 : t->time_us < 10000 ? 1 : 0;
  return fmt::format("{:>9.{}f} {:>7.2f} {:>7.2f}", t->time_us, digits, t->algbw, t->busbw);
}

json to_tree(const std::optional<Timing>& t) {
  if (!t) return nullptr;
  return {{"time_us", t->time_us}, {"p50_us", t->p50_us}, {"algbw", t->algbw}, {"busbw", t->busbw}};
}

}  // namespace

std::string header_text(const Table& table) {
  std::string text = fmt::format("# {} on {} ranks, {} node{}: {} ({}), simulated\n", name_of(table.collective), table.ranks, table.nodes,
                                 table.nodes == 1 ? "" : "s", table.machine, table.wires);
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
  return fmt::format("# Avg bus bandwidth : {:.4g} GB/s\n", count > 0 ? sum / count : 0.0);
}

std::string to_json(const Table& table, std::span<const Row> rows) {
  json tree = {{"schema", "peal.sim/1"},   {"collective", name_of(table.collective)},
               {"ranks", table.ranks},     {"nodes", table.nodes},
               {"machine", table.machine}, {"transport", table.wires},
               {"rows", json::array()}};
  for (const Row& r : rows)
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
                            {"bottleneck", r.bottleneck},
                            {"utilisation", r.utilisation}});
  return tree.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace peal::sim
