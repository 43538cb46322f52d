// Every schedule of the registry, with every protocol that the selector may give it, through the verifier, the simulator and the reference.
#include <schedule/verify.hpp>

#include "partial_order.hpp"
#include "reference_interpreter.hpp"
#include "scenes.hpp"

namespace peal::agreement {
namespace {

std::vector<schedule::Program> programs_of(const tuning::Plan& plan) {
  std::vector<schedule::Program> programs;
  for (std::int32_t r = 0; r < plan.schedule.request.ranks; ++r) programs.push_back(schedule::program_for(plan.schedule, r));
  return programs;
}

void check_all(const sim::Scene& scene, std::initializer_list<std::uint64_t> sizes, const tuning::Question& q, const tuning::Candidate& c,
               const tuning::Plan& plan) {
  const std::string name = name_of_case(q, c, scene.environment.ranks);
  const schedule::Verdict verdict = schedule::verify(plan.schedule, {.protocol = plan.protocol});
  EXPECT_TRUE(verdict.ok) << name << ": the verifier says " << verdict.why;

  const std::vector<schedule::Program> programs = programs_of(plan);
  const schedule::ProtocolTraits& traits = schedule::traits_of(plan.protocol);
  // Alone, avg may divide by one or not: the reference knows only "not".
  const bool is_division_by_one = scene.environment.ranks == 1 && has_reduction(q.call.collective);
  if (q.call.bytes.value == *sizes.begin() && !is_division_by_one) {
    ReferenceInterpreter reference(plan.schedule.request, plan.schedule.layouts, programs,
                                   {traits.slots, traits.snapshots, plan.schedule.pieced ? 2 : 1});
    const Judgement judgement = reference.sample(17, 3);
    EXPECT_EQ(judgement.outcome, Outcome::right) << name << ": the reference says " << judgement.why;
  }

  sim::InterpretOptions options;
  options.keeps_log = true;
  auto outcome = sim::interpret(plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options);
  ASSERT_TRUE(outcome) << name << ": the simulator says " << outcome.error().message;
  std::vector<Done> log;
  for (const sim::Completion& d : outcome->log) log.push_back({d.rank, d.strand, d.position, {d.iteration[0], d.iteration[1]}, d.piece});
  const PartialOrder order(programs, {plan.pieces.count, plan.slots});
  EXPECT_EQ(order.check_global(log), "") << name;
  for (std::size_t i = 1; i < outcome->log.size(); ++i) ASSERT_LE(outcome->log[i - 1].time, outcome->log[i].time) << name;
}

int run(const sim::Scene& scene, std::initializer_list<std::uint64_t> sizes, bool wide_partials = false) {
  return for_each_candidate(
      scene, sizes, [&](const auto& q, const auto& c, const auto& plan) { check_all(scene, sizes, q, c, plan); }, wide_partials);
}

// 840 elements: every rank count up to 8 cuts it evenly; 1.5 MiB walks in pieces.
TEST(Order, EveryCandidateOnOneHostEndsInAnOrderThatItsProgramsAllow) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) EXPECT_GT(run(host_scene(ranks), {3360, 0}), 20) << ranks;
}

TEST(Order, InPiecesToo) {
  for (const int ranks : {2, 3, 8}) EXPECT_GT(run(host_scene(ranks), {3 << 19}), 20) << ranks;
}

TEST(Order, WithPartialSumsAsF32) {
  for (const int ranks : {3, 4, 5, 8}) EXPECT_GT(run(host_scene(ranks), {1680, 1 << 20}, true), 20) << ranks;
}

TEST(Order, OverLoopback) {
  for (const int ranks : {2, 5}) EXPECT_GT(run(host_scene(ranks, tuning::Wires::socket), {3360, 1 << 20}), 10) << ranks;
}

TEST(Order, OnGpusOfOneNodeAndOfTwo) {
  EXPECT_GT(run(machine_scene("dgx-h100", 1, 8), {1 << 20}), 20);
  EXPECT_GT(run(machine_scene("dgx-a100", 2, 16), {1 << 20}), 20);
}

// A log that is wrong must be found wrong.
TEST(Order, AWrongOrderIsFound) {
  const sim::Scene scene = host_scene(4);
  tuning::Question q;
  q.call.bytes = {4096};
  q.algorithm = "ring";
  q.protocol = "staged";
  auto selection = tuning::select(scene.environment, q);
  ASSERT_TRUE(selection);
  auto plan = tuning::make_plan(scene.environment, *selection->chosen().algorithm, selection->chosen().protocol, q.call);
  ASSERT_TRUE(plan);
  sim::InterpretOptions options;
  options.keeps_log = true;
  auto outcome = sim::interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options);
  ASSERT_TRUE(outcome);
  std::vector<Done> log;
  for (const sim::Completion& d : outcome->log) log.push_back({d.rank, d.strand, d.position, {d.iteration[0], d.iteration[1]}, d.piece});
  const std::vector<schedule::Program> programs = programs_of(*plan);
  const PartialOrder order(programs, {plan->pieces.count, plan->slots});
  ASSERT_EQ(order.check_global(log), "");
  std::vector<Done> reversed(log.rbegin(), log.rend());
  EXPECT_NE(order.check_global(reversed), "");
  std::vector<Done> shorter(log.begin(), log.end() - 1);
  EXPECT_NE(order.check_global(shorter).find("never"), std::string::npos);
  log.push_back(log.front());
  EXPECT_NE(order.check_global(log).find("twice"), std::string::npos);
}

}  // namespace
}  // namespace peal::agreement
