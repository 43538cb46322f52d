#include <algorithm>
#include <base/csv.hpp>
#include <charconv>
#include <cmath>
#include <training/validate_training.hpp>

namespace peal::training {

namespace {

constexpr std::string_view kNeeded[] = {"case_id", "gpu_type", "model", "gpus", "tp", "pp", "dp", "seq_len", "global_batch"};
constexpr double kMost = 1e15;
constexpr int kMostCount = 100'000'000;  // of tokens, words
constexpr int kMostRanks = 1'000'000;
constexpr int kMostLayers = 10'000;

class Cells {
 public:
  Cells(const CsvTable& table, const CsvRow& row) : table_(table), row_(row) {}

  std::string text(std::string_view column) const {
    const auto index = table_.column(column);
    return index ? row_.cells[*index] : std::string();
  }

  Result<double> number(std::string_view column, double most = kMost) const {
    const std::string cell = text(column);
    if (cell.empty()) return 0.0;
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value) || value < 0 || value > most)
      return fail(ErrorCode::invalid_argument, "{}:{}: {} is '{}': a number from 0 to {:g} belongs there, or nothing", table_.name,
                  row_.line, column, cell.substr(0, 64), most);
    return value;
  }

  template <class Integer>
  Status count(std::string_view column, Integer& to, int most = kMostCount) const {
    PEAL_ASSIGN(const double value, number(column, most));
    if (value != std::floor(value))
      return fail(ErrorCode::invalid_argument, "{}:{}: {} is {:g}: a whole number belongs there", table_.name, row_.line, column, value);
    to = static_cast<Integer>(value);
    return {};
  }

 private:
  const CsvTable& table_;
  const CsvRow& row_;
};

Status read_shape(const Cells& cells, PublishedRun& run) {
  PEAL_TRY(cells.count("layers", run.layers, kMostLayers));
  PEAL_TRY(cells.count("hidden", run.hidden));
  PEAL_TRY(cells.count("heads", run.heads, kMostRanks));
  PEAL_TRY(cells.count("kv_heads", run.kv_heads, kMostRanks));
  PEAL_TRY(cells.count("ffn", run.ffn));
  PEAL_TRY(cells.count("vocab", run.vocab));
  PEAL_TRY(cells.count("seq_len", run.seq_len));
  return {};
}

Status read_layout(const Cells& cells, PublishedRun& run) {
  for (const auto& [column, to] : {std::pair{"gpus", &run.gpus},
                                   {"tp", &run.tp},
                                   {"pp", &run.pp},
                                   {"vpp", &run.vpp},
                                   {"cp", &run.cp},
                                   {"ep", &run.ep},
                                   {"dp", &run.dp},
                                   {"micro_batch", &run.micro_batch},
                                   {"global_batch", &run.global_batch}})
    PEAL_TRY(cells.count(column, *to, kMostRanks));
  return {};
}

Result<PublishedRun> read_run(const CsvTable& table, const CsvRow& row) {
  const Cells cells(table, row);
  PublishedRun run;
  run.line = row.line;
  for (const auto& [column, to] : {std::pair{"case_id", &run.id},
                                   {"source_group", &run.source},
                                   {"framework_or_release", &run.software},
                                   {"hardware", &run.hardware},
                                   {"gpu_type", &run.gpu},
                                   {"model", &run.model},
                                   {"precision", &run.precision},
                                   {"activation_recompute", &run.recompute},
                                   {"schedule", &run.schedule},
                                   {"zero_stage_or_fsdp", &run.sharding},
                                   {"flop_formula", &run.formula},
                                   {"notes", &run.notes}})
    *to = cells.text(column);
  PEAL_TRY(read_shape(cells, run));
  PEAL_TRY(read_layout(cells, run));
  PEAL_ASSIGN(run.seconds, cells.number("iter_time_s"));
  if (run.seconds <= 0) {
    PEAL_ASSIGN(run.seconds, cells.number("iter_time_derived_s"));
  }
  PEAL_ASSIGN(run.tflops, cells.number("tflops_per_gpu"));
  PEAL_ASSIGN(run.samples_per_s, cells.number("samples_per_s_total"));
  PEAL_ASSIGN(run.peak_gib, cells.number("peak_mem_gib"));
  run.ran_out_of_memory = cells.text("outcome") == "oom";
  if (run.source.empty()) run.source = run.software;
  return run;
}

}  // namespace

bool is_training_table(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('\n'));
  return std::all_of(std::begin(kNeeded), std::end(kNeeded), [&](std::string_view column) { return head.find(column) != head.npos; });
}

Result<std::vector<PublishedRun>> read_training_text(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const CsvTable table, read_csv_text(text, name));
  for (const std::string_view column : kNeeded)
    if (!table.column(column))
      return fail(ErrorCode::invalid_argument, "{}:{}: no column '{}'; a table of training runs has {}", name, table.line, column,
                  fmt::join(kNeeded, ", "));
  std::vector<PublishedRun> runs;
  for (const CsvRow& row : table.rows) {
    PEAL_ASSIGN(PublishedRun run, read_run(table, row));
    runs.push_back(std::move(run));
  }
  if (runs.empty()) return fail(ErrorCode::invalid_argument, "{} has no row below the names of its columns", name);
  return runs;
}

}  // namespace peal::training
