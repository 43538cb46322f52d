#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sim/link_report.hpp>

namespace peal::sim {

namespace {

constexpr std::size_t kMostValues = 64;

Result<double> parse_number(std::string_view text, std::string_view option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(value)) return value;
  if (const Result<Bytes> size = parse_bytes(text)) return static_cast<double>(size->value);
  return fail(ErrorCode::invalid_argument, "{} does not take \"{}\": give a number, or a range such as 16..256", option, text);
}

std::string way_of(const LinkQuestion& q) { return q.is_both_ways ? "from both ends" : "from one end"; }

int credits_of(const LinkModel& model, const LinkQuestion& q) { return q.credits.value_or(static_cast<int>(model.layers.credits)); }
double metres_of(const LinkModel& model, const LinkQuestion& q) { return q.metres.value_or(model.layers.metres); }

nlohmann::json figures_tree(std::span<const topology::LayerFigure> figures) {
  nlohmann::json tree = nlohmann::json::array();
  for (const auto& f : figures) tree.push_back({{"layer", f.layer}, {"name", f.key}, {"value", f.value}, {"source", f.source}});
  return tree;
}

std::string dump(const nlohmann::json& tree) { return tree.dump(2, ' ', false, nlohmann::json::error_handler_t::replace); }

}  // namespace

Result<std::vector<double>> parse_link_range(std::string_view text, std::string_view option, double factor) {
  const std::size_t dots = text.find("..");
  PEAL_ASSIGN(const double first, parse_number(text.substr(0, dots), option));
  std::vector<double> values = {first};
  if (dots == std::string_view::npos) return values;
  PEAL_ASSIGN(const double last, parse_number(text.substr(dots + 2), option));
  if (!(first > 0) || last < first)
    return fail(ErrorCode::invalid_argument, "{} {}: a range goes from a number above 0 to a larger one, such as 16..256", option, text);
  // A last step of less than half is the end of the range itself.
  while (values.back() * factor < last * (1 + 1e-9)) {
    if (values.size() >= kMostValues)
      return fail(ErrorCode::invalid_argument, "{} {} has more than {} values; give a shorter range", option, text, kMostValues);
    values.push_back(values.back() * factor);
  }
  if (values.back() < last * (1 - 1e-9)) values.push_back(last);
  return values;
}

std::string link_table(const LinkModel& model, std::span<const LinkRow> rows) {
  const LinkQuestion& first = rows.front().question;
  const std::string rate = model.link.arithmetic();
  std::string text = fmt::format("# {}: {}{:.5g} GB/s each way; {} {}, {} operations, seed {}, simulated packet by packet\n",
                                 model.link.name, rate.empty() ? "" : rate + " = ", model.link.bandwidth.gigabytes(),
                                 name_of(first.operation), way_of(first), first.operations, first.seed);
  text +=
      fmt::format("# {:>9} {:>8} {:>7} {:>7}  {:>8} {:>6}  {:>8} {:>8} {:>8} {:>9}  {:>7} {:>8} {:>8} {:>9}\n", "payload", "ber", "credits",
                  "metres", "goodput", "share", "alone", "p50", "p99", "max", "broken", "replayed", "timeouts", "undetected");
  text += fmt::format("# {:>9} {:>8} {:>7} {:>7}  {:>8} {:>6}  {:>8} {:>8} {:>8} {:>9}  {:>7} {:>8} {:>8} {:>9}\n", "(B)", "", "", "",
                      "(GB/s)", "(%)", "(ns)", "(ns)", "(ns)", "(ns)", "", "", "", "(a year)");
  for (const LinkRow& row : rows) {
    const LinkQuestion& q = row.question;
    const LinkOutcome& o = row.outcome;
    text +=
        fmt::format("  {:>9} {:>8.3g} {:>7} {:>7.4g}  {:>8.4g} {:>6.2f}  {:>8.1f} {:>8.1f} {:>8.1f} {:>9.1f}  {:>7} {:>8} {:>8} {:>9.2g}\n",
                    q.payload, q.ber, credits_of(model, q), metres_of(model, q), o.goodput, 100 * o.share, o.latency_ns, o.p50_ns, o.p99_ns,
                    o.max_ns, o.broken, o.replayed, o.timeouts, o.undetected);
  }
  std::vector<std::string> assumed;
  for (const auto& f : model.layers.figures)
    if (f.source.starts_with("assumed")) assumed.push_back(fmt::format("{} {:g}", f.key, f.value));
  return text + fmt::format("# assumed, not published: {}; --layers shows all figures with their sources\n", fmt::join(assumed, ", "));
}

