#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sim/link_figures.hpp>
#include <topology/link_catalogue.hpp>

#include "phrases.hpp"
#include "statistics.hpp"
#include "table_fields.hpp"

namespace peal::sim {
namespace {

constexpr double kMostValue = 1e6;
constexpr std::string_view kNeeded[] = {"case_id", "quantity", "link", "value_low", "value_high"};

struct Family {
  std::string_view word;  // in lower case, before the number of the generation
  std::string_view name;  // in data/links
  bool has_width;         // "x16" is a part of the generation's name, not a number of wires
};
constexpr Family kFamilies[] = {{"nvlink", "nvlink", false}, {"pcie", "pcie", true}, {"xgmi", "xgmi", false}};

/// "NVLink4 x18 via NVSwitch3": the generation and how many wires; an empty name where the text tells no generation.
void read_link(LinkFigure& figure) {
  const std::string link = lower_case(figure.link);
  const std::vector<std::string_view> words = words_of(link);
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (const Family& family : kFamilies) {
      const std::string_view word = words[i];
      if (!word.starts_with(family.word)) continue;
      const auto generation = count_of(word.substr(family.word.size()));
      if (!generation) return;
      const bool has_count = i + 1 < words.size() && words[i + 1].size() > 1 && words[i + 1][0] == 'x';
      const int count = has_count ? count_of(words[i + 1].substr(1)).value_or(0) : 0;
      if (family.has_width) {
        figure.generation = fmt::format("{}-{}-x{}", family.name, *generation, count > 0 ? count : 16);
      } else {
        figure.generation = fmt::format("{}-{}", family.name, *generation);
        figure.wires = std::max(count, 1);
      }
      return;
    }
  }
}

void predict(LinkFigure& figure, std::string_view quantity) {
  const auto skip = [&](std::string why) {
    if (figure.why_not.empty()) figure.why_not = std::move(why);
  };
  if (quantity != "bandwidth") return skip("only bandwidths are predicted: the latency of a copy is mostly software");
  if (!figure.unit.empty() && figure.unit != "GB/s") return skip(fmt::format("the unit '{}' is not GB/s", figure.unit));
  read_link(figure);
  if (figure.generation.empty()) return skip(fmt::format("'{}' names no generation, as NVLink4 x18 and PCIe5 x16 do", figure.link));
  const auto of = topology::link_generation(figure.generation);
  if (!of) return skip(of.error().message);
  const double one_way = (*of)->usable.gigabytes() * figure.wires;
  const bool is_both_ways = figure.direction.find("bidir") != std::string::npos;
  // From GPU to GPU over PCIe the way leads through a CPU, unless a switch is named.
  const bool passes_cpu = (*of)->kind == topology::LinkKind::pcie && lower_case(figure.link).find("switch") == std::string::npos;
  figure.predicted = one_way * (is_both_ways ? 2 * (passes_cpu ? topology::pcie_both_ways_through_cpu() : 1) : 1);
}

Result<LinkFigure> read_figure(const TableFields& fields, int line) {
  LinkFigure figure;
  figure.line = line;
  figure.id = fields.text("case_id");
  if (figure.id.empty()) return fields.bad("case_id", "give the measurement a name");
  figure.link = fields.text("link");
  figure.direction = lower_case(fields.text("direction"));
  figure.is_staged = lower_case(fields.text("p2p_enabled")) == "no";
  figure.unit = fields.text("unit");
  PEAL_ASSIGN(const auto low, fields.number("value_low", kMostValue));
  PEAL_ASSIGN(const auto high, fields.number("value_high", kMostValue));
  if (!low || !(*low > 0)) return fields.bad("value_low", "a figure above zero belongs there");
  figure.low = *low;
  figure.high = high.value_or(*low);
  if (figure.high < figure.low) return fields.bad("value_high", "it is below value_low: exchange the two");
  figure.why_not = fields.quality_apart();
  predict(figure, fields.text("quantity"));
  return figure;
}

std::string figure_line(const LinkFigure& f) {
  const std::string range = f.low == f.high ? fmt::format("{:g}", f.low) : fmt::format("{:g} to {:g}", f.low, f.high);
  const std::string error = f.predicted ? fmt::format("{:8.1f} {:>+7.1f} %", *f.predicted, 100 * f.signed_error()) : std::string(18, ' ');
  return fmt::format("{:<20} {:<30} {:<24} {:<4} {:>18}  {}{}{}\n", f.id, f.link, f.direction, f.is_staged ? "no" : "", range, error,
                     f.why_not.empty() ? "" : "  ", f.why_not);
}

}  // namespace

