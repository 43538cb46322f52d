// No plan that the verifier accepts may fail in the reference interpreter; what it accepts although it was mutated is listed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <base/names.hpp>
#include <schedule/msccl_xml.hpp>
#include <schedule/registry.hpp>
#include <schedule/verify.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "../agreement/reference_interpreter.hpp"
#include "hand_made.hpp"
#include "mutate.hpp"
#include "source_tree.hpp"

namespace peal::mutants {
namespace {

using agreement::Judgement;
using agreement::Outcome;
using agreement::ReferenceInterpreter;
using agreement::Rules;
using schedule::Program;
using schedule::Protocol;
using schedule::Schedule;

constexpr std::uint64_t kInterleavings = 1000;
constexpr std::uint64_t kMostStates = 60'000;
constexpr std::uint64_t kHandMade = 20;  // bases at the front of the list, at least

struct Base {
  Schedule schedule;
  std::string name;
  Protocol protocol = Protocol::staged;
  std::int32_t slots = 0;  // the fewest that it is right with; 0: rendezvous
  bool fuse = true;
};

struct Row {
  int mutants = 0, rejected = 0, failed = 0, hidden = 0, accepted = 0, explored = 0;
};

schedule::VerifyOptions options_of(const Base& base, std::int32_t slots) {
  schedule::VerifyOptions options;
  options.protocol = base.protocol;
  options.slots = slots;
  options.fuse = base.fuse;
  return options;
}

schedule::Verdict verify(const Base& base, const std::vector<Program>& programs, std::int32_t slots) {
  return schedule::verify_programs(
      base.schedule.request, base.schedule.layouts, base.schedule.pieced,
      [&](std::int32_t rank) { return programs[static_cast<std::size_t>(rank)]; }, options_of(base, slots));
}

std::vector<Program> lowered(const Base& base, const std::vector<schedule::RankSchedule>& ranks) {
  std::vector<Program> programs;
  const auto n = static_cast<std::int32_t>(ranks.size());
  for (std::int32_t r = 0; r < n; ++r) programs.push_back(schedule::lower(ranks[static_cast<std::size_t>(r)], r, n, base.fuse));
  return programs;
}

// The fewest slots that the plan needs; false where it is not right under this protocol at all.
bool settle_slots(Base& base) {
  if (schedule::traits_of(base.protocol).rendezvous) return schedule::verify(base.schedule, options_of(base, 0)).ok;
  for (base.slots = 1; base.slots <= 2; ++base.slots)
    if (schedule::verify(base.schedule, options_of(base, base.slots)).ok) return true;
  return false;
}

std::vector<Base> bases(bool few) {
  std::vector<Base> all;
  const auto add = [&](const Schedule& schedule, const std::string& name) {
    for (const Protocol protocol : {Protocol::staged, Protocol::direct_read, Protocol::direct_write}) {
      Base base{schedule, fmt::format("{}, {}", name, schedule::name_of(protocol)), protocol, 0, true};
      base.fuse = (all.size() & 1) == 0;
      if (settle_slots(base)) all.push_back(base);
    }
  };
  for (const Schedule& schedule : hand_made()) add(schedule, schedule.name + fmt::format(" on {} ranks", schedule.request.ranks));
  for (const schedule::Algorithm& algorithm : schedule::registry()) {
    for (const std::int32_t n : {2, 3, 4, 5, 6}) {
      if (few && n > 3) continue;
      for (const bool in_place : {false, true}) {
        schedule::Request request;
        request.collective = algorithm.collective;
        request.ranks = n;
        request.in_place = in_place;
        request.root = n / 2;
        request.peer = (request.root + 1) % n;
        request.placement.switches = schedule::kSwitchesInside | schedule::kSwitchesBetween;
        if (n > 3)
          for (std::int32_t r = 0; r < n; ++r) request.placement.group.push_back(r / 2);
        if (!algorithm.supports(request)) continue;
        auto schedule = schedule::make_schedule(algorithm, request);
        if (!schedule) continue;
        add(*schedule,
            fmt::format("{} {} on {} ranks{}", algorithm.name, peal::name_of(algorithm.collective), n, in_place ? " in place" : ""));
      }
    }
  }
  return all;
}

// What the plan does in truth: with its slots, and without any where ops stream.
Judgement judge(const Base& base, const std::vector<Program>& programs, std::int32_t slots, std::uint64_t seed, std::uint64_t count) {
  Rules rules;
  rules.slots = slots;
  rules.snapshots = schedule::traits_of(base.protocol).snapshots;
  const bool one_piece = !base.schedule.pieced || base.schedule.request.collective == Collective::barrier;
  rules.pieces = one_piece ? 1 : 2;
  std::vector<Rules> all{rules};
  if (!base.schedule.pieced && slots > 0) {
    all.push_back(rules);
    all.back().slots = 0;
  }
  if (slots > 0 && !rules.snapshots) {
    // More slots let senders run ahead: other races.
    all.push_back(rules);
    all.back().slots = slots + 6;
  }
  Judgement judgement;
  bool is_explored = true;
  for (const Rules& each : all) {
    ReferenceInterpreter reference(base.schedule.request, base.schedule.layouts, programs, each);
    judgement = reference.sample(seed, count);
    if (judgement.outcome != Outcome::right) return judgement;
    if (base.schedule.request.ranks > 3) {
      is_explored = false;
      continue;
    }
    const Judgement explored = reference.explore(kMostStates);
    if (explored.outcome != Outcome::right) return explored;
    is_explored = is_explored && explored.exhausted;
  }
  judgement.exhausted = is_explored;
  return judgement;
}

// The reason of a rejection without its numbers, to group by.
std::string reason_class(const std::string& why) {
  std::string out;
  for (const char c : why) {
    if (c >= '0' && c <= '9') {
      if (out.empty() || out.back() != '#') out += '#';
    } else {
      out += c;
    }
  }
  const std::size_t colon = out.find(": ");
  if (colon != std::string::npos) out = out.substr(colon + 2);
  if (out.find("a race") != std::string::npos) return "a race";
  if (out.find("waits for ever") != std::string::npos) return "waits for ever";
  return out;
}

class Report {
 public:
  Row rows[kMutations];
  std::vector<std::string> accepted;
  std::map<std::string, int> hidden;
  std::vector<std::string> hidden_examples;

