// The launcher as a function; as a program it is tested in tests/multiprocess.
#include <gtest/gtest.h>
#include <signal.h>

#include <cli/commands.hpp>
#include <cli/launcher.hpp>
#include <cli/rank_places.hpp>
#include <numeric>

namespace peal::cli {
namespace {

LaunchSpec shell(int ranks, const std::string& script) {
  LaunchSpec spec;
  spec.command = {"sh", "-c", script};
  spec.ranks = spec.total_ranks = ranks;
  spec.timeout_s = 20;
  return spec;
}

TEST(Launcher, AllRight) {
  const auto outcome = launch(shell(3, "true"));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 0);
  EXPECT_EQ(outcome->why, "");
}

TEST(Launcher, RanksOfOneHostOfSeveralAreNumberedOn) {
  LaunchSpec spec = shell(2, "test $PEAL_SIZE = 6 && test $PEAL_RANK = $((PEAL_LOCAL_RANK + 4))");
  spec.first_rank = 4;
  spec.total_ranks = 6;
  const auto outcome = launch(spec);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 0) << outcome->why;
}

TEST(Launcher, ErrorsSaidOnce) {
  LaunchSpec spec = shell(3, "echo same sentence >&2; exit 2");
  spec.say_errors_once = true;
  spec.label_output = false;
  testing::internal::CaptureStderr();
  const auto outcome = launch(spec);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "same sentence\n");
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 2);
  EXPECT_TRUE(outcome->has_said_why);
}

TEST(Launcher, ARankThatDiesSilentlyHasNotSaidWhy) {
  LaunchSpec spec = shell(1, "kill -9 $$");
  spec.say_errors_once = true;
  const auto outcome = launch(spec);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 137);
  EXPECT_FALSE(outcome->has_said_why);
}

TEST(Launcher, SignalMaskIsGivenBack) {
  ASSERT_TRUE(launch(shell(1, "true")));
  sigset_t now;
  ::sigprocmask(SIG_SETMASK, nullptr, &now);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) EXPECT_EQ(::sigismember(&now, s), 0) << s;
}

TEST(Launcher, EveryJobMeetsElsewhere) {
  const auto one = one_host_environment(), two = one_host_environment();
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].first, "PEAL_ROOT");
  EXPECT_EQ(one[0].second.rfind("unix:", 0), 0u);
  EXPECT_NE(one[0].second, two[0].second);
}

TEST(Tool, ExitCodesTellTypingFromFailing) {
  EXPECT_EQ(exit_code_of({ErrorCode::invalid_argument, ""}), 2);
  EXPECT_EQ(exit_code_of({ErrorCode::unsupported, ""}), 2);
  EXPECT_EQ(exit_code_of({ErrorCode::system, ""}), 1);
}

TEST(Tool, WhereCanBeWritten) {
  EXPECT_TRUE(can_write(""));
  EXPECT_TRUE(can_write("-"));
  EXPECT_TRUE(can_write("/tmp/peal-no-such-file"));
  EXPECT_FALSE(can_write("/no-such-folder/x"));
}

/// "cpus of the rank/domain" of every rank on two sockets with two NUMA domains each, of two cores with two hardware threads.
std::string places(int ranks, std::vector<int> allowed = {}) {
  const auto host = discovery::find_places({.hwloc_synthetic = "pack:2 numa:2 core:2 pu:2"});
  if (!host) return host.error().message;
  if (allowed.empty()) {
    allowed.resize(16);
    std::iota(allowed.begin(), allowed.end(), 0);
  }
  std::string text;
  for (const RankPlace& place : place_ranks(host->cores, allowed, ranks))
    text += fmt::format("{}{}/{}", text.empty() ? "" : " ", fmt::join(place.cpus, "+"), place.domain);
  return text;
}

TEST(RankPlaces, ACoreEachAndTheDomainOfThatCore) {
  EXPECT_EQ(places(1), "0+1/0");
  EXPECT_EQ(places(3), "0+1/0 2+3/0 4+5/1");
  EXPECT_EQ(places(8), "0+1/0 2+3/0 4+5/1 6+7/1 8+9/2 10+11/2 12+13/3 14+15/3");
}

TEST(RankPlaces, NeighboursShareACoreWithHardwareThreadsOfTheirOwn) {
  EXPECT_EQ(places(16), "0/0 1/0 2/0 3/0 4/1 5/1 6/1 7/1 8/2 9/2 10/2 11/2 12/3 13/3 14/3 15/3");
  EXPECT_EQ(places(12), "0/0 1/0 2+3/0 4/1 5/1 6+7/1 8/2 9/2 10+11/2 12/3 13/3 14+15/3");
  EXPECT_EQ(places(4, {4, 5}), "4/1 4/1 5/1 5/1");
}

TEST(RankPlaces, WhatMayNotBeUsedIsLeftOut) {
  EXPECT_EQ(places(2, {6, 9, 12, 13}), "6/1 9/2");
  EXPECT_EQ(places(3, {6, 9, 12, 13}), "6/1 9/2 12+13/3");
  EXPECT_EQ(places(2, {99}), "");
}

}  // namespace
}  // namespace peal::cli
