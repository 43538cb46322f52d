// peal verify: proof before a byte moves.
#include <unistd.h>

#include <algorithm>
#include <base/names.hpp>
#include <base/partial_sums.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <schedule/msccl_xml.hpp>
#include <schedule/registry.hpp>
#include <schedule/verify.hpp>
#include <tuning/placement.hpp>

namespace peal::cli {

namespace {

struct VerifyWords {
  std::string file, algorithm, collective, protocol, json, range = "2-64", partial_sums = "element";
  int ranks = 0, root = 0;
  bool in_place = false, all = false;
};

nlohmann::ordered_json verdict_json(const schedule::Verdict& verdict) {
  nlohmann::ordered_json json = {{"ok", verdict.ok}, {"steps", verdict.steps}, {"canonical", verdict.canonical}};
  json["first_wrong"] = nullptr;
  if (!verdict.ok) json["first_wrong"] = {{"rank", verdict.rank}, {"step", verdict.step}, {"why", verdict.why}};
  return json;
}

std::string verdict_text(const std::string& what, const schedule::Verdict& verdict, bool reduces) {
  if (verdict.ok)
    return fmt::format("{}: right ({} steps{})\n", what, verdict.steps,
                       !reduces            ? ""
                       : verdict.canonical ? ", canonical order of summation"
                                           : ", not in canonical order");
  return fmt::format("{}: WRONG at step {} of rank {}: {}\n", what, verdict.step, verdict.rank, verdict.why);
}

Result<int> answer(const VerifyWords& words, const std::string& what, const schedule::Verdict& verdict, bool reduces) {
  if (words.json != "-") PEAL_TRY(write_output("-", verdict_text(what, verdict, reduces)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, verdict_json(verdict).dump(2) + "\n"));
  return verdict.ok ? 0 : 1;
}

// Both the schedule as it is built and its lowered programs must hold.
schedule::Verdict judge(const schedule::Schedule& schedule, schedule::Protocol protocol, int slots) {
  schedule::VerifyOptions options;
  options.protocol = protocol;
  options.slots = slots;
  options.fuse = false;
  schedule::Verdict verdict = schedule::verify(schedule, options);
  if (!verdict.ok) return verdict;
  options.fuse = true;
  return schedule::verify(schedule, options);
}

Result<int> verify_file(const VerifyWords& words) {
  PEAL_ASSIGN(const schedule::MscclPlan plan, schedule::read_msccl_plan(words.file));
  // NCCL's and MSCCL's channels have eight slots (NCCL_STEPS).
  constexpr int kNcclSteps = 8;
  const schedule::Verdict verdict = judge(plan.schedule, schedule::Protocol::staged, kNcclSteps);
  const std::string what =
      fmt::format("{} ({}, {} ranks, {}, {})", words.file, name_of(plan.schedule.request.collective), plan.schedule.request.ranks,
                  plan.protocol, plan.schedule.request.in_place ? "in place" : "out of place");
  return answer(words, what, verdict, has_reduction(plan.schedule.request.collective));
}

// What an algorithm needs of a placement: groups as equal as can be, several rings, switches that compute.
void place_for(std::string_view algorithm, schedule::Request& request) {
  constexpr std::string_view kOfTwo[] = {"hierarchical", "bidirectional_ring", "nvls_tree", "sharp"};
  const bool is_of_two = std::find(std::begin(kOfTwo), std::end(kOfTwo), algorithm) != std::end(kOfTwo);
  const int many = request.ranks % 2 == 0 ? request.ranks / 2 : request.ranks;
  const int groups = algorithm == "leader_chain" ? 3 : algorithm == "grid" ? many : is_of_two ? 2 : 1;
  request.placement.switches = schedule::kSwitchesInside | schedule::kSwitchesBetween;
  for (int r = 0; groups > 1 && r < request.ranks; ++r) request.placement.group.push_back(r * groups / request.ranks);
  if (algorithm == "multi_ring") request.placement.rings = tuning::disjoint_rings(request.ranks);
}

Result<int> verify_one(const VerifyWords& words) {
  PEAL_ASSIGN(const Collective collective, parse_collective(words.collective));
  PEAL_ASSIGN(const schedule::Algorithm* algorithm, schedule::find_algorithm(collective, words.algorithm));
  schedule::Request request;
  request.collective = collective;
  request.ranks = words.ranks;
  request.root = words.root;
  request.peer = words.ranks > 1 ? 1 : 0;
  request.in_place = words.in_place;
  place_for(words.algorithm, request);
  PEAL_ASSIGN(request.wide_partials, parse_partial_sums(words.partial_sums));
  PEAL_ASSIGN(const schedule::Schedule schedule, schedule::make_schedule(*algorithm, request));
  schedule::Protocol protocol = schedule::Protocol::staged;
  if (!words.protocol.empty()) {
    PEAL_ASSIGN(protocol, schedule::parse_protocol(words.protocol));
  }
  const std::string what =
      fmt::format("{} {} on {} ranks, {}{}{}", name_of(collective), words.algorithm, words.ranks, schedule::name_of(protocol),
                  words.in_place ? ", in place" : "", request.wide_partials ? ", partial sums as f32" : "");
  return answer(words, what, judge(schedule, protocol, 0), has_reduction(collective));
}

struct Tally {
  std::uint64_t right = 0, wrong = 0, refused = 0, steps = 0;
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
};

Status verify_row(const schedule::Algorithm& algorithm, int ranks, bool in_place, bool words_go_to_stdout, Tally& tally) {
  schedule::Request request;
  request.collective = algorithm.collective;
  request.ranks = ranks;
  request.root = ranks / 2;
  request.peer = ranks / 2 + 1 < ranks ? ranks / 2 + 1 : 0;
  request.in_place = in_place;
  place_for(algorithm.name, request);
  const auto schedule = schedule::make_schedule(algorithm, request);
  if (!schedule) {
    ++tally.refused;
    return {};
  }
  for (const schedule::Protocol protocol : {schedule::Protocol::line, schedule::Protocol::staged}) {
    if (!schedule::suits(algorithm, request, protocol)) continue;
    const schedule::Verdict verdict = judge(*schedule, protocol, 0);
    tally.steps += verdict.steps;
    if (verdict.ok && (!has_reduction(algorithm.collective) || verdict.canonical == algorithm.is_canonical(request))) {
      ++tally.right;
      continue;
    }
    ++tally.wrong;
    const std::string why = verdict.ok ? "the registry and the verifier disagree on canonical order" : verdict.why;
    const std::string what = fmt::format("{} {} on {} ranks, {}{}", name_of(algorithm.collective), algorithm.name, ranks,
                                         schedule::name_of(protocol), in_place ? ", in place" : "");
    tally.failures.push_back({{"plan", what}, {"rank", verdict.rank}, {"step", verdict.step}, {"why", why}});
    if (words_go_to_stdout)
      PEAL_TRY(write_output("-", fmt::format("{}: WRONG at step {} of rank {}: {}\n", what, verdict.step, verdict.rank, why)));
  }
  return {};
}

Result<std::pair<int, int>> parse_range(const std::string& text) {
  int low = 0, high = 0;
  char rest = 0;
  const int got = std::sscanf(text.c_str(), "%d-%d%c", &low, &high, &rest);
  if (got == 1) high = low;
  if ((got != 1 && got != 2) || low < 1 || high < low || high > 4096)
    return fail(ErrorCode::invalid_argument, "\"{}\" is no range of rank counts; type 2-64", text);
  return std::pair(low, high);
}

Result<int> verify_all(const VerifyWords& words) {
  std::string_view collective;
  if (!words.collective.empty()) {
    PEAL_ASSIGN(const Collective parsed, parse_collective(words.collective));
    collective = name_of(parsed);
  }
  PEAL_ASSIGN(const auto range, parse_range(words.ranks > 0 ? std::to_string(words.ranks) : words.range));
  Tally tally;
  const bool shows_progress = ::isatty(2) != 0;
  const auto table = schedule::registry();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const schedule::Algorithm& algorithm = table[i];
    if (!collective.empty() && name_of(algorithm.collective) != collective) continue;
    if (!words.algorithm.empty() && algorithm.name != words.algorithm) continue;
    if (shows_progress)
      std::fprintf(stderr, "\r%zu of %zu: %s %s          ", i + 1, table.size(), std::string(name_of(algorithm.collective)).c_str(),
                   std::string(algorithm.name).c_str());
    const Tally before = tally;
    for (int ranks = range.first; ranks <= range.second; ++ranks) {
      PEAL_TRY(verify_row(algorithm, ranks, false, words.json != "-", tally));
      PEAL_TRY(verify_row(algorithm, ranks, true, words.json != "-", tally));
    }
    if (shows_progress) std::fprintf(stderr, "\r");
    if (words.json != "-")
      PEAL_TRY(write_output(
          "-", fmt::format("{:>18} {:<20} {:>5} plans right, {} wrong, {} not offered\n", name_of(algorithm.collective), algorithm.name,
                           tally.right - before.right, tally.wrong - before.wrong, tally.refused - before.refused)));
  }
  if (tally.right + tally.wrong == 0)
    return fail(ErrorCode::invalid_argument, "no plan answers to that: leave out --algorithm or --collective, or give another --range");
  if (words.json != "-")
    PEAL_TRY(write_output("-", fmt::format("{} plans right, {} wrong; {} steps walked\n", tally.right, tally.wrong, tally.steps)));
  nlohmann::ordered_json json = {
      {"ok", tally.wrong == 0}, {"steps", tally.steps}, {"plans", tally.right + tally.wrong}, {"failures", tally.failures}};
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, json.dump(2) + "\n"));
  return tally.wrong == 0 ? 0 : 1;
}

