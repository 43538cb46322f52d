// What is chosen, and how messages are cut, where ranks of several hosts talk by sockets.
#include <gtest/gtest.h>

#include <algorithm>

#include "seats.hpp"

namespace peal::tuning {
namespace {

TEST(Select, BetweenTwoHostsTheFewestBytesCross) {
  const Environment environment = several_hosts(2, 2);
  const std::pair<Collective, double> fewest[] = {{Collective::all_reduce, 2},
                                                  {Collective::all_gather, 1},
                                                  {Collective::reduce_scatter, 1},
                                                  {Collective::broadcast, 1},
                                                  {Collective::reduce, 1}};
  for (const auto& [collective, times] : fewest)
    for (const std::uint64_t bytes : {std::uint64_t{256} << 10, std::uint64_t{1} << 20, std::uint64_t{16} << 20}) {
      Question q = ask(bytes);
      q.call.collective = collective;
      const auto selection = select(environment, q);
      ASSERT_TRUE(selection) << selection.error().message;
      const Candidate& chosen = selection->chosen();
      EXPECT_NEAR(chosen.prediction.crossed, times * static_cast<double>(bytes), 0.01 * static_cast<double>(bytes))
          << name_of(collective) << " of " << bytes << " by " << chosen.algorithm->name;
    }
}

// Of several ways that cross equally little the busiest link decides, so large calls go by chains.
TEST(Select, BetweenSeveralHostsTheFewestBytesOfBroadcastAndReduceCrossByEveryLinkOnce) {
  for (const auto& [count, each] : {std::pair{3, 2}, {3, 4}, {4, 2}, {8, 4}})
    for (const Collective collective : {Collective::broadcast, Collective::reduce})
      for (const int root : {0, 1})
        for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{16} << 20}) {
          Question q = ask(bytes);
          q.call.collective = collective;
          q.call.root = root;
          const auto selection = select(several_hosts(count, each), q);
          ASSERT_TRUE(selection) << selection.error().message;
          const Candidate& chosen = selection->chosen();
          const auto size = static_cast<double>(bytes);
          EXPECT_NEAR(chosen.prediction.crossed, (count - 1) * size, 0.01 * size)
              << name_of(collective) << " of " << bytes << " by " << chosen.algorithm->name << " on " << count << " hosts of " << each;
          EXPECT_NEAR(chosen.prediction.bytes[1], size, 0.01 * size);
        }
}

// Three hosts of two: a tree sends as many bytes in all as a ring, but twice the length out of its root's host, where a ring sends 4/3.
TEST(Select, OfWaysThatCrossEquallyOftenTheBusiestHostDecides) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{16} << 20}) {
    const auto selection = select(several_hosts(3, 2), ask(bytes));
    ASSERT_TRUE(selection) << selection.error().message;
    const Prediction& chosen = selection->chosen().prediction;
    const auto size = static_cast<double>(bytes);
    EXPECT_NEAR(chosen.busiest_group, 4 * size / 3, 0.01 * size) << bytes << " by " << selection->chosen().algorithm->name;
    EXPECT_NEAR(chosen.crossed, 4 * size, 0.01 * size);
    const auto tree = std::find_if(selection->candidates.begin(), selection->candidates.end(),
                                   [](const Candidate& c) { return c.algorithm->name == "tree"; });
    ASSERT_NE(tree, selection->candidates.end());
    EXPECT_NEAR(tree->prediction.crossed, 4 * size, 0.01 * size);
    EXPECT_NEAR(tree->prediction.busiest_group, 2 * size, 0.01 * size);
  }
}

TEST(Select, LongCallsBetweenHostsGoByFewSendersToEach) {
  Question q = ask(std::uint64_t{16} << 20);
  q.call.collective = Collective::reduce_scatter;
  const auto selection = select(containers(4), q);
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_EQ(selection->chosen().algorithm->name, "ring");
  EXPECT_EQ(selection->chosen().prediction.channels_into_group, 1);
  EXPECT_EQ(selection->preferred_for, "fewer ranks that send to one host at once");
  const auto direct = std::find_if(selection->candidates.begin(), selection->candidates.end(),
                                   [](const Candidate& c) { return c.algorithm->name == "direct"; });
  ASSERT_NE(direct, selection->candidates.end());
  EXPECT_EQ(direct->prediction.channels_into_group, 3);
  EXPECT_LT(direct->prediction.time, selection->chosen().prediction.time);
}

