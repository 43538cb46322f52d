// Orders over the switches of a fabric: nodes come in any order, the ring goes switch by switch.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <topology/machine.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_set.hpp>
#include <tuning/wiring.hpp>

namespace peal::tuning {
namespace {

/// Ranks on the GPUs of shuffled nodes, all of a node's one after the other.
std::vector<int> shuffled_devices(const topology::Cluster& cluster) {
  std::vector<int> order(static_cast<std::size_t>(cluster.copies()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  std::vector<int> devices;
  for (const int node : order)
    for (int r = 0; r < cluster.ranks_per_node(); ++r) devices.push_back(cluster.device_of_rank(node * cluster.ranks_per_node() + r));
  return devices;
}

/// How many steps of the ring leave what `part_of` numbers.
template <class F>
int times_left(const std::vector<std::int32_t>& ring, const std::vector<int>& devices, F&& part_of) {
  int times = 0;
  for (std::size_t p = 0; p < ring.size(); ++p) {
    const int from = devices[static_cast<std::size_t>(ring[p])];
    const int to = devices[static_cast<std::size_t>(ring[(p + 1) % ring.size()])];
    times += part_of(from) != part_of(to) ? 1 : 0;
  }
  return times;
}

/// How many steps cross a cable between switches.
int times_between_switches(const std::vector<std::int32_t>& ring, const std::vector<int>& devices, const topology::Resources& resources) {
  const auto nics = static_cast<topology::ResourceId>(static_cast<std::size_t>(resources.cluster().copies()) * resources.per_copy());
  int times = 0;
  topology::Route route;
  for (std::size_t p = 0; p < ring.size(); ++p) {
    resources.route(devices[static_cast<std::size_t>(ring[p])], devices[static_cast<std::size_t>(ring[(p + 1) % ring.size()])],
                    topology::Via::any, route);
    times += std::any_of(route.resources.begin(), route.resources.end(), [&](topology::ResourceId id) { return id >= nics; }) ? 1 : 0;
  }
  return times;
}

TEST(RackOrder, TheRingLeavesEachSwitchOnceHoweverNodesAreShuffled) {
  // Switches of 32 ports: two nodes of eight cards a leaf, four leaves a pod.
  auto cluster =
      topology::read_cluster_text("machine: dgx-a100\nnodes: 32\nfabric: {kind: fat-tree, levels: 3, radix: 32, pod: 4}\n", "racks.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const std::vector<int> devices = shuffled_devices(*cluster);
  const topology::Resources resources(*cluster);
  const schedule::Placement placement = place(resources, devices);
  ASSERT_EQ(placement.ring.size(), devices.size());
  const auto leaf = [&](int device) { return cluster->fabric()->rack_of(cluster->copy_of(device)); };
  std::set<std::uint32_t> leaves;
  for (const int device : devices) leaves.insert(leaf(device));
  EXPECT_EQ(leaves.size(), 16u);
  EXPECT_EQ(times_left(placement.ring, devices, leaf), 16);
  EXPECT_EQ(times_left(placement.ring, devices, [&](int device) { return leaf(device) / 4; }), 4);
  EXPECT_EQ(times_between_switches(placement.ring, devices, resources), 16);
  std::vector<std::int32_t> given(devices.size());
  std::iota(given.begin(), given.end(), 0);
  EXPECT_GT(times_left(given, devices, leaf), 24) << "the order that was given";
}

TEST(RackOrder, RailRingsStayOnTheirRails) {
  auto cluster = topology::read_cluster_text("machine: dgx-a100\nnodes: 8\nfabric: {kind: rail-optimised}\n", "rails.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const std::vector<int> devices = shuffled_devices(*cluster);
  const topology::Resources resources(*cluster);
  const Rings rings = rail_rings(place(resources, devices), 1);
  ASSERT_EQ(rings.size(), 8u);
  for (const auto& ring : rings) EXPECT_EQ(times_between_switches(ring, devices, resources), 0);
}

TEST(RackOrder, NamesOfSwitchesMakeRacksThatFollowEachOther) {
  const auto numbers = [](std::vector<std::string> names) { return number_racks(names); };
  using Numbers = std::vector<std::int32_t>;
  EXPECT_EQ(numbers({"b", "a", "b"}), Numbers({0, 1, 0}));
  EXPECT_EQ(numbers({"x.1", "y.1", "x.2", "y.1", "x.1"}), Numbers({0, 2, 1, 2, 0})) << "under one spine";
  EXPECT_EQ(numbers({"x", "x.1", ""}), Numbers({1, 2, 0})) << "names of different lengths are different racks";
}

TEST(RackOrder, HostsThatComeInTurnFromTwoRacksMakeARingThatLeavesEachOnce) {
  const std::vector<std::string> hosts{"h0", "h0", "h1", "h1", "h2", "h2", "h3", "h3"};
  schedule::Placement placement = place(hosts);
  order_by_racks(std::vector<std::int32_t>{0, 0, 1, 1, 0, 0, 1, 1}, placement);
  EXPECT_EQ(placement.ring, (std::vector<std::int32_t>{0, 1, 4, 5, 2, 3, 6, 7}));
  order_by_racks(std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1}, placement);
  EXPECT_TRUE(placement.ring.empty()) << "in the order of ranks";
  schedule::Placement one_host;
  order_by_racks(std::vector<std::int32_t>{0, 1}, one_host);
  EXPECT_TRUE(one_host.ring.empty());
}

}  // namespace
}  // namespace peal::tuning
