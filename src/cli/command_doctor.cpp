// peal doctor: what is wrong with this host, or with a recorded one.
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/question_words.hpp>
#include <discovery/findings.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace peal::cli {

namespace {

struct DoctorWords {
  std::string root, json, bytes, record;
  QuestionWords question;  // its ranks are those of this host, too
  bool list = false, markdown = false;
};

void add_section(std::string& out, const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  out += fmt::format("{}{}\n", out.empty() ? "" : "\n", title);
  for (const std::string& line : lines) out += fmt::format("  {}\n", line);
}

std::string text_of(const discovery::Examination& found) {
  std::vector<std::string> wrong, notes;
  for (const discovery::Finding& f : found.findings) {
    std::vector<std::string>& lines = f.weight == discovery::Weight::wrong ? wrong : notes;
    lines.push_back(f.sentence());
    lines.push_back(fmt::format("  [{}] {}", f.kind->id, f.source));
  }
  std::string out;
  add_section(out, "Wrong", wrong);
  add_section(out, "Worth knowing", notes);
  add_section(out, "Looked at", found.seen);
  add_section(out, "Could not be known", found.unknown);
  out += wrong.empty() ? "\nNothing is wrong that can be seen.\n"
                       : fmt::format("\n{} {} wrong.\n", wrong.size() / 2, wrong.size() == 2 ? "thing is" : "things are");
  return out;
}

std::string json_of(const discovery::Examination& found) {
  nlohmann::ordered_json root;
  root["schema"] = "peal.doctor/1";
  root["ok"] = found.is_well();
  root["findings"] = nlohmann::ordered_json::array();
  for (const discovery::Finding& f : found.findings)
    root["findings"].push_back({{"id", f.kind->id},
                                {"weight", name_of(f.weight)},
                                {"subject", f.subject},
                                {"what", f.what},
                                {"consequence", f.consequence},
                                {"mend", f.mend},
                                {"sentence", f.sentence()},
                                {"source", f.source}});
  root["seen"] = found.seen;
  root["unknown"] = found.unknown;
  // What the system calls its devices may be no UTF-8.
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string list_of_kinds(bool markdown) {
  std::string out;
  for (const discovery::FindingKind& kind : discovery::finding_kinds())
    out += markdown ? row_of(kind) + "\n"
                    : fmt::format("{:<17} {:<6} {}\n{:>24} costs: {}\n{:>24} mend: {}\n{:>24} seen in: {}\n", kind.id, name_of(kind.weight),
                                  kind.what, "", kind.consequence, "", kind.mend, "", kind.read_from);
  return out;
}

/// A recorded tree is read as it is: what only trying can tell is not tried on its behalf.
Result<discovery::Examination> examined(const DoctorWords& words) {
  discovery::ExamineOptions options;
  const bool is_elsewhere = !words.question.cluster.machine.empty() || !words.question.cluster.file.empty();
  options.ranks = is_elsewhere ? 0 : words.question.ranks;
  discovery::Roots roots;
  if (words.root.empty()) {
    options.probes = discovery::probe_host();
    return discovery::examine(roots, options);
  }
  std::error_code error;
  for (const char* part : {"sys", "proc"})
    if (std::filesystem::is_directory(std::filesystem::path(words.root) / part, error)) {
      roots.sys = words.root + "/sys";
      roots.proc = words.root + "/proc";
      return discovery::examine(roots, options);
    }
  return fail(ErrorCode::invalid_argument, "{} holds neither sys/ nor proc/; give a folder with copies of /sys and /proc", words.root);
}

/// What a call takes, and what one device would take that did the bytes of all ranks alone and waited for nobody.
struct Worth {
  double job_ns = 0;
  double alone_ns = 0;
  std::string way;
};

Result<Worth> worth_of(const sim::Scene& scene, tuning::Question& question, std::uint64_t bytes) {
  question.call.bytes = {bytes};
  PEAL_ASSIGN(const tuning::Selection selection, tuning::select(scene.environment, question));
  const tuning::Candidate& chosen = selection.chosen();
  const tuning::Breakdown& parts = chosen.prediction.breakdown;
  return Worth{parts.total(), scene.environment.ranks * (parts.transfer + parts.copy + parts.reduce),
               fmt::format("{} with {}", chosen.algorithm->name, schedule::name_of(chosen.protocol))};
}

/// Is the message so small that more devices only make it slower?
Status look_at_message(const DoctorWords& words, discovery::Examination& found) {
  PEAL_ASSIGN(const Bytes bytes, parse_bytes(words.bytes));
  PEAL_ASSIGN(const sim::Scene scene, scene_of(words.question));
  PEAL_ASSIGN(tuning::Question question, question_of(words.question, scene.environment.ranks));
  if (question.call.collective == Collective::barrier || question.call.collective == Collective::send_recv || scene.environment.ranks < 2)
    return fail(ErrorCode::invalid_argument, "--collective {} with {} ranks moves nothing that one device could do alone",
                words.question.collective, scene.environment.ranks);
  PEAL_ASSIGN(const Worth worth, worth_of(scene, question, bytes.value));
  const std::string call = fmt::format("{} of {} over {} ranks", words.question.collective, to_text(bytes), scene.environment.ranks);
  found.seen.push_back(fmt::format("{}: {} by {}; {} for one device that did all the bytes alone (predicted by the cost model)", call,
                                   to_text(Nanoseconds{worth.job_ns}), worth.way, to_text(Nanoseconds{worth.alone_ns})));
  if (worth.job_ns <= worth.alone_ns) return {};
  std::uint64_t enough = std::max<std::uint64_t>(bytes.value, 1);
  for (bool is_worth = false; !is_worth && enough < (1ull << 32);) {
    enough *= 2;
    PEAL_ASSIGN(const Worth larger, worth_of(scene, question, enough));
    is_worth = larger.job_ns <= larger.alone_ns;
  }
  const discovery::FindingKind* const kind = discovery::find_kind("small-message");
  found.findings.insert(found.findings.begin(),
                        {kind, kind->weight, call,
                         fmt::format("{}, and one device that did all the bytes alone would take {}", to_text(Nanoseconds{worth.job_ns}),
                                     to_text(Nanoseconds{worth.alone_ns})),
                         std::string(kind->consequence), fmt::format("{}: from {} on it is worth it", kind->mend, to_text(Bytes{enough})),
                         fmt::format("predicted by the cost model for {}; `peal explain` says what it rests on", worth.way)});
  return {};
}

Result<int> diagnose(const DoctorWords& words) {
  if (words.list) {
    PEAL_TRY(write_output("-", list_of_kinds(words.markdown)));
    return 0;
  }
  PEAL_TRY(can_write(words.json));
  if (!words.record.empty()) {
    if (!words.root.empty())
      return fail(ErrorCode::invalid_argument, "--record copies this host and --root examines a copy; give one of them");
    PEAL_TRY(discovery::record_host({}, words.record));
    return 0;
  }
  if (words.question.ranks < 0 || words.question.ranks > 1'000'000)
    return fail(ErrorCode::invalid_argument, "--ranks {} is no number of ranks; give 1 or more", words.question.ranks);
  if (words.question.collective.empty() != words.bytes.empty())
    return fail(ErrorCode::invalid_argument,
                "--collective and --bytes belong together; type `peal doctor --collective all_reduce --bytes 4K -n 8`");
  PEAL_ASSIGN(discovery::Examination found, examined(words));
  if (!words.bytes.empty()) PEAL_TRY(look_at_message(words, found));
  if (words.json != "-") PEAL_TRY(write_output("-", text_of(found)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, json_of(found)));
  return found.is_well() ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto words = std::make_shared<DoctorWords>();
  CLI::App* command = app.add_subcommand("doctor",
                                         "Say what is wrong with this host, with the consequence and the mend, one sentence each.\n"
                                         "Exit code 0: nothing is wrong (notes do not count); 1: something is; 2: it was asked wrongly.\n"
                                         "Example: peal doctor --ranks 8");
  command->add_option("--ranks,-n", words->question.ranks, "Ranks that are to run on this host: are there cores and open files enough");
  command->add_option("--root", words->root, "Examine a recorded host: a folder with its sys/ and proc/");
  command->add_option("--record", words->record, "Copy what is examined to a new folder, for --root elsewhere, and do nothing else");
  command->add_option("--collective", words->question.collective,
                      "With --bytes: is a call of this collective too small to be worth the ranks");
  command->add_option("--bytes", words->bytes, "Size of that call (8, 64K, 1M)");
  add_cluster_options(*command, words->question.cluster);
  command->add_flag("--list", words->list, "List all findings that there are, and look at nothing");
  command->add_flag("--markdown", words->markdown, "With --list: as rows of a table (docs/guide/doctor.md)");
  command->add_option("--json", words->json, "Write the findings as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return diagnose(*words); }; });
}

}  // namespace peal::cli
