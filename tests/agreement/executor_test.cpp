// The executor joins the agreement: its completions hold every op of the programs once, in an order that the programs allow, and its
// bytes are right, for every schedule of the registry. The reference interpreter judges the same programs.
#include <gtest/gtest.h>

#include "../executor/fake_run.hpp"
#include "partial_order.hpp"
#include "reference_interpreter.hpp"

namespace peal::agreement {
namespace {

using test::CollectiveCase;
using test::FakeRun;

std::vector<Done> done_of(const FakeRun& run, int rank) {
  std::vector<Done> log;
  for (const executor::Completion& c : run.log(rank))
    log.push_back({rank, static_cast<std::int32_t>(c.strand), c.op, {c.iteration[0], c.iteration[1]}, c.piece});
  return log;
}

/// Runs one case; turns of all ranks are put behind one another, so their logs make one list over all ranks.
void check_case(const schedule::Algorithm& algorithm, const schedule::Request& request, const CollectiveCase& c, int slots,
                std::uint64_t message_bytes, bool is_by_sockets = false) {
  FakeRun::Options options;
  options.keeps_log = true;
  options.message_bytes = options.fabric.message_bytes = message_bytes;
  options.fabric.slots = slots;
  options.fabric.is_by_sockets = is_by_sockets;
  options.fabric.channels = 4;
  options.fabric.longest_delay_ticks = 3;
  const std::string name = std::string(name_of(c.collective)) + " by " + std::string(algorithm.name) + ", ranks " +
                           std::to_string(c.ranks) + ", root " + std::to_string(c.root) + (c.in_place ? ", in place" : "");
  FakeRun run(algorithm, request, c, options);
  ASSERT_EQ(run.refused(), "") << name;
  std::vector<schedule::Program> programs;
  for (int r = 0; r < c.ranks; ++r) programs.push_back(run.program(r));
  run.start();
  std::vector<std::size_t> seen(static_cast<std::size_t>(c.ranks), 0);
  std::vector<Done> global;
  for (int turn = 0; turn < 200'000 && !run.done(); ++turn) {
    for (int r = 0; r < c.ranks; ++r) {
      run.execution(r).progress();
      ASSERT_FALSE(run.execution(r).failed()) << name << ": " << run.execution(r).failure().message;
      const auto& log = run.log(r);
      for (std::size_t& at = seen[static_cast<std::size_t>(r)]; at < log.size(); ++at) {
        const executor::Completion& d = log[at];
        global.push_back({r, static_cast<std::int32_t>(d.strand), d.op, {d.iteration[0], d.iteration[1]}, d.piece});
      }
    }
    run.fabric().tick();
  }
  ASSERT_EQ(run.finish(), "") << name;
  const PartialOrder order(programs, {run.binding(0).pieces().count, slots});
  EXPECT_EQ(global.size(), order.size()) << name;
  EXPECT_EQ(order.check_global(global), "") << name;
  for (int r = 0; r < c.ranks; ++r) ASSERT_EQ(order.check_rank(r, done_of(run, r)), "") << name;

  // In place at the root alone is a mixture that the reference has no word for.
  if (c.in_place && c.is_rooted()) return;
  if (c.ranks == 1 && has_reduction(c.collective)) return;  // divides by one or not
  schedule::Request asked = request;
  asked.in_place = c.in_place;
  auto schedule = schedule::make_schedule(algorithm, asked);
  ASSERT_TRUE(schedule) << name;
  ReferenceInterpreter reference(asked, schedule->layouts, programs, {slots, true, schedule->pieced ? 2 : 1});
  const Judgement judgement = reference.sample(29, 3);
  EXPECT_EQ(judgement.outcome, Outcome::right) << name << ": the reference says " << judgement.why;
}

int check_registry(std::initializer_list<int> ranks, int slots, std::uint64_t message_bytes, std::uint64_t count,
                   bool is_by_sockets = false) {
  int cases = 0;
  for (const schedule::Algorithm& algorithm : schedule::registry()) {
    for (const int n : ranks) {
      for (const bool in_place : {false, true}) {
        const int root = n / 2;
        const bool has_roles = has_root(algorithm.collective) || algorithm.collective == Collective::send_recv;
        const CollectiveCase c{algorithm.collective, n, has_roles ? root : 0, (root + 1) % n, count, in_place};
        schedule::Request request;
        request.collective = c.collective;
        request.ranks = n;
        request.root = c.root;
        request.peer = c.peer;
        if (n >= 4)
          for (int r = 0; r < n; ++r) request.placement.group.push_back(r / 2);
        if (algorithm.name == "multi_ring" && n > 1) {
          request.placement.rings.resize(2);
          for (int r = 0; r < n; ++r) request.placement.rings[0].push_back(r);
          request.placement.rings[1].assign(request.placement.rings[0].rbegin(), request.placement.rings[0].rend());
          request.placement.shares = {3, 2};
        }
        if ((in_place && !c.has_in_place()) || !algorithm.supports(request) ||
            !schedule::suits(algorithm, request, schedule::Protocol::staged))
          continue;
        check_case(algorithm, request, c, slots, message_bytes, is_by_sockets);
        ++cases;
      }
    }
  }
  return cases;
}

TEST(Executor, CompletesWhatTheProgramsSayInAnOrderTheyAllow) { EXPECT_GT(check_registry({1, 2, 3, 4, 5, 8}, 4, 1 << 18, 210), 100); }
TEST(Executor, InPiecesThroughTheFewestSlots) { EXPECT_GT(check_registry({2, 3, 4, 8}, 2, 512, 840), 60); }
TEST(Executor, InPiecesAsBySockets) { EXPECT_GT(check_registry({2, 3, 4, 8}, 3, 512, 840, true), 60); }

}  // namespace
}  // namespace peal::agreement