std::string link_json(const LinkModel& model, std::span<const LinkRow> rows) {
  nlohmann::json tree = {{"schema", "peal.link/1"},
                         {"link", model.link.name},
                         {"line_GBps", model.link.bandwidth.gigabytes()},
                         {"line_source", model.link.source},
                         {"figures", figures_tree(model.layers.figures)},
                         {"rows", nlohmann::json::array()}};
  for (const LinkRow& row : rows) {
    const LinkQuestion& q = row.question;
    const LinkOutcome& o = row.outcome;
    tree["rows"].push_back({{"operation", name_of(q.operation)},
                            {"both_ways", q.is_both_ways},
                            {"payload", q.payload},
                            {"operations", q.operations},
                            {"ber", q.ber},
                            {"credits", credits_of(model, q)},
                            {"metres", metres_of(model, q)},
                            {"seed", q.seed},
                            {"goodput_GBps", o.goodput},
                            {"share", o.share},
                            {"share_without_errors", link_share(model, q)},
                            {"latency_ns", o.latency_ns},
                            {"p50_ns", o.p50_ns},
                            {"p99_ns", o.p99_ns},
                            {"max_ns", o.max_ns},
                            {"time_ns", o.time_ns},
                            {"packets", o.packets},
                            {"messages", o.messages},
                            {"broken", o.broken},
                            {"replayed", o.replayed},
                            {"timeouts", o.timeouts},
                            {"wire_busy", o.busy},
                            {"undetected_a_year", o.undetected}});
  }
  return dump(tree);
}

std::string layers_table(const LinkModel& model) {
  std::string text = fmt::format("{} ({})\n", model.link.title, model.link.name);
  text += fmt::format("  line         {:<22} {:>10.5g}  {}\n", "GBps", model.link.bandwidth.gigabytes(), model.link.source);
  const auto around = [&](const char* what, const std::string& frame, int bytes) {
    text += fmt::format("  transaction  {:<22} {:>10}  bytes around the data: data/links, frame {}\n", what, bytes, frame);
  };
  around("request", model.layers.request_frame, model.request_bytes);
  around("answer", model.layers.response_frame, model.response_bytes);
  for (const char* layer : {"transaction", "data_link", "physical"})
    for (const auto& f : model.layers.figures)
      if (f.layer == layer) text += fmt::format("  {:<11}  {:<22} {:>10.8g}  {}\n", f.layer, f.key, f.value, f.source);
  return text;
}

std::string sharing_table(const LinkModel& coherent, const LinkModel& other, const topology::SharingFigures& figures,
                          const LineSequence& line, std::span<const SharingRow> rows) {
  const auto source = [&](std::string_view key) {
    return std::find_if(figures.figures.begin(), figures.figures.end(), [&](const topology::LayerFigure& f) { return f.key == key; })
        ->source;
  };
  std::string text = fmt::format(
      "# one line over {}: the writer's invalidation is answered after {:.0f} ns, the reader has the line after {:.0f} ns\n"
      "# lines: over {}, coherent; copy, pages: over {}\n"
      "# a copy: {:g} us and its bytes ({})\n"
      "# a page of {:g} bytes: {:g} us and its bytes ({})\n"
      "# {:>11}  {:>12} {:>12} {:>12}  {}\n"
      "# {:>11}  {:>12} {:>12} {:>12}\n",
      coherent.link.name, line.invalidated_ns, line.read_ns, coherent.link.name, other.link.name, figures.copy_us, source("copy_us"),
      figures.page_bytes, figures.fault_us, source("fault_us"), "bytes", "lines", "copy", "pages", "fastest", "(B)", "(us)", "(us)",
      "(us)");
  for (const SharingRow& row : rows) {
    const double best = std::min({row.lines_ns, row.copy_ns, row.pages_ns});
    text += fmt::format("  {:>11}  {:>12.2f} {:>12.2f} {:>12.2f}  {}\n", row.bytes, row.lines_ns * 1e-3, row.copy_ns * 1e-3,
                        row.pages_ns * 1e-3,
                        best == row.lines_ns  ? "lines"
                        : best == row.copy_ns ? "copy"
                                              : "pages");
  }
  return text;
}

std::string sharing_json(const LinkModel& coherent, const LinkModel& other, const topology::SharingFigures& figures,
                         const LineSequence& line, std::span<const SharingRow> rows) {
  nlohmann::json tree = {{"schema", "peal.link.sharing/1"},          {"coherent", coherent.link.name},        {"other", other.link.name},
                         {"figures", figures_tree(figures.figures)}, {"invalidated_ns", line.invalidated_ns}, {"read_ns", line.read_ns},
                         {"rows", nlohmann::json::array()}};
  for (const SharingRow& r : rows)
    tree["rows"].push_back({{"bytes", r.bytes}, {"lines_ns", r.lines_ns}, {"copy_ns", r.copy_ns}, {"pages_ns", r.pages_ns}});
  return dump(tree);
}

}  // namespace peal::sim
