#include <gtest/gtest.h>

#include <transport/fake.hpp>
#include <vector>

namespace peal::transport {
namespace {

/// Order in which messages of two channels are seen by one polling loop.
std::vector<int> arrivals(std::uint64_t seed) {
  FakeOptions options;
  options.seed = seed;
  options.channels = 4;
  options.longest_delay_ticks = 40;
  FakeFabric fabric(2, options);
  std::vector<int> seen;
  for (int k = 0; k < 4; ++k) {
    for (int channel = 0; channel < 4; ++channel) {
      const auto byte = static_cast<std::byte>(k);
      EXPECT_TRUE(fabric.transport(0).sender(1, channel)->send(&byte, 1, nullptr));
    }
  }
  int next[4] = {};
  for (int polls = 0; polls < 10'000 && seen.size() < 16; ++polls) {
    for (int channel = 0; channel < 4; ++channel) {
      auto* in = fabric.transport(1).receiver(0, channel);
      const Message* m = in->peek();
      if (m == nullptr) continue;
      EXPECT_EQ(static_cast<int>(m->data[0]), next[channel]++) << "order within a channel";
      seen.push_back(channel);
      in->release();
    }
  }
  EXPECT_EQ(seen.size(), 16u);
  return seen;
}

TEST(Fake, RepeatsExactlyWithASeedAndReordersBetweenChannels) {
  EXPECT_EQ(arrivals(1), arrivals(1));
  int different = 0;
  for (std::uint64_t seed = 2; seed < 10; ++seed) different += arrivals(seed) != arrivals(1);
  EXPECT_GT(different, 4);
}

TEST(Fake, DelaysUntilTimePasses) {
  FakeOptions options;
  options.longest_delay_ticks = 1000;
  options.seed = 3;
  FakeFabric fabric(2, options);
  const std::byte byte{9};
  ASSERT_TRUE(fabric.transport(0).sender(1)->send(&byte, 1, nullptr));
  EXPECT_EQ(fabric.transport(1).receiver(0)->peek(), nullptr);
  fabric.tick(1000);
  EXPECT_NE(fabric.transport(1).receiver(0)->peek(), nullptr);
}

TEST(Fake, StalledChannelHoldsBackAndOthersGoOn) {
  FakeOptions options;
  options.channels = 2;
  FakeFabric fabric(2, options);
  const std::byte byte{9};
  fabric.stall(0, 1, 0, true);
  ASSERT_TRUE(fabric.transport(0).sender(1, 0)->send(&byte, 1, nullptr));
  ASSERT_TRUE(fabric.transport(0).sender(1, 1)->send(&byte, 1, nullptr));
  fabric.tick(100000);
  EXPECT_EQ(fabric.transport(1).receiver(0, 0)->peek(), nullptr);
  EXPECT_NE(fabric.transport(1).receiver(0, 1)->peek(), nullptr);
  fabric.stall(0, 1, 0, false);
  EXPECT_NE(fabric.transport(1).receiver(0, 0)->peek(), nullptr);
}

TEST(Fake, KilledRankIsNamedAndWhatItSentArrives) {
  FakeFabric fabric(3, {});
  const std::byte byte{9};
  ASSERT_TRUE(fabric.transport(1).sender(0)->send(&byte, 1, nullptr));
  fabric.kill(1);
  for (int rank = 0; rank < 3; ++rank) {
    const auto health = fabric.transport(rank).health();
    ASSERT_FALSE(health);
    EXPECT_EQ(health.error().code, ErrorCode::rank_dead);
    EXPECT_EQ(health.error().rank, 1);
  }
  EXPECT_NE(fabric.transport(0).receiver(1)->peek(), nullptr);
  EXPECT_FALSE(fabric.transport(1).sender(0)->send(&byte, 1, nullptr));
  EXPECT_FALSE(fabric.transport(0).sender(1)->send(&byte, 1, nullptr));
  EXPECT_TRUE(fabric.transport(0).sender(2)->send(&byte, 1, nullptr)) << "the others still talk";
}

TEST(Fake, BrokenChannelNamesBothSides) {
  FakeFabric fabric(3, {});
  fabric.break_channel(0, 2, 0);
  EXPECT_EQ(fabric.transport(0).health().error().rank, 2);
  EXPECT_EQ(fabric.transport(2).health().error().rank, 0);
  EXPECT_TRUE(fabric.transport(1).health());
}

TEST(Fake, SlotsAreCountedExactly) {
  FakeOptions options;
  options.slots = 1;
  FakeFabric fabric(2, options);
  const std::byte byte{9};
  EXPECT_TRUE(fabric.transport(0).sender(1)->send(&byte, 1, nullptr));
  EXPECT_FALSE(fabric.transport(0).sender(1)->send(&byte, 1, nullptr));
  EXPECT_FALSE(fabric.transport(0).sender(1)->is_ready());
  EXPECT_EQ(fabric.in_flight(), 1u);
  ASSERT_NE(fabric.transport(1).receiver(0)->peek(), nullptr);
  EXPECT_FALSE(fabric.transport(0).sender(1)->is_ready()) << "the slot is free only after release";
  fabric.transport(1).receiver(0)->release();
  EXPECT_TRUE(fabric.transport(0).sender(1)->is_ready());
}

TEST(Fake, WrongPeerIsAnError) {
  FakeFabric fabric(2, {});
  EXPECT_EQ(fabric.transport(0).sender(7), nullptr);
  EXPECT_FALSE(fabric.transport(0).health());
}

}  // namespace
}  // namespace peal::transport