TEST(Select, BetweenContainersOfOneMachineShortCallsTakeFewMessages) {
  const Environment environment = containers(4);
  for (const auto& [collective, name] : {std::pair{Collective::all_reduce, "recursive_doubling"},
                                         {Collective::all_gather, "recursive_doubling"},
                                         {Collective::reduce_scatter, "recursive_halving"}}) {
    Question q = ask(16 * 1024);
    q.call.collective = collective;
    const auto selection = select(environment, q);
    ASSERT_TRUE(selection) << selection.error().message;
    EXPECT_EQ(selection->chosen().algorithm->name, name) << name_of(collective);
  }
}

TEST(Environment, BetweenContainersOfOneMachineTheWireIsNoLimit) {
  const Environment environment = containers(2);
  const auto defaults = topology::host_defaults();
  ASSERT_TRUE(defaults);
  EXPECT_EQ(environment.level[1].scope, "tcp-containers");
  EXPECT_EQ(environment.level[1].bottleneck, defaults->loopback);
  EXPECT_EQ(environment.offer(schedule::Protocol::staged)->constants[1].scope, "tcp-containers");
  EXPECT_EQ(hosts_with_nics(2).level[1].scope, "tcp");
}

TEST(Plan, MessagesBySocketsAreLongerWhereNobodyWaitsToSendThemOn) {
  Question q = ask(std::uint64_t{16} << 20);
  q.protocol = "staged";
  EXPECT_EQ(select(host(2, 2).environment, q)->chosen().message_bytes, schedule::kSlotMessageBytes);
  EXPECT_TRUE(several_hosts(2, 1).is_by_sockets_alone());
  EXPECT_EQ(select(several_hosts(2, 1), q)->chosen().message_bytes, schedule::kSocketMessageBytes);
  EXPECT_FALSE(several_hosts(2, 2).is_by_sockets_alone());
  EXPECT_EQ(select(several_hosts(2, 2), q)->chosen().message_bytes, schedule::kRelayedSocketMessageBytes);
}

TEST(Plan, MessagesBySocketsStayWholeUpToTheLengthFromWhichAHalfIsWorthAMessage) {
  const auto cut = [](std::uint64_t bytes, std::uint64_t most) {
    return schedule::socket_message_bytes(bytes, schedule::kWholeSocketMessageBytes, most);
  };
  constexpr std::uint64_t kWhole = schedule::kWholeSocketMessageBytes;
  EXPECT_EQ(cut(kWhole, schedule::kSocketMessageBytes), kWhole);
  EXPECT_EQ(cut(2 * kWhole, schedule::kSocketMessageBytes), kWhole);
  EXPECT_EQ(cut(4 * kWhole, schedule::kSocketMessageBytes), 2 * kWhole);
  EXPECT_EQ(cut(64 * kWhole, schedule::kSocketMessageBytes), schedule::kSocketMessageBytes);
  static_assert(schedule::kRelayedSocketMessageBytes < kWhole);
  EXPECT_EQ(cut(1024, schedule::kRelayedSocketMessageBytes), schedule::kRelayedSocketMessageBytes);
  // Two ranks of one host hand a mebibyte to one call, half of that where it is reduced.
  const Environment pair = host_over_loopback(2, 2).environment;
  EXPECT_EQ(pair.uncut_by_sockets(), schedule::kWholePairMessageBytes);
  EXPECT_EQ(pair.uncut_by_sockets(true), schedule::kSocketMessageBytes);
  EXPECT_EQ(pair.most_by_sockets(), schedule::kWholePairMessageBytes);
  EXPECT_EQ(host_over_loopback(2, 4).environment.uncut_by_sockets(), kWhole);
  EXPECT_EQ(host_over_loopback(2, 4).environment.most_by_sockets(), schedule::kSocketMessageBytes);
  EXPECT_EQ(several_hosts(2, 1).most_by_sockets(true), schedule::kSocketMessageBytes);
  // Where the messages of several ranks meet on one host's link.
  EXPECT_EQ(several_hosts(2, 1).uncut_by_sockets(), kWhole);
  EXPECT_EQ(several_hosts(2, 2).uncut_by_sockets(), schedule::kWholeMeetingMessageBytes);
  EXPECT_EQ(several_hosts(3, 1).uncut_by_sockets(), schedule::kWholeMeetingMessageBytes);
  Question q = ask(1024 * 1024);
  q.call.collective = Collective::all_to_all;
  EXPECT_EQ(select(several_hosts(4, 2), q)->chosen().message_bytes, schedule::kWholeMeetingMessageBytes);
}

}  // namespace
}  // namespace peal::tuning