  std::string text() const {
    std::string out = fmt::format("{:<12}{:>9}{:>10}{:>22}{:>24}{:>10}{:>12}\n", "mutation", "mutants", "rejected", "failed in reference",
                                  "rejected, never failed", "accepted", "exhaustive");
    Row sum;
    for (int m = 0; m <= kMutations; ++m) {
      const Row& row = m < kMutations ? rows[m] : sum;
      out += fmt::format("{:<12}{:>9}{:>10}{:>22}{:>24}{:>10}{:>12}\n", m < kMutations ? name_of(static_cast<Mutation>(m)) : "all",
                         row.mutants, row.rejected, row.failed, row.hidden, row.accepted, row.explored);
      if (m == kMutations) break;
      sum.mutants += row.mutants, sum.rejected += row.rejected, sum.failed += row.failed;
      sum.hidden += row.hidden, sum.accepted += row.accepted, sum.explored += row.explored;
    }
    out += "\nrejected, but never failed in the reference, by reason:\n";
    for (const auto& [reason, count] : hidden) out += fmt::format("{:>6}  {}\n", count, reason);
    for (const std::string& line : hidden_examples) out += "        " + line + "\n";
    out += "\naccepted and shown equivalent:\n";
    for (const std::string& line : accepted) out += "  " + line + "\n";
    return out;
  }
};

void run(const std::vector<Base>& all, int mutants, std::uint64_t seed, Report& report) {
  Draw draw(seed);
  for (int made = 0; made < mutants;) {
    // The plans by hand come first; they are few and have the most to get wrong.
    const Base& base = draw(4) == 0 ? all[draw(kHandMade)] : all[draw(all.size())];
    const auto mutation = static_cast<Mutation>(draw(kMutations));
    std::vector<schedule::RankSchedule> ranks;
    for (std::int32_t r = 0; r < base.schedule.request.ranks; ++r) ranks.push_back(base.schedule.build(r));
    Mutant mutant{mutation, -1, "a slot less"};
    std::int32_t slots = base.slots;
    if (mutation == Mutation::slot) {
      if (base.slots < 2) continue;
      --slots;
    } else if (!mutate(mutation, ranks, draw, mutant)) {
      continue;
    }
    ++made;
    Row& row = report.rows[static_cast<int>(mutation)];
    ++row.mutants;
    const std::vector<Program> programs = lowered(base, ranks);
    const schedule::Verdict verdict = verify(base, programs, slots);
    const Judgement truth = judge(base, programs, slots, seed + static_cast<std::uint64_t>(made), kInterleavings);
    const std::string what = fmt::format("{} ({} slots): {}", base.name, slots, mutant.what);
    if (truth.outcome != Outcome::right) {
      ++row.failed;
      ASSERT_FALSE(verdict.ok) << "accepted, but " << name_of(truth.outcome) << ": " << what << "\n  " << truth.why;
    }
    if (verdict.ok) {
      ++row.accepted;
      row.explored += truth.exhausted ? 1 : 0;
      report.accepted.push_back(
          fmt::format("{} [{}]", what, truth.exhausted ? "every interleaving" : fmt::format("{} interleavings", truth.interleavings)));
      continue;
    }
    ++row.rejected;
    ASSERT_FALSE(verdict.why.empty());
    if (truth.outcome == Outcome::right) {
      ++row.hidden;
      ++report.hidden[reason_class(verdict.why)];
      if (verdict.why.find("a race") == std::string::npos) report.hidden_examples.push_back(what + " -> " + verdict.why);
    }
  }
}

std::uint64_t seed_of_run() {
  const int seed = ::testing::UnitTest::GetInstance()->random_seed();
  return seed > 0 ? static_cast<std::uint64_t>(seed) : 1;
}

TEST(Mutants, everyBaseIsRightInTheReferenceToo) {
  const std::vector<Base> all = bases(false);
  ASSERT_GT(all.size(), 150U);
  for (const Base& base : all) {
    std::vector<schedule::RankSchedule> ranks;
    for (std::int32_t r = 0; r < base.schedule.request.ranks; ++r) ranks.push_back(base.schedule.build(r));
    const Judgement truth = judge(base, lowered(base, ranks), base.slots, 5, 200);
    EXPECT_EQ(truth.outcome, Outcome::right) << base.name << ": " << truth.why;
  }
}

TEST(Mutants, everyImportedPlanThatIsAcceptedIsRightInTheReferenceToo) {
  const std::filesystem::path folder = peal::test::in_source("../shared/data/msccl-xml");
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no collection of MSCCL plans beside the source tree";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".xml") continue;
    const auto plan = schedule::read_msccl_plan(entry.path().string());
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const Schedule& schedule = plan->schedule;
    if (!schedule::verify(schedule, {}).ok) continue;
    std::vector<Program> programs;
    for (std::int32_t r = 0; r < schedule.request.ranks; ++r) programs.push_back(schedule::program_for(schedule, r));
    Rules rules;
    rules.slots = 1;
    rules.pieces = 2;
    const bool needs_more = !schedule::verify(schedule, {Protocol::staged, 1, true, 0}).ok;
    if (needs_more) rules.slots = 4;
    ReferenceInterpreter reference(schedule.request, schedule.layouts, programs, rules);
    const Judgement truth = reference.sample(3, 5);
    EXPECT_EQ(truth.outcome, Outcome::right) << entry.path() << ": " << truth.why;
  }
}

TEST(Mutants, aFewAreJudgedAsTheReferenceJudgesThem_Few) {
  Report report;
  run(bases(true), 150, seed_of_run(), report);
  std::fputs(report.text().c_str(), stdout);
}

TEST(Mutants, thousandsAreJudgedAsTheReferenceJudgesThem) {
  Report report;
  run(bases(false), 3000, seed_of_run() + 1000, report);
  const std::string text = report.text();
  std::fputs(text.c_str(), stdout);
  std::ofstream("mutant_report.txt") << text;
}

}  // namespace
}  // namespace peal::mutants