Result<int> verify(const VerifyWords& words) {
  PEAL_TRY(can_write(words.json));
  if (words.ranks < 0 || words.ranks > 4096)
    return fail(ErrorCode::invalid_argument, "--ranks {} is no number of ranks to verify; give 1 to 4096", words.ranks);
  if (words.all) return verify_all(words);
  if (!words.file.empty()) return verify_file(words);
  if (words.algorithm.empty() || words.collective.empty() || words.ranks <= 0)
    return fail(ErrorCode::invalid_argument, "nothing to verify: give a file, or --algorithm NAME --collective C --ranks N, or --all");
  return verify_one(words);
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto words = std::make_shared<VerifyWords>();
  CLI::App* command = app.add_subcommand("verify",
                                         "Prove that a schedule does what its collective promises, without deadlock or race.\n"
                                         "Example: peal verify --algorithm ring --collective all_reduce --ranks 8\n"
                                         "         peal verify plan.xml      peal verify --all");
  command->add_option("file", words->file, "An MSCCL algorithm XML");
  command->add_option("--algorithm", words->algorithm, "An algorithm of the registry");
  command->add_option("--collective", words->collective, "What it is to do");
  command->add_option("--ranks,-n", words->ranks, "On how many ranks");
  command->add_option("--root", words->root, "Root rank");
  command->add_option("--protocol", words->protocol, "Under which protocol (default staged)");
  command->add_option("--partial-sums", words->partial_sums, "How sums that are not finished travel: element or f32")
      ->capture_default_str();
  command->add_flag("--in-place", words->in_place, "With input and output in the same memory");
  command->add_flag("--all", words->all, "Every algorithm of the registry with each protocol that it may be given");
  command->add_option("--range", words->range, "Rank counts of --all")->capture_default_str();
  command->add_option("--json", words->json, "Write the verdict as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return verify(*words); }; });
}

}  // namespace peal::cli
