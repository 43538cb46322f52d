// peal sim link: one link, packet by packet.
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cmath>
#include <memory>
#include <sim/link_report.hpp>

namespace peal::cli {

namespace {

struct LinkWords {
  std::string link = "nvlink-4", operation = "posted", direction = "one", payload = "256", ber = "1e-12", credits, metres, sweep,
              against = "pcie-4-x16";
  std::string json, trace;
  std::optional<int> operations, outstanding, reply;
  int extra_flits = 0;
  std::uint64_t seed = 1;
  bool is_before_correction = false, layers = false, sharing = false;
};

/// Operations of a row; fewer where each packet is drawn.
constexpr int kOperations = 20'000, kDrawnOperations = 200;

/// What a sweep takes where its option was not given a range, and the factor from one value to the next.
struct Axis {
  const char* name;
  std::string LinkWords::*words;
  const char* usual;
  double factor;
  bool is_whole;
};
constexpr Axis kAxes[] = {{"payload", &LinkWords::payload, "16..4K", 2, true},
                          {"ber", &LinkWords::ber, "1e-12..1e-5", 10, false},
                          {"credits", &LinkWords::credits, "1..256", 2, true},
                          {"metres", &LinkWords::metres, "0.25..64", 2, false}};

void put(const std::string& axis, double value, sim::LinkQuestion& question) {
  if (axis == "payload") question.payload = static_cast<int>(std::clamp(value, -1e9, 1e9));
  if (axis == "ber") question.ber = value;
  if (axis == "credits") question.credits = static_cast<int>(std::clamp(value, -1e9, 1e9));
  if (axis == "metres") question.metres = value;
}

Result<sim::LinkQuestion> question_about(const LinkWords& words) {
  sim::LinkQuestion question;
  PEAL_ASSIGN(question.operation, sim::parse_link_operation(words.operation));
  if (words.direction != "one" && words.direction != "both")
    return fail(ErrorCode::invalid_argument, "--direction {}: type one (end A starts operations) or both", words.direction);
  question.is_both_ways = words.direction == "both";
  question.operations = words.operations.value_or(words.trace.empty() ? kOperations : kDrawnOperations);
  question.outstanding = words.outstanding;
  question.reply_bytes = words.reply;
  question.extra_flits = words.extra_flits;
  question.seed = words.seed;
  return question;
}

/// The questions of all rows: one option may be a range.
Result<std::vector<sim::LinkQuestion>> questions_about(LinkWords words) {
  PEAL_ASSIGN(const sim::LinkQuestion base, question_about(words));
  std::vector<sim::LinkQuestion> rows = {base};
  std::string ranged;
  bool is_axis = words.sweep.empty();
  for (const Axis& axis : kAxes) {
    std::string& text = words.*axis.words;
    if (words.sweep == axis.name) {
      is_axis = true;
      if (text.find("..") == std::string::npos) text = axis.usual;
    }
    if (text.empty()) continue;
    PEAL_ASSIGN(const std::vector<double> values, sim::parse_link_range(text, fmt::format("--{}", axis.name), axis.factor));
    for (const double value : values)
      if (axis.is_whole && value != std::floor(value))
        return fail(ErrorCode::invalid_argument, "--{} {} is no whole number; give one", axis.name, value);
    if (values.size() > 1 && !ranged.empty())
      return fail(ErrorCode::invalid_argument, "--{} and --{} are both ranges; give one of them a single number", ranged, axis.name);
    if (values.size() > 1) ranged = axis.name;
    const std::vector<sim::LinkQuestion> before = std::move(rows);
    rows.clear();
    for (const sim::LinkQuestion& question : before)
      for (const double value : values) put(axis.name, value, rows.emplace_back(question));
  }
  if (!is_axis) return fail(ErrorCode::invalid_argument, "--sweep {}: type payload, ber, credits or metres", words.sweep);
  return rows;
}

Result<int> show_sharing(const LinkWords& words, const sim::LinkModel& link) {
  PEAL_ASSIGN(const sim::LinkModel other, sim::link_model(words.against));
  PEAL_ASSIGN(const topology::SharingFigures figures, topology::sharing_over(other.layers));
  Trace trace;
  PEAL_ASSIGN(const sim::LineSequence line, sim::share_line(link, figures, &trace));
  std::vector<sim::SharingRow> rows;
  for (std::uint64_t bytes = 128; bytes <= 32U << 20; bytes *= 8) {
    PEAL_ASSIGN(const sim::SharingRow row, sim::share_bytes(link, other, figures, bytes, words.outstanding));
    rows.push_back(row);
  }
  if (words.json != "-") PEAL_TRY(write_output("-", sim::sharing_table(link, other, figures, line, rows)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, sim::sharing_json(link, other, figures, line, rows) + "\n"));
  if (!words.trace.empty()) PEAL_TRY(trace.write(words.trace));
  return 0;
}

Result<int> show_link(const LinkWords& words) {
  PEAL_TRY(can_write(words.json));
  PEAL_TRY(can_write(words.trace));
  PEAL_ASSIGN(const sim::LinkModel link, sim::link_model(words.link));
  if (words.layers) {
    PEAL_TRY(write_output("-", sim::layers_table(link)));
    return 0;
  }
  if (words.sharing) return show_sharing(words, link);
  PEAL_ASSIGN(const std::vector<sim::LinkQuestion> questions, questions_about(words));
  std::vector<sim::LinkRow> rows;
  Trace trace;
  for (sim::LinkQuestion question : questions) {
    if (words.is_before_correction && question.ber > 0 && question.ber < 1) question.ber = sim::ber_after_correction(link, question.ber);
    // The trace is of the last row.
    const bool is_drawn = !words.trace.empty() && rows.size() + 1 == questions.size();
    PEAL_ASSIGN(const sim::LinkOutcome outcome, sim::simulate_link(link, question, {.trace = is_drawn ? &trace : nullptr}));
    rows.push_back({question, outcome});
  }
  if (words.json != "-") PEAL_TRY(write_output("-", sim::link_table(link, rows)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, sim::link_json(link, rows) + "\n"));
  if (!words.trace.empty()) PEAL_TRY(trace.write(words.trace));
  return 0;
}

}  // namespace

void add_sim_link(CLI::App& sim, Action& action) {
  auto words = std::make_shared<LinkWords>();
  CLI::App* command = sim.add_subcommand("link",
                                         "Simulate one link packet by packet: transactions, credits, replay, bit errors, cable.\n"
                                         "Example: peal sim link --link nvlink-4 --payload 16..256 --ber 1e-9 --metres 2");
  command->add_option("--link", words->link, "A link of `peal machines --links`: nvlink-1 to -5, nvlink-c2c-gh200, pcie-3-x16, ...")
      ->capture_default_str();
  command->add_option("--op", words->operation, "posted (a write that nobody answers), write, read, atomic or invalidate")
      ->capture_default_str();
  command->add_option("--direction", words->direction, "one: end A starts operations; both: each end does")->capture_default_str();
  command->add_option("--payload", words->payload, "Bytes of an operation, or a range 16..256")->capture_default_str();
  command->add_option("--ber", words->ber, "Wrong bits a bit after correction, or a range 1e-12..1e-6")->capture_default_str();
  command->add_flag("--before-correction", words->is_before_correction,
                    "--ber is meant in front of the correcting code, where there is one");
  command->add_option("--credits", words->credits, "Room of the receiver in packets of the largest payload, or a range");
  command->add_option("--metres", words->metres, "Length of the cable, or a range");
  command->add_option("--sweep", words->sweep, "Rows over payload, ber, credits or metres");
  command->add_option("--operations", words->operations, "Operations of each end (default: 20000; with --trace 200)");
  command->add_option("--outstanding", words->outstanding, "Operations under way at once (default: the link's)");
  command->add_option("--reply", words->reply, "Bytes at which an answer to a read is cut (default: the link's)");
  command->add_option("--extra-flits", words->extra_flits, "Flits beside the header of packets with data (NVLink: 0 to 2)");
  command->add_option("--seed", words->seed, "Of the bit errors")->capture_default_str();
  command->add_flag("--layers", words->layers, "Only show the link's figures, layer by layer, with their sources");
  command->add_flag("--sharing", words->sharing, "Compare coherent lines over the link with copies and page migration over another");
  command->add_option("--against", words->against, "The other link of --sharing")->capture_default_str();
  command->add_option("--json", words->json, "Write the table as JSON to a file, or - for standard output");
  command->add_option("--trace", words->trace, "Write the packets of the last row for https://ui.perfetto.dev");
  // A required word would be taken before a command is looked for, and a link has no collective: `sim` asks for it after parsing.
  sim.get_option("collective")->required(false);
  command->callback([words, &action] { action = [words] { return show_link(*words); }; });
}

}  // namespace peal::cli