double LinkFigure::signed_error() const {
  if (*predicted > high) return *predicted / high - 1;
  return *predicted < low ? *predicted / low - 1 : 0;
}

bool is_link_table(std::string_view text) {
  const auto table = read_csv_text(text.substr(0, text.find('\n')), "");
  return table && table->column("quantity") && table->column("link") && !table->column("collective");
}

Result<std::vector<LinkFigure>> read_link_figures(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const CsvTable table, read_csv_text(text, name));
  for (const std::string_view column : kNeeded)
    if (!table.column(column))
      return fail(ErrorCode::invalid_argument, "{}:{}: no column '{}'; a table of links has {}", name, table.line, column,
                  fmt::join(kNeeded, ", "));
  std::vector<LinkFigure> figures;
  for (const CsvRow& row : table.rows) {
    PEAL_ASSIGN(LinkFigure figure, read_figure(TableFields(table, row), row.line));
    figures.push_back(std::move(figure));
  }
  if (figures.empty()) return fail(ErrorCode::invalid_argument, "{} has columns and no rows: add one a figure", name);
  return figures;
}

LinkErrors errors_of(const std::vector<LinkFigure>& figures) {
  std::vector<double> errors;
  for (const LinkFigure& f : figures)
    if (f.is_judged()) errors.push_back(std::abs(f.signed_error()));
  if (errors.empty()) return {};
  return {static_cast<int>(errors.size()), percentile(errors, 0.5), percentile(errors, 0.9), percentile(errors, 1)};
}

std::string link_figures_text(const std::string& file, const std::vector<LinkFigure>& figures) {
  const LinkErrors all = errors_of(figures);
  std::string text = fmt::format("{}: {} figures of links, {} predicted and judged\n\n{:<20} {:<30} {:<24} {:<4} {:>18}  {:>8} {:>9}\n",
                                 file, figures.size(), all.rows, "case", "link", "direction", "p2p", "measured", "GB/s", "error");
  for (const LinkFigure& f : figures) text += figure_line(f);
  if (all.rows == 0) return text + "\nno figure could be predicted and judged\n";
  return text + fmt::format("\nmedian error {:.1f} %, 90th percentile {:.1f} %, worst {:.1f} %\n", 100 * all.median, 100 * all.p90,
                            100 * all.worst);
}

std::string link_figures_json(const std::string& file, const std::vector<LinkFigure>& figures) {
  const LinkErrors all = errors_of(figures);
  nlohmann::ordered_json tree = {{"schema", "peal.validate.links/1"}, {"file", file}};
  tree["errors"] = {{"rows", all.rows}, {"median", all.median}, {"p90", all.p90}, {"worst", all.worst}};
  tree["rows"] = nlohmann::ordered_json::array();
  for (const LinkFigure& f : figures) {
    nlohmann::ordered_json row = {{"case", f.id}, {"line", f.line}, {"link", f.link}, {"direction", f.direction},
                                  {"low", f.low}, {"high", f.high}, {"unit", f.unit}};
    if (f.predicted) {
      row["generation"] = f.generation;
      row["predicted"] = *f.predicted;
      row["error"] = f.signed_error();
    }
    if (!f.why_not.empty()) row[f.predicted ? "set_apart" : "not_predicted"] = f.why_not;
    tree["rows"].push_back(std::move(row));
  }
  return tree.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string link_figures_csv(const std::vector<LinkFigure>& figures) {
  std::string text = "case_id,link,direction,measured_low,measured_high,predicted_GBps,error_percent,counted,reason\n";
  for (const LinkFigure& f : figures)
    text += fmt::format("{},{},{},{:g},{:g},{},{},{}\n", csv_cell(f.id), csv_cell(f.link), csv_cell(f.direction), f.low, f.high,
                        f.predicted ? fmt::format("{:.6g},{:.2f}", *f.predicted, 100 * f.signed_error()) : std::string(","),
                        f.is_judged() ? "yes" : "no", csv_cell(f.why_not));
  return text;
}

}  // namespace peal::sim
