// peal sim --compare: the same call on several machines, by several algorithms, ...
#include <algorithm>
#include <charconv>
#include <cli/commands.hpp>
#include <cli/library_words.hpp>
#include <cli/sim_words.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <sim/pictures.hpp>
#include <sim/report.hpp>

namespace peal::cli {

namespace {

constexpr std::size_t kMostVariants = 24;

struct Variant {
  std::string name;
  QuestionWords question;
  sim::Table table;
  std::vector<std::optional<sim::Row>> rows;
  sim::Overlapping asked;  // with --compute
  std::vector<std::optional<sim::OverlapRow>> overlaps;
  std::string why_not;  // at the first size that it cannot
};

Status set_number(int& number, std::string_view key, const std::string& text) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return fail(ErrorCode::invalid_argument, "--compare {}={} is no number", key, text);
}

/// What can be compared, and how a question takes a value of it.
struct Aspect {
  std::string_view key;
  Status (*set)(QuestionWords& words, const std::string& value);
};

template <std::string QuestionWords::*word>
Status set_word(QuestionWords& words, const std::string& value) {
  words.*word = value;
  return {};
}

constexpr Aspect kAspects[] = {
    {"machine",
     [](QuestionWords& words, const std::string& value) -> Status {
       words.cluster.machine = value;
       return {};
     }},
    {"file",
     [](QuestionWords& words, const std::string& value) -> Status {
       words.cluster.file = value;
       return {};
     }},
    {"fabric",
     [](QuestionWords& words, const std::string& value) -> Status {
       words.cluster.fabric = value;
       return {};
     }},
    {"nodes", [](QuestionWords& words, const std::string& value) { return set_number(words.cluster.nodes, "nodes", value); }},
    {"ranks", [](QuestionWords& words, const std::string& value) { return set_number(words.ranks, "ranks", value); }},
    {"places", set_word<&QuestionWords::places>},
    {"groups", [](QuestionWords& words, const std::string& value) { return set_number(words.groups, "groups", value); }},
    {"library", set_word<&QuestionWords::whose>},
    {"library-version", set_word<&QuestionWords::nccl_version>},
    {"processes", set_word<&QuestionWords::processes>},
    {"collective", set_word<&QuestionWords::collective>},
    {"algorithm", set_word<&QuestionWords::algorithm>},
    {"protocol", set_word<&QuestionWords::protocol>},
    {"transport", set_word<&QuestionWords::transport>},
    {"dtype", set_word<&QuestionWords::type>},
    {"congestion", set_word<&QuestionWords::congestion>},
    {"gpudirect", set_word<&QuestionWords::gpudirect>},
};

/// "a,b" or, where values hold commas, "a;b".
std::vector<std::string> split_values(const std::string& text) {
  const char separator = text.find(';') == std::string::npos ? ',' : ';';
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) values.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return values;
}

/// Every variant so far with every value of one more aspect.
Result<std::vector<Variant>> multiply(const std::vector<Variant>& variants, const std::string& text) {
  const std::size_t equals = text.find('=');
  const Aspect* aspect = nullptr;
  std::vector<std::string_view> keys;
  for (const Aspect& known : kAspects) {
    keys.push_back(known.key);
    if (known.key == std::string_view(text).substr(0, equals)) aspect = &known;
  }
  const std::vector<std::string> values = equals == std::string::npos ? std::vector<std::string>() : split_values(text.substr(equals + 1));
  if (aspect == nullptr || values.empty())
    return fail(ErrorCode::invalid_argument, "--compare {} names nothing to compare; give WHAT=A,B with one of {}", text,
                fmt::join(keys, ", "));
  if (variants.size() * values.size() > kMostVariants)
    return fail(ErrorCode::invalid_argument, "--compare asks for {} lines beside one another; give at most {}",
                variants.size() * values.size(), kMostVariants);
  std::vector<Variant> more;
  for (const Variant& variant : variants)
    for (const std::string& value : values) {
      Variant& next = more.emplace_back(variant);
      PEAL_TRY(aspect->set(next.question, value));
      constexpr std::string_view kNeedKeys[] = {"nodes", "ranks", "places", "groups", "library-version", "processes"};
      const bool needs_key = std::find(std::begin(kNeedKeys), std::end(kNeedKeys), aspect->key) != std::end(kNeedKeys);
      next.name += fmt::format("{}{}{}", next.name.empty() ? "" : ", ", needs_key ? fmt::format("{} ", aspect->key) : "", value);
    }
  return more;
}

