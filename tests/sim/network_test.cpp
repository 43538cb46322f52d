// Networks against closed forms and against their sources: hashes, adaptive routing, rails, staging through host memory, TCP's cores,
// what packets add.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sim/framing.hpp>
#include <sim/link.hpp>
#include <sim/simulate.hpp>
#include <sim/solver.hpp>
#include <topology/library_constants.hpp>
#include <topology/machine.hpp>

#include "half_to_half.hpp"

namespace peal::sim {
namespace {

using topology::LinkKind;

/// Nodes with one GPU and one NIC, or two of each behind one PCIe switch with one way up.
topology::Cluster nodes_of(int gpus, const std::string& port, int nodes, const std::string& fabric) {
  std::string text = fmt::format(
      "nodes: {}\n"
      "devices:\n"
      "  - {{id: \"gpu[0-{}]\", kind: gpu}}\n"
      "  - {{id: cpu0, kind: cpu}}\n"
      "  - {{id: sw0, kind: pcie_switch}}\n"
      "  - {{id: \"nic[0-{}]\", kind: nic, rail: 0, port: {{of: {}}}}}\n"
      "links:\n"
      "  - {{a: \"gpu[0-{}]\", b: sw0, of: pcie-5-x16}}\n"
      "  - {{a: \"nic[0-{}]\", b: sw0, of: pcie-5-x16}}\n"
      "  - {{a: sw0, b: cpu0, kind: pcie, GBps: 48}}\n"
      "fabric: {}\n",
      nodes, gpus - 1, gpus - 1, port, gpus - 1, gpus - 1, fabric);
  auto cluster = topology::read_cluster_text(text, "nodes.yaml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return *std::move(cluster);
}

/// The rates of half_to_half, as shares of a NIC.
std::vector<double> shares_of(const topology::Cluster& cluster) {
  std::vector<double> shares = half_to_half(cluster);
  for (double& share : shares) share /= 48;
  return shares;
}

std::string leaves_of_four(int seed, bool is_adaptive) {
  return fmt::format("{{kind: fat-tree, levels: 2, radix: 8, spine_radix: 2, link_GBps: 50, seed: {}, adaptive: {}}}", seed, is_adaptive);
}

// Four flows choose among four ways up, each by its hash. A flow is alone with three others that each avoid its cable with probability 3/4:
// the mean of 1 / (1 + Bin(3, 1/4)) is (1 - (3/4)^4) / (4 x 1/4) = 0.6836.
TEST(Ecmp, FourFlowsOverFourCablesGetWhatChanceLeaves) {
  double sum = 0;
  double all_alone = 0;
  const int seeds = 400;
  for (int seed = 0; seed < seeds; ++seed) {
    const std::vector<double> shares = shares_of(nodes_of(1, "infiniband-ndr-x4", 8, leaves_of_four(seed, false)));
    ASSERT_EQ(shares.size(), 4u);
    double least = 1;
    for (const double share : shares) {
      sum += share / 4;
      least = std::min(least, share);
    }
    all_alone += least > 0.99 ? 1 : 0;
  }
  EXPECT_NEAR(sum / seeds, (1 - std::pow(0.75, 4)) / (4 * 0.25), 0.02);
  EXPECT_NEAR(all_alone / seeds, 24.0 / 256, 0.04);  // 4! / 4^4
}

TEST(Ecmp, AdaptiveRoutingGivesEveryFlowItsNic) {
  for (int seed = 0; seed < 8; ++seed)
    for (const double share : shares_of(nodes_of(1, "infiniband-ndr-x4", 8, leaves_of_four(seed, true)))) EXPECT_NEAR(share, 1, 1e-9);
}

// Rail r of every node hangs on the same leaf: same rails never leave it, so nothing there can collide.
TEST(Rails, FlowsOfOneRailStayUnderOneLeaf) {
  const topology::Cluster cluster = nodes_of(2, "infiniband-ndr-x4", 4, "{kind: rail-optimised, levels: 2, radix: 8, unit: 4}");
  for (const double share : shares_of(cluster)) EXPECT_NEAR(share, 1, 1e-9);
}

Result<double> goodput(topology::Cluster cluster, Collective collective, std::uint64_t bytes, bool is_staged = false, bool folds = true) {
  PEAL_ASSIGN(const Scene scene, make_scene(std::move(cluster), 0));
  tuning::Question question;
  question.call.collective = collective;
  question.call.bytes = {bytes};
  question.call.peer = 1;
  InterpretOptions options;
  options.is_staged = is_staged;
  options.folds = folds;
  PEAL_ASSIGN(const Study done, study(scene, question, options));
  return done.row.out_of_place->algbw;
}

// Direct, a GPU's own wire of 48 GB/s is the limit: three of four parts pass it. Through host memory what both GPUs send and what both
// get, two parts each, share the switch's one way up of 48.
TEST(Staging, HostMemoryIsReachedByTheWayUp) {
  const std::uint64_t bytes = 256 << 20;
  const auto direct = goodput(nodes_of(2, "infiniband-ndr-x4", 2, "ideal"), Collective::all_to_all, bytes);
  const auto staged = goodput(nodes_of(2, "infiniband-ndr-x4", 2, "ideal"), Collective::all_to_all, bytes, true);
  ASSERT_TRUE(direct && staged) << (direct ? staged : direct).error().message;
  EXPECT_NEAR(*direct, 48 * 4 / 3.0, 0.02 * 64);
  EXPECT_NEAR(*staged, 48 / 2.0, 0.02 * 24);
  const auto whole = goodput(nodes_of(2, "infiniband-ndr-x4", 2, "ideal"), Collective::all_to_all, bytes, true, false);
  ASSERT_TRUE(whole);
  EXPECT_NEAR(*staged, *whole, 1e-9 * *whole);
}

// Cai et al., SIGCOMM 2021: one core receives 42 Gb/s. The streams of a rank share it; an adapter that runs TCP itself fills the wire.
TEST(Tcp, OneCoreLimitsAllStreamsOfARank) {
  const std::uint64_t bytes = 64 << 20;
  const auto one = goodput(nodes_of(1, "ethernet-100", 2, "ideal"), Collective::send_recv, bytes);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_NEAR(*one * 8, 42, 0.05 * 42);
  const auto three = goodput(nodes_of(1, "ethernet-100", 4, "ideal"), Collective::all_to_all, bytes);
  ASSERT_TRUE(three) << three.error().message;
  EXPECT_NEAR(*three * 8 * 3 / 4, 42, 0.05 * 42);
  const auto whole = goodput(nodes_of(1, "ethernet-100", 4, "ideal"), Collective::all_to_all, bytes, false, false);
  EXPECT_NEAR(*three, *whole, 1e-9 * *whole);
  const auto slow = goodput(nodes_of(1, "ethernet-25", 2, "ideal"), Collective::send_recv, bytes);
  EXPECT_NEAR(*slow, 0.94 * 3.125, 0.03 * 3.125);
  const auto iwarp = goodput(nodes_of(1, "iwarp-100", 2, "ideal"), Collective::send_recv, bytes);
  EXPECT_NEAR(*iwarp, 1428.0 / 1538 * 12.5, 0.03 * 12.5);
}

// What the simulator's hosts copy into a socket is what the same core carries.
TEST(Tcp, ConstantsOfHostsAndOfGpusAgree) {
  const auto networks = topology::LibraryConstants::of_networks();
  ASSERT_TRUE(networks) << networks.error().message;
  const auto host = topology::constants_for("tcp", "staged");
  ASSERT_TRUE(host);
  const double core = networks->value(*networks->find("tcp.clock")) / networks->value(*networks->find("tcp.receive"));
  EXPECT_NEAR(host->copy.gigabytes(), core, 0.1 * core);
}

/// The catalogue's frame of that name.
const topology::FrameOverhead& frame(std::string_view name) {
  for (const auto& f : (*topology::link_catalogue())->frames)
    if (f.name == name) return f;
  ADD_FAILURE() << name;
  static const topology::FrameOverhead none;
  return none;
}

TEST(Framing, CountsWhatPacketsAddToAMessageThatDoesNotFillThem) {
  for (const auto& [scope, kind, name] : {std::tuple{"infiniband", LinkKind::infiniband, "infiniband-rc"},
                                          {"infiniband", LinkKind::ethernet, "roce-v2"},
                                          {"tcp", LinkKind::ethernet, "tcp"},
                                          {"iwarp", LinkKind::ethernet, "iwarp"}}) {
    const auto framing = framing_of(scope, kind);
    ASSERT_TRUE(framing) << framing.error().message;
    const auto full = static_cast<int>(framing->payload);
    EXPECT_GT(full, 1000) << name;
    for (const int bytes : {8, 64, 512}) {
      const double share = frame(name).share(bytes) / frame(name).share(full);
      EXPECT_NEAR(bytes / framing->counted(bytes), share, 1e-9) << name << " " << bytes;
    }
    EXPECT_DOUBLE_EQ(framing->counted(7.0 * full), 7.0 * full);
    EXPECT_NEAR(framing->counted(1e9), 1e9, 2.0 * full);
  }
  EXPECT_DOUBLE_EQ(framing_of("shm", LinkKind::shm)->counted(8), 8);
}

// The flows' efficiency by size is that of `peal sim link`, packet by packet.
TEST(Framing, IsWhatTheLinksSimulationFinds) {
  for (const auto& [scope, link] : {std::pair{"nvlink-a100", "nvlink-3"}, {"nvlink-h100", "nvlink-4"}, {"nvlink-b200", "nvlink-5"}}) {
    const auto framing = framing_of(scope, LinkKind::nvlink);
    const auto model = link_model(link);
    ASSERT_TRUE(framing && model);
    LinkQuestion question;
    question.operations = 4000;
    question.payload = static_cast<int>(framing->payload);
    const auto full = simulate_link(*model, question);
    ASSERT_TRUE(full) << full.error().message;
    for (const int payload : {16, 48, 128, 256, 384, 1024}) {
      question.payload = payload;
      const auto part = simulate_link(*model, question);
      ASSERT_TRUE(part) << part.error().message;
      const double share = part->goodput / full->goodput;
      EXPECT_NEAR(payload / framing->counted(payload), share, 0.02 * share) << link << " " << payload;
      EXPECT_NEAR(link_share(*model, question) / full->share, share, 0.02 * share) << link << " " << payload;
    }
  }
}

// What software gets of a port is no more than its packets leave, and what the constants of TCP and iWARP say is what theirs leave.
TEST(Framing, BoundsTheRatesInUse) {
  const auto catalogue = topology::link_catalogue();
  ASSERT_TRUE(catalogue);
  int looked_at = 0;
  for (const auto& link : (*catalogue)->links) {
    if (!topology::is_network(link.kind) || link.usable_source.empty()) continue;
    const auto& f = frame(link.kind == LinkKind::infiniband ? "infiniband-rc" : "roce-v2");
    EXPECT_LE(link.usable.value, link.bandwidth.value * f.share(4096)) << link.name;
    ++looked_at;
  }
  EXPECT_GT(looked_at, 5);
  EXPECT_NEAR(topology::constants_for("tcp", "staged")->efficiency, frame("tcp").share(1448), 0.005);
  EXPECT_NEAR(topology::constants_for("iwarp", "staged")->efficiency, frame("iwarp").share(1428), 0.005);
}

/// What is said of a cluster file, or of a scene on it.
std::string refusal_of(const std::string& text, int ranks = 0) {
  auto cluster = topology::read_cluster_text(text, "bad.yaml");
  if (!cluster) return cluster.error().message;
  const auto scene = make_scene(*std::move(cluster), ranks);
  return scene ? "nothing" : scene.error().message;
}

TEST(BadCluster, GetsOneSentence) {
  const std::string gpus = "devices:\n  - {id: \"gpu[0-3]\", kind: gpu}\n";
  const std::string node = "nodes: 2\ndevices:\n  - {id: gpu0, kind: gpu}\n";
  const std::string nic = "  - {id: nic0, kind: nic, rail: 0, port: {kind: ethernet, GBps: 12.5}}\n";
  const std::string wire = "links:\n  - {a: gpu0, b: nic0, kind: pcie, GBps: 16}\n";
  const struct {
    std::string text;
    int ranks;
    std::string says;
  } cases[] = {
      {gpus + "links:\n  - {a: gpu0, b: gpu1, kind: nvlink, GBps: 20}\n  - {a: gpu2, b: gpu3, kind: nvlink, GBps: 20}\n", 0,
       "ranks 0 (gpu0) and 2 (gpu2) have no way to each other"},
      {node, 0, "the machine has no NIC for it: give one a `port:` and a `rail:`"},
      {node + nic, 0, "ranks 0 (n0/gpu0) and 1 (n1/gpu0) have no way to each other"},
      {gpus + "links:\n  - {a: gpu0, b: gpu1, kind: nvlink, GBps: 0}\n", 0, "bad.yaml:4: 'GBps' is '0'"},
      {gpus + "links:\n  - {a: gpu0, b: gpu1, kind: nvlink, GBps: 20, usable_GBps: 0}\n", 0, "bad.yaml:4: 'usable_GBps' is '0'"},
      {node + "  - {id: nic0, kind: nic, rail: 0, port: {kind: ethernet, GBps: 0}}\n", 0, "bad.yaml:4: 'GBps' is '0'"},
      {node + nic + wire + "fabric: {kind: fat-tree, radix: 8, link_GBps: 0}\n", 0, "bad.yaml:7: 'link_GBps' is '0'"},
      {gpus + "links:\n  - {a: gpu0, b: gpu0, kind: nvlink, GBps: 20}\n", 0, "joins 'gpu0' to itself: name two devices"},
      {gpus + "links:\n  - {a: \"gpu[0-3]\", b: \"gpu[0-3]\", kind: nvlink, GBps: 20, join: mesh}\n", 5,
       "5 ranks, but the cluster has 4 GPUs: type --ranks 4 or more --nodes"},
      {node + nic + wire + "fabric: {kind: fat-tree, levels: 1, radix: 1}\n", 0, "ports"},
  };
  for (const auto& bad : cases) {
    const std::string said = refusal_of(bad.text, bad.ranks);
    EXPECT_NE(said.find(bad.says), std::string::npos) << bad.text << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace peal::sim
