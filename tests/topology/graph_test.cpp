#include <gtest/gtest.h>

#include <topology/graph.hpp>

namespace peal::topology {
namespace {

Graph two_gpus() {
  Graph g;
  EXPECT_TRUE(g.add_device({.id = "gpu0", .kind = DeviceKind::gpu}));
  EXPECT_TRUE(g.add_device({.id = "gpu1", .kind = DeviceKind::gpu}));
  return g;
}

TEST(Graph, RefusesAnIdTwiceAndNoId) {
  Graph g = two_gpus();
  const auto twice = g.add_device({.id = "gpu0"});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("gpu0"), std::string::npos);
  EXPECT_FALSE(g.add_device({.id = ""}));
  EXPECT_EQ(g.device_count(), 2);
}

TEST(Graph, RefusesLinksThatCannotBe) {
  Graph g = two_gpus();
  const Bandwidth rate = Bandwidth::gigabytes(1);
  EXPECT_FALSE(g.add_link({.a = 0, .b = 2, .bandwidth = rate}));
  EXPECT_FALSE(g.add_link({.a = -1, .b = 1, .bandwidth = rate}));
  EXPECT_FALSE(g.add_link({.a = 1, .b = 1, .bandwidth = rate}));
  EXPECT_FALSE(g.add_link({.a = 0, .b = 1, .bandwidth = rate, .count = 0}));
  EXPECT_FALSE(g.add_link({.a = 0, .b = 1, .bandwidth = {}}));
  EXPECT_FALSE(g.add_link({.a = 0, .b = 1, .bandwidth = {-1}}));
  EXPECT_EQ(g.link_count(), 0);
}

TEST(Graph, FillsInUsableRateAndScope) {
  Graph g = two_gpus();
  ASSERT_TRUE(g.add_link({.a = 0, .b = 1, .kind = LinkKind::shm, .bandwidth = Bandwidth::gigabytes(8), .count = 3}));
  EXPECT_EQ(g.link(0).usable, g.link(0).bandwidth);
  EXPECT_EQ(g.link(0).scope, "shm");
  EXPECT_DOUBLE_EQ(g.link(0).total().gigabytes(), 24);
  EXPECT_EQ(g.other_end(0, 0), 1);
  EXPECT_EQ(g.other_end(0, 1), 0);
}

TEST(Graph, PlacesRanksOnGpusThenCoresThenDomains) {
  Graph g;
  ASSERT_TRUE(g.add_device({.id = "cpu0", .kind = DeviceKind::cpu}));
  EXPECT_EQ(g.compute_devices(), std::vector<int>{0});
  ASSERT_TRUE(g.add_device({.id = "core0", .kind = DeviceKind::core}));
  EXPECT_EQ(g.compute_devices(), std::vector<int>{1});
  ASSERT_TRUE(g.add_device({.id = "gpu0", .kind = DeviceKind::gpu}));
  EXPECT_EQ(g.compute_devices(), std::vector<int>{2});
  g.rank_kind = DeviceKind::core;
  EXPECT_EQ(g.compute_devices(), std::vector<int>{1});
}

TEST(Graph, RanksFillNodeAfterNodeWhateverTheOrderOfDevices) {
  Graph g;
  ASSERT_TRUE(g.add_device({.id = "b", .kind = DeviceKind::gpu, .node = 1}));
  ASSERT_TRUE(g.add_device({.id = "a", .kind = DeviceKind::gpu, .node = 0}));
  EXPECT_EQ(g.compute_devices(), (std::vector<int>{1, 0}));
}

TEST(Graph, KindsHaveNamesThatReadBack) {
  for (int k = 0; k < 10; ++k) {
    EXPECT_EQ(device_kind_of(name_of(static_cast<DeviceKind>(k))), static_cast<DeviceKind>(k));
    EXPECT_EQ(link_kind_of(name_of(static_cast<LinkKind>(k))), static_cast<LinkKind>(k));
  }
  EXPECT_FALSE(device_kind_of("tpu"));
  EXPECT_FALSE(link_kind_of(""));
}

}  // namespace
}  // namespace peal::topology