Status predict_variant(const SimWords& words, const std::vector<Bytes>& sizes, Variant& variant) {
  PEAL_TRY(refuse_faults(words, variant.question.whose));
  PEAL_ASSIGN(LibraryScene scene, library_scene_of(variant.question));
  variant.table = scene.table;
  for (const Bytes& size : sizes) {
    scene.call.bytes = size;
    Result<sim::Row> row = sim::simulate(scene.model, scene.call);
    if (!row && variant.why_not.empty()) variant.why_not = row.error().message;
    variant.rows.push_back(row ? std::optional(*std::move(row)) : std::nullopt);
  }
  return {};
}

Status overlap_variant(const SimWords& words, const std::vector<Bytes>& sizes, Variant& variant) {
  SimWords own = words;
  own.question = variant.question;
  PEAL_ASSIGN(OverlapCase all, overlap_case(own, sizes.back()));
  variant.table = all.table;
  variant.asked = all.asked;
  for (const Bytes& size : sizes) {
    const Result<sim::OverlapStudy> study = all.study(size);
    if (!study && variant.why_not.empty()) variant.why_not = study.error().message;
    variant.overlaps.push_back(study ? std::optional(study->row) : std::nullopt);
  }
  return {};
}

Status simulate_variant(const SimWords& words, const std::vector<Bytes>& sizes, Variant& variant) {
  if (!words.compute.empty()) return overlap_variant(words, sizes, variant);
  if (variant.question.whose != "peal") return predict_variant(words, sizes, variant);
  PEAL_ASSIGN(const sim::Scene scene, scene_of(variant.question));
  PEAL_ASSIGN(tuning::Question question, question_of(variant.question, scene.environment.ranks));
  PEAL_ASSIGN(sim::InterpretOptions options, interpret_options(words.faults, scene));
  PEAL_TRY(set_network(variant.question, scene, options));
  PEAL_TRY(set_effort(words, options));
  PEAL_ASSIGN(const int runs, runs_of(words.faults));
  PEAL_ASSIGN(const std::vector<sim::Beside> beside, beside_of(words.faults));
  variant.table = sim::table_of(scene, question.call.collective);
  for (const Bytes& size : sizes) {
    question.call.bytes = size;
    Result<sim::Study> study = sim::study(scene, question, options, runs, beside);
    if (!study && variant.why_not.empty()) variant.why_not = study.error().message;
    variant.rows.push_back(study ? std::optional(std::move(study->row)) : std::nullopt);
  }
  return {};
}

/// What the table says of one size of a variant: a text, and what the fastest is told by. Nothing where it cannot.
struct Cell {
  std::string text;
  double time_us = 0;
};
std::optional<Cell> cell_of(const Variant& variant, std::size_t at) {
  if (!variant.overlaps.empty()) {
    if (!variant.overlaps[at]) return std::nullopt;
    const sim::OverlapRow& row = *variant.overlaps[at];
    return Cell{fmt::format("{:.1f} ({:.0f}%)", row.together_us, 100 * row.hidden()), row.together_us};
  }
  if (!variant.rows[at]) return std::nullopt;
  const sim::Row& row = *variant.rows[at];
  const sim::Timing& t = *row.out_of_place;
  return Cell{fmt::format("{}{:.2f} ({:.1f})", row.kept_rates_from ? "~" : "", t.busbw, t.time_us), t.time_us};
}

/// An error where no variant can do any of it.
Status check_any(const std::vector<Variant>& variants, std::size_t sizes) {
  for (const Variant& v : variants)
    for (std::size_t at = 0; at < sizes; ++at)
      if (cell_of(v, at)) return {};
  return fail(ErrorCode::unsupported, "{}", variants.front().why_not);
}

std::string header_of(const std::vector<Variant>& variants, std::size_t width, std::string_view figures) {
  std::string text = fmt::format("#{:>12}", "size");
  for (const Variant& v : variants) text += fmt::format("  {:>{}}", v.name, width);
  text += fmt::format("\n#{:>12}", "(B)");
  for (std::size_t i = 0; i < variants.size(); ++i) text += fmt::format("  {:>{}}", figures, width);
  return text + "\n";
}

/// The fastest is marked.
std::string row_of(const std::vector<Variant>& variants, std::size_t at, Bytes size, std::size_t width) {
  double best = 0;
  for (const Variant& v : variants)
    if (const auto cell = cell_of(v, at); cell && (best == 0 || cell->time_us < best)) best = cell->time_us;
  std::string text = fmt::format(" {:>12}", size.value);
  for (const Variant& v : variants) {
    const auto cell = cell_of(v, at);
    text += fmt::format("  {:>{}}", cell ? cell->text + (cell->time_us <= 1.001 * best ? "*" : " ") : "-", width);
  }
  return text + "\n";
}

