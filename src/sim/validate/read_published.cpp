#include <algorithm>
#include <base/csv.hpp>
#include <base/names.hpp>
#include <base/text.hpp>
#include <cmath>
#include <map>
#include <sim/published.hpp>
#include <tuning/plan.hpp>

#include "table_fields.hpp"

namespace peal::sim {
namespace {

constexpr double kMostMicroseconds = 1e12;
constexpr double kMostGBps = 1e6;
constexpr std::uint64_t kMostMessage = std::uint64_t{1} << 50;
constexpr double kMostContradiction = 0.05;  // figures are printed with three to four digits
constexpr double kPrintedGBps = 0.011;       // nccl-tests prints rates with two decimals

constexpr std::string_view kNeeded[] = {"case_id", "machine", "collective", "bytes"};

Status check_columns(const CsvTable& table) {
  const auto bad = [&](std::string_view what) {
    return fail(
        ErrorCode::invalid_argument,
        "{}:{}: no column {}; a table of measurements has case_id, machine, collective, bytes and time_us, and begins with their names",
        table.name, table.line, what);
  };
  for (const std::string_view column : kNeeded)
    if (!table.column(column)) return bad(fmt::format("'{}'", column));
  if (!table.column("time_us") && !table.column("algbw_GBps") && !table.column("busbw_GBps"))
    return bad("'time_us' (nor 'algbw_GBps', nor 'busbw_GBps')");
  return {};
}

Result<Bytes> read_bytes(const TableFields& fields) {
  const Result<Bytes> bytes = parse_bytes(fields.text("bytes"));
  if (!bytes || bytes->value == 0 || bytes->value > kMostMessage) return fields.bad("bytes", "a size such as 1048576 or 1M belongs there");
  return *bytes;
}

Result<bool> read_place(const TableFields& fields) {
  std::string word;
  for (const char c : lower_case(fields.text("in_or_out_of_place")))
    if (c >= 'a' && c <= 'z') word += c;
  if (word == "in" || word == "inplace") return true;
  if (word.empty() || word == "out" || word == "outofplace" || word == "oop") return false;
  return fields.bad("in_or_out_of_place", "write in or out");
}

struct Figures {
  std::optional<double> time_us, algbw, busbw;
};

/// Where a row states its rates besides its time, they must tell the same story. Small rates are printed with too few digits to say more.
std::string contradiction(const Figures& f, Bytes bytes, double bus_factor) {
  const auto differ = [](double a, double b) { return std::abs(a - b) > kMostContradiction * std::max(a, b) + kPrintedGBps; };
  const double rate = static_cast<double>(bytes.value) / *f.time_us * 1e-3;
  if (f.algbw && *f.algbw > 0 && differ(*f.algbw, rate))
    return fmt::format("contradictory: {} bytes in {:g} us are {:.3g} GB/s, algbw_GBps says {:g}", bytes.value, *f.time_us, rate, *f.algbw);
  if (bus_factor > 0 && f.busbw && *f.busbw > 0 && differ(*f.busbw, rate * bus_factor))
    return fmt::format("contradictory: {} bytes in {:g} us are {:.3g} GB/s of bus bandwidth, busbw_GBps says {:g}", bytes.value, *f.time_us,
                       rate * bus_factor, *f.busbw);
  return {};
}

Result<PublishedRow> read_row(const TableFields& fields, int line, Collective collective, int ranks) {
  PublishedRow row;
  row.line = line;
  PEAL_ASSIGN(row.bytes, read_bytes(fields));
  PEAL_ASSIGN(row.is_in_place, read_place(fields));
  Figures figures;
  PEAL_ASSIGN(figures.time_us, fields.number("time_us", kMostMicroseconds));
  PEAL_ASSIGN(figures.algbw, fields.number("algbw_GBps", kMostGBps));
  PEAL_ASSIGN(figures.busbw, fields.number("busbw_GBps", kMostGBps));
  const double factor = ranks > 0 ? tuning::bus_factor(collective, ranks) : 0;
  if (!figures.time_us) {
    const double rate = figures.algbw ? *figures.algbw : figures.busbw && factor > 0 ? *figures.busbw / factor : 0;
    if (rate <= 0) return fields.bad("time_us", "a time in microseconds belongs there, or a rate in algbw_GBps");
    figures.time_us = static_cast<double>(row.bytes.value) / rate * 1e-3;
  }
  if (!(*figures.time_us > 0)) return fields.bad("time_us", "a time above zero belongs there, in microseconds");
  row.time_us = *figures.time_us;
  row.set_apart = fields.quality_apart();
  if (row.set_apart.empty()) row.set_apart = contradiction(figures, row.bytes, factor);
  return row;
}

Result<PublishedCase> read_case(const TableFields& fields, int line) {
  PublishedCase c;
  c.line = line;
  c.id = fields.text("case_id");
  if (c.id.empty()) return fields.bad("case_id", "give the run a name");
  c.machine = fields.text("machine");
  c.hardware = fields.text("hardware");
  c.software = fields.text("software");
  c.environment = fields.text("notable_env");
  c.intra_link = fields.text("intra_link");
  c.inter_link = fields.text("inter_link");
  c.notes = fields.text("notes");
  const auto collective = parse_collective(fields.text("collective"));
  if (!collective || varies(*collective))
    return fields.bad("collective", "write all_reduce, all_gather, reduce_scatter, alltoall, broadcast, ...");
  c.collective = *collective;
  PEAL_ASSIGN(c.nodes, fields.count("nodes"));
  PEAL_ASSIGN(c.gpus_per_node, fields.count("gpus_per_node"));
  PEAL_ASSIGN(c.ranks, fields.count("total_ranks"));
  if (c.ranks == 0 && c.nodes > 0 && c.gpus_per_node > 0) {
    if (c.gpus_per_node > kMostRanks / c.nodes)
      return fields.bad("gpus_per_node", fmt::format("with {} nodes these are too many GPUs", c.nodes));
    c.ranks = c.nodes * c.gpus_per_node;
  }
  return c;
}

/// What must be equal for rows of one case_id to be one run.
std::string key_of(const PublishedCase& c) {
  return fmt::format("{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}\x1f{}", c.id, c.machine, name_of(c.collective), c.nodes, c.gpus_per_node,
                     c.ranks, c.software, c.environment);
}

/// Ids that stand for several runs get the first words that tell them apart.
void label_cases(std::vector<PublishedCase>& cases) {
  std::map<std::string, int> runs;
  for (const PublishedCase& c : cases) ++runs[c.id];
  std::map<std::string, int> taken;
  for (PublishedCase& c : cases) {
    c.label = c.id;
    if (runs[c.id] > 1) c.label += fmt::format(" {} {}", name_of(c.collective), c.machine);
    if (const int before = taken[c.label]++; before > 0) c.label += fmt::format(" #{}", before + 1);
  }
}

}  // namespace

Result<std::vector<PublishedCase>> read_published_text(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const CsvTable table, read_csv_text(text, name));
  PEAL_TRY(check_columns(table));
  std::vector<PublishedCase> cases;
  std::map<std::string, std::size_t> index;
  for (const CsvRow& row : table.rows) {
    const TableFields fields(table, row);
    PEAL_ASSIGN(PublishedCase c, read_case(fields, row.line));
    PEAL_ASSIGN(PublishedRow figures, read_row(fields, row.line, c.collective, c.ranks));
    const auto [it, is_new] = index.emplace(key_of(c), cases.size());
    if (is_new) cases.push_back(std::move(c));
    cases[it->second].rows.push_back(std::move(figures));
  }
  if (cases.empty()) return fail(ErrorCode::invalid_argument, "{} has columns and no rows: add one a measured message size", name);
  label_cases(cases);
  return cases;
}

void add_cases(std::vector<PublishedCase>& cases, std::vector<PublishedCase> more) {
  std::move(more.begin(), more.end(), std::back_inserter(cases));
  label_cases(cases);
}

Status add_notes_text(std::vector<PublishedCase>& cases, std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const CsvTable table, read_csv_text(text, name));
  for (const std::string_view column : {"case_id", "notes"})
    if (!table.column(column))
      return fail(ErrorCode::invalid_argument, "{}:{}: no column '{}'; notes of cases have case_id and notes, and begin with their names",
                  name, table.line, column);
  for (const CsvRow& row : table.rows) {
    const TableFields fields(table, row);
    const std::string_view id = fields.text("case_id");
    const std::string notes(fields.text("notes"));
    const std::string why(fields.text("not_fitted"));
    if (notes.empty() && why.empty()) return fields.bad("notes", "write what the source says of the run, as in: one process");
    for (PublishedCase& c : cases) {
      if (c.id != id) continue;
      c.more_notes = notes;
      c.not_fitted = why;
    }
  }
  return {};
}

Result<std::vector<PublishedCase>> read_published_file(const std::string& path) {
  PEAL_ASSIGN(const std::string text, read_table_file(path));
  return read_published_text(text, path);
}

}  // namespace peal::sim