std::string table_text(const SimWords& words, const std::vector<Variant>& variants, const std::vector<Bytes>& sizes) {
  const bool is_overlap = !words.compute.empty();
  std::size_t width = 20;
  for (const Variant& v : variants) width = std::max(width, v.name.size());
  std::string text = header_of(variants, width, is_overlap ? "us (hidden)" : "busbw (us)");
  for (std::size_t i = 0; i < sizes.size(); ++i) text += row_of(variants, i, sizes[i], width);
  text += is_overlap ? fmt::format(
                           "# {} of computing and a call after each part, both together, out of place, and the share of the calls that "
                           "took no time of their own, simulated; * the fastest\n",
                           words.compute)
                     : "# out of place, bus bandwidth in GB/s, simulated; * the fastest\n";
  for (const Variant& v : variants) {
    text += fmt::format("# {}: {} ranks{}, {} ({})\n", v.name, v.table.ranks,
                        v.table.groups > 1 ? fmt::format(" x {} groups", v.table.groups) : "", v.table.machine, v.table.wires);
    if (!v.why_not.empty()) text += fmt::format("#   -: {}\n", v.why_not);
  }
  const auto is_approximate = [](const auto& row) { return row && row->kept_rates_from; };
  if (std::any_of(variants.begin(), variants.end(),
                  [&](const Variant& v) { return std::any_of(v.rows.begin(), v.rows.end(), is_approximate); }))
    text += "#   ~: approximate, rates of messages are kept for a while; --rates exact works all of them out\n";
  return text;
}

/// A variant's own JSON, of the sizes that it can.
std::string series_json(const Variant& variant) {
  const auto known = [](const auto& rows) {
    std::vector<typename std::decay_t<decltype(rows)>::value_type::value_type> found;
    for (const auto& row : rows)
      if (row) found.push_back(*row);
    return found;
  };
  if (!variant.overlaps.empty()) return sim::overlap_json(variant.table, variant.asked, known(variant.overlaps));
  return sim::to_json(variant.table, known(variant.rows));
}

std::string comparison_json(const std::vector<Variant>& variants) {
  nlohmann::json tree = {{"schema", "peal.sim.compare/1"}, {"series", nlohmann::json::array()}};
  for (const Variant& v : variants) {
    nlohmann::json series = nlohmann::json::parse(series_json(v));
    series["name"] = v.name;
    tree["series"].push_back(std::move(series));
  }
  return tree.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string plot_of(const SimWords& words, const std::vector<Variant>& variants) {
  std::vector<sim::Series> series;
  for (const Variant& v : variants) {
    sim::Series& line = series.emplace_back();
    line.name = fmt::format("{} ({} ranks)", v.name, v.table.ranks * v.table.groups);
    for (const auto& row : v.rows) {
      if (!row || row->bytes == 0) continue;
      line.bytes.push_back(static_cast<double>(row->bytes));
      line.busbw.push_back(row->out_of_place->busbw);
    }
  }
  const std::string lines[] = {"out of place, as nccl-tests counts it, simulated by Peal"};
  return sim::busbw_svg(fmt::format("{}: bus bandwidth over size", words.question.collective), lines, series);
}

}  // namespace

Result<int> compare(const SimWords& words) {
  if (words.utilisation || words.critical_path || !words.messages.empty() || !words.trace.empty() || !words.faults.failure.empty())
    return fail(ErrorCode::invalid_argument,
                "--compare shows times of several calls; ask for --utilisation, --critical-path, --message, --trace or "
                "--fail-rank of one of them alone");
  if (words.faults.hash_seeds != 0)
    return fail(
        ErrorCode::invalid_argument,
        "--hash-seeds tells how one question spreads; ask it of each by itself, or type --compare \"fabric=...,seed=1;...,seed=2\"");
  if (!words.compute.empty() && !words.svg.empty())
    return fail(ErrorCode::invalid_argument,
                "--compare with --compute is a table; ask for --svg without one of the two, or for the table's figures with --json");
  PEAL_ASSIGN(const std::vector<Bytes> sizes, sizes_of(words));
  std::vector<Variant> variants(1);
  variants[0].question = words.question;
  for (const std::string& text : words.compare) {
    PEAL_ASSIGN(variants, multiply(variants, text));
  }
  for (Variant& variant : variants) PEAL_TRY(simulate_variant(words, sizes, variant));
  PEAL_TRY(check_any(variants, sizes.size()));
  if (words.json != "-") PEAL_TRY(write_output("-", table_text(words, variants, sizes)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, comparison_json(variants)));
  if (!words.svg.empty()) PEAL_TRY(write_output(words.svg, plot_of(words, variants)));
  return 0;
}

}  // namespace peal::cli
