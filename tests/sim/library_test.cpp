// What NCCL would do: known limits of machines, what cannot be done there, and a fit that finds the constants that made its data.
#include <gtest/gtest.h>

#include <sim/fit.hpp>
#include <sim/library.hpp>
#include <topology/machine.hpp>

namespace peal::sim {
namespace {

Result<LibraryModel> model(const char* machine, int nodes, LibraryOptions options = {}, int per_node = 0, const char* fabric = "") {
  PEAL_ASSIGN(const topology::Cluster cluster, topology::build_cluster(machine, nodes, fabric));
  std::vector<int> devices;
  const int each = cluster.ranks() / nodes;
  for (int r = 0; r < cluster.ranks(); ++r)
    if (per_node == 0 || r % each < per_node) devices.push_back(cluster.device_of_rank(r));
  options.whose = library_of(cluster, devices[0]);
  return LibraryModel::make(cluster, std::move(devices), std::move(options));
}

LibraryAnswer answer(const Result<LibraryModel>& made, Collective collective, std::uint64_t bytes) {
  EXPECT_TRUE(made) << made.error().message;
  auto result = made->predict({collective, Bytes{bytes}});
  EXPECT_TRUE(result) << result.error().message;
  return *std::move(result);
}

/// GB/s as nccl-tests has it for all_reduce.
double bus_bandwidth(const LibraryAnswer& a, std::uint64_t bytes, int ranks) {
  return static_cast<double>(bytes) / a.time.value * 2 * (ranks - 1) / ranks;
}

constexpr std::uint64_t kGiB = 1ULL << 30;

TEST(Library, SwitchesThatReduceBeatRingsOnEightH100) {
  const LibraryAnswer nvls = answer(model("dgx-h100", 1), Collective::all_reduce, 16 * kGiB);
  EXPECT_EQ(nvls.algorithm, "NVLS");
  EXPECT_NEAR(bus_bandwidth(nvls, 16 * kGiB, 8), 480, 480 * 0.05);
  const LibraryAnswer ring = answer(model("dgx-h100", 1, {.is_nvls_off = true}), Collective::all_reduce, kGiB);
  EXPECT_EQ(ring.algorithm, "Ring");
  EXPECT_EQ(ring.protocol, "Simple");
  EXPECT_NEAR(bus_bandwidth(ring, kGiB, 8), 368, 368 * 0.07);
}

TEST(Library, SmallCallsGoByLowLatencyAndNeverTakeLonger) {
  const auto made = model("dgx-a100", 2);
  EXPECT_EQ(answer(made, Collective::all_reduce, 8).protocol, "LL");
  double before = 0;
  for (std::uint64_t bytes = 8; bytes <= kGiB; bytes *= 8) {
    const double now = answer(made, Collective::all_reduce, bytes).time.value;
    EXPECT_GT(now, before) << bytes;
    before = now;
  }
}

TEST(Library, AFullMeshOfEightGivesFourGpusThreeOfSevenLinks) {
  const double four = answer(model("mi300x-8", 1, {}, 4), Collective::all_to_all, kGiB).time.value;
  const double eight = answer(model("mi300x-8", 1), Collective::all_to_all, kGiB).time.value;
  // Of its bytes a GPU of four keeps a quarter and sends the rest by three links, one of eight keeps an eighth and sends by seven.
  EXPECT_NEAR(four / eight, (3.0 / 4 / 3) / (7.0 / 8 / 7), 0.05);
  const double on_switch = answer(model("dgx-h100", 1, {}, 4), Collective::all_to_all, kGiB).time.value;
  EXPECT_NEAR(on_switch / answer(model("dgx-h100", 1), Collective::all_to_all, kGiB).time.value, (3.0 / 4) / (7.0 / 8), 0.05);
}

TEST(Library, OneProcessPaysForEveryLaunchWhileItsGpusAreAtTheCallBefore) {
  const auto time = [](std::uint64_t bytes, bool is_one) {
    return answer(model("dgx-a100", 1, {.one_process = is_one}), Collective::all_reduce, bytes).time.microseconds();
  };
  EXPECT_GT(time(8, true), time(8, false) + 5);
  EXPECT_EQ(time(kGiB, true), time(kGiB, false));
}

// A channel fetched its work from host memory until NCCL 2.21; a call takes the more channels the longer it is.
TEST(Library, ChannelsOfOldVersionsFetchTheirWork) {
  const auto more = [](std::uint64_t bytes, const char* machine = "dgx-a100") {
    const auto time = [&](const char* version) {
      return answer(model(machine, 1, {.protocol = "LL", .version = version}), Collective::all_gather, bytes).time.microseconds();
    };
    return time("2.21.5") - time("2.22.3");
  };
  EXPECT_GT(more(8), 0.1);
  EXPECT_NEAR(more(8 * 32768), 8 * more(8), 1e-6) << "eight ranks, 512 threads a channel and 8 bytes a thread";
  EXPECT_NEAR(more(100 * 32768), 24 * more(8), 1e-6) << "two channels a wire";
  EXPECT_NEAR(more(100 * 32768, "hgx-a800"), 16 * more(8), 1e-6);
  // Between nodes it is not seen.
  EXPECT_EQ(answer(model("dgx-a100", 2, {.version = "2.21.5"}), Collective::all_gather, 65536).time.value,
            answer(model("dgx-a100", 2, {.version = "2.22.3"}), Collective::all_gather, 65536).time.value);
}

// Of a pair of ranks: four channels among eight GPUs up to 16 MiB in each, twice as many beyond; between nodes the fewer, the more ranks.
TEST(Library, PairsHaveFewChannelsWhereThereAreManyRanks) {
  const auto time = [](std::uint64_t bytes, int nodes, int ranks = 0, const char* version = "2.29") {
    return answer(model("dgx-h100", nodes, {.version = version}, ranks), Collective::send_recv, bytes).time.value;
  };
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_NEAR(time(64 * kMiB, 1) / time(32 * kMiB, 1), 2, 0.1);
  EXPECT_NEAR(time(128 * kMiB, 1) / time(64 * kMiB, 1), 1, 0.01) << "eight channels with 16 MiB each";
  EXPECT_GT(time(64 * kMiB, 1) / time(64 * kMiB, 1, 2), 3) << "16 channels between two GPUs";
  EXPECT_NEAR(time(kGiB, 4), time(kGiB, 2), 1e-6) << "32 ranks have four channels a pair, as 16";
  EXPECT_GT(time(kGiB, 8) / time(kGiB, 4), 1.5);
  EXPECT_NEAR(time(kGiB, 16) / time(kGiB, 8), 2, 0.01);
  EXPECT_NEAR(time(kGiB, 64), time(kGiB, 16), 1e-6);
  EXPECT_NEAR(time(kGiB, 16, 0, "2.28"), time(kGiB, 4), 1e-6);
}

TEST(Library, TwoGpusOfANodeHaveNvlsSince228) {
  const auto algorithm = [](const char* version, int ranks) {
    return answer(model("dgx-h100", 1, {.version = version}, ranks), Collective::all_reduce, kGiB).algorithm;
  };
  EXPECT_EQ(algorithm("2.27.3", 2), "Ring");
  EXPECT_EQ(algorithm("2.27.3", 4), "NVLS");
  EXPECT_EQ(algorithm("2.28.3", 4), "NVLS");
}

TEST(Library, APublishedRunWithoutAVersionIsOfItsGpusTime) {
  const auto time = [](LibraryOptions options) {
    return answer(model("dgx-a100", 1, std::move(options)), Collective::all_reduce, 1 << 20).time.value;
  };
  EXPECT_EQ(time({.was_published = true}), time({.version = "2.18"}));
  EXPECT_EQ(time({.version = "2.22", .was_published = true}), time({.version = "2.22"}));
  EXPECT_EQ(time({}), time({.version = "2.30"}));
}

TEST(Library, AHostHandsOverEveryPairUnlessAllToAllIsOneCall) {
  const auto time = [](LibraryOptions options, const char* machine = "dgx-h100") {
    return answer(model(machine, 1, std::move(options)), Collective::all_to_all, 8).time.microseconds();
  };
  const double peers = time({.version = "2.27.3"}) - time({.version = "2.28.3"});
  EXPECT_GT(peers, 1);
  // One process hands over the pairs of all eight GPUs.
  const double more = time({.one_process = true, .version = "2.27.3"}) - time({.one_process = true, .version = "2.28.3"});
  EXPECT_NEAR(more, 55.0 / 6 * peers, 1e-6) << "7 pairs in place of one, 56 in place of one";
  EXPECT_NEAR(time({}, "mi300x-8"), time({.version = "2.20"}, "mi300x-8"), 1e-9) << "RCCL has one call for it";
}

TEST(Library, CallsToARootFollowEachOtherDownTheChain) {
  const double two = answer(model("dgx-a100", 2), Collective::broadcast, 8).time.microseconds();
  const double many = answer(model("dgx-a100", 16), Collective::broadcast, 8).time.microseconds();
  EXPECT_LT(many, 3 * two) << "a row of calls is timed, of which each rank begins the next as soon as it has passed the last on";
  EXPECT_LT(answer(model("dgx-a100", 16, {.calls = 100}), Collective::broadcast, 8).time.microseconds(), many);
  EXPECT_GT(answer(model("dgx-a100", 16), Collective::all_gather, 8).time.microseconds(), 3 * many) << "needs what every other rank has";
}

TEST(Library, MoreGpusThanSwitchesHaveHeadsForGoByTrees) {
  EXPECT_EQ(answer(model("gb200-nvl72", 2), Collective::all_reduce, kGiB).algorithm, "Tree");
  EXPECT_EQ(answer(model("gb200-nvl72", 2, {}, 32), Collective::all_reduce, kGiB).algorithm, "NVLSTree");
  EXPECT_EQ(answer(model("gb200-nvl72", 1), Collective::all_reduce, kGiB).algorithm, "NVLS");
  EXPECT_EQ(answer(model("gb200-nvl72", 1), Collective::all_gather, kGiB).algorithm, "Ring");
}

TEST(Library, HostsOfAmdLeaveLowLatencyForLinesEarlier) {
  const auto protocol = [](const char* machine, std::uint64_t bytes) {
    return answer(model(machine, 2), Collective::all_gather, bytes).protocol;
  };
  EXPECT_EQ(protocol("dgx-h100", 512 << 10), "LL");
  EXPECT_EQ(protocol("azure-nd-a100-v4", 512 << 10), "LL128");
}

TEST(Library, NetworksWhosePluginsForbidProtocolsDoNotTakeThem) {
  // Before NCCL 2.5 nothing could switch a protocol off.
  EXPECT_EQ(answer(model("aws-p4de", 2), Collective::all_reduce, 8).protocol, "Simple");
  EXPECT_NE(answer(model("aws-p4de", 2, {.version = "2.4.8"}), Collective::all_reduce, 8).protocol, "Simple");
  EXPECT_EQ(answer(model("aws-p4de", 2, {.version = "2.10"}), Collective::all_reduce, 8).protocol, "Simple");
  EXPECT_NE(answer(model("aws-p4de", 1), Collective::all_reduce, 8).protocol, "Simple");
  EXPECT_NE(answer(model("aws-p5", 2), Collective::all_reduce, 8).protocol, "Simple");
  EXPECT_EQ(answer(model("aws-p5", 2), Collective::all_reduce, kGiB).algorithm, "NVLSTree");
  const auto forced = model("aws-p4de", 2, {.protocol = "LL"});
  ASSERT_FALSE(forced);
  EXPECT_NE(forced.error().message.find("LL is switched off over efa-1"), std::string::npos) << forced.error().message;
}

TEST(Library, WhatNicsCannotBringToAGpuGoesThroughHostMemory) {
  const auto rests_on = [](const LibraryAnswer& a, std::string_view constant) {
    return std::count(a.constants.begin(), a.constants.end(), constant) > 0;
  };
  const auto large = [](const char* machine, LibraryOptions options, int per_node) {
    return answer(model(machine, 2, std::move(options), per_node), Collective::all_gather, 16 * kGiB);
  };
  // One PCIe 5 port with both directions on it is narrower than the NIC; eight of them share the work.
  const LibraryAnswer direct = large("dgx-h100", {}, 1);
  const LibraryAnswer staged = large("dgx-h100", {.is_gdr_off = true}, 1);
  EXPECT_TRUE(rests_on(direct, "net.share.infiniband"));
  EXPECT_TRUE(rests_on(staged, "share.ring.pcie-host"));
  const double rate = 8 * kGiB / staged.time.value;
  EXPECT_GT(rate, 25) << "p2pBandwidthLatencyTest through hosts on PCIe 5: 43 GB/s of both directions together, 29 of PCIe 4";
  EXPECT_LT(rate, 36);
  EXPECT_GT(staged.time.value / direct.time.value, 1.3);
  // The first EFA reaches GPUs only where the machine has switches for it; sockets never do; Slingshot crosses host bridges.
  EXPECT_TRUE(rests_on(large("aws-p4de", {}, 8), "net.share.efa-1"));
  EXPECT_TRUE(rests_on(large("aws-p3dn", {}, 8), "net.share.host"));
  EXPECT_TRUE(rests_on(large("perlmutter", {}, 4), "net.share.slingshot.bridge"));
  EXPECT_TRUE(rests_on(large("dgx-a100", {.network = "tcp"}, 1), "net.copy.tcp"));
  // What one process copies is no limit of a node with many.
  EXPECT_GT(large("aws-g4dn", {.network = "tcp"}, 1).time.value, 1.5 * large("aws-g4dn", {.network = "tcp"}, 8).time.value);
}

TEST(Library, OnlyPiecesOfSimpleWaitForTheNetwork) {
  const auto way = [](const char* protocol) {
    return model("dgx-a100", 2, {.algorithm = "Tree", .protocol = protocol})->way({Collective::all_reduce, Bytes{kGiB}});
  };
  auto constants = topology::LibraryConstants::from_data();
  ASSERT_TRUE(constants);
  constants->at(*constants->find("net.ramp")).values[0] *= 4;
  const auto known = topology::LibraryConstants::from_data();
  EXPECT_GT(time_of(*way("Simple"), *constants).value, time_of(*way("Simple"), *known).value);
  EXPECT_EQ(time_of(*way("LL128"), *constants).value, time_of(*way("LL128"), *known).value);
}

TEST(Library, LinesOf128BytesNeedNicsThatKeepThemWhole) {
  const auto protocol = [](const char* machine, const char* version) {
    return answer(model(machine, 16, {.algorithm = "Tree", .version = version}), Collective::all_reduce, 2 << 20).protocol;
  };
  EXPECT_EQ(protocol("dgx-h100", "2.23.4"), "LL128");
  EXPECT_EQ(protocol("perlmutter", "2.30"), "Simple") << "A100 and NIC meet in a host bridge";
  EXPECT_EQ(protocol("cscs-gh200", "2.23.4"), "Simple") << "the NICs are at the processors";
  EXPECT_EQ(protocol("cscs-gh200", "2.27.3"), "LL128");
}

TEST(Library, AHopBetweenNodesHasAllOfAChannelsPieceBeforeItGoesOn) {
  const auto time = [](const char* protocol, std::uint64_t bytes) {
    return answer(model("dgx-a100", 32, {.algorithm = "Tree", .protocol = protocol}), Collective::all_reduce, bytes).time.value;
  };
  // 16 channels share 16 to 64 KiB in parts of 4 KiB, and have 16 KiB each of 256.
  EXPECT_LT(time("LL", 64 << 10), 1.1 * time("LL", 16 << 10));
  EXPECT_GT(time("LL", 256 << 10), 1.4 * time("LL", 64 << 10));
  // 512 KiB of 16 channels are a piece with Simple: up to 8 MiB ten hops grow, beyond only what the wires carry.
  EXPECT_GT(time("Simple", 8 << 20) - time("Simple", 1 << 20), 2 * (time("Simple", 24 << 20) - time("Simple", 17 << 20)));
}

TEST(Library, ItPlansWithAChannelForEachNic) {
  // Four NICs of 25 GB/s: a tree of two A100 nodes is planned with 4 x 23.6 GB/s, a ring with 4 x 25, which is what Perlmutter took.
  const auto chosen = [](const char* machine) { return answer(model(machine, 2), Collective::all_reduce, kGiB); };
  EXPECT_EQ(chosen("perlmutter").algorithm, "Ring");
  EXPECT_EQ(chosen("cscs-gh200").algorithm, "Tree");
  EXPECT_EQ(chosen("dgx-h100").algorithm, "NVLSTree");
}

TEST(Library, NicsAcrossAHostBridgeGiveLess) {
  const auto share = [](const char* machine) {
    const LibraryAnswer a = answer(model(machine, 8), Collective::all_gather, 16 * kGiB);
    const auto net = std::find_if(a.constants.begin(), a.constants.end(), [](const std::string& c) { return c.starts_with("net.share."); });
    return net == a.constants.end() ? std::string() : *net;
  };
  EXPECT_EQ(share("perlmutter"), "net.share.slingshot.bridge");
  EXPECT_EQ(share("cscs-gh200"), "net.share.slingshot");
  EXPECT_EQ(share("dgx-a100"), "net.share.infiniband");
}

TEST(Library, AFewBytesAreSeenSooner) {
  const auto time = [](std::uint64_t bytes) { return answer(model("dgx-h100", 1), Collective::all_reduce, bytes).time.value; };
  EXPECT_NEAR(time(8) / time(16), 1, 0.001) << "a sector of lines carries 16 bytes";
  EXPECT_LT(time(16), 0.9 * time(512)) << "12.9 and 16.2 us where a rank has a process";
  EXPECT_NEAR(time(512) / time(2048), 1, 0.02);
}

TEST(Library, AllToAllInANodePaysForPieces) {
  // 84 us at the rate that 16 GiB reach, measured 125 (32 MiB on eight H100).
  const auto rate = [](std::uint64_t bytes) {
    return static_cast<double>(bytes) / answer(model("dgx-h100", 1), Collective::all_to_all, bytes).time.value;
  };
  EXPECT_LT(rate(32 << 20), 0.85 * rate(16 * kGiB));
}

TEST(Library, ManyNodesOfOneGpuGatherInTrees) {
  const auto one_each = model("dgx-h100", 64, {}, 1);
  EXPECT_EQ(answer(one_each, Collective::all_gather, 256 << 10).algorithm, "PAT");
  EXPECT_EQ(answer(one_each, Collective::all_gather, 16 * kGiB).algorithm, "Ring");
  EXPECT_NE(answer(one_each, Collective::all_reduce, 256 << 10).algorithm, "PAT");
  EXPECT_EQ(answer(model("dgx-h100", 64, {.version = "2.22.3"}, 1), Collective::all_gather, 256 << 10).algorithm, "Ring");
  EXPECT_NE(answer(model("dgx-h100", 8), Collective::all_gather, 256 << 10).algorithm, "PAT");
  const double ring = answer(model("dgx-h100", 512, {.algorithm = "Ring"}, 1), Collective::all_gather, 256 << 10).time.value;
  EXPECT_LT(answer(model("dgx-h100", 512, {}, 1), Collective::all_gather, 256 << 10).time.value, ring);
}

TEST(Library, SwitchesThatSumCarryEveryByteOnceHoweverManyNodes) {
  const auto time_on = [](const char* machine, const char* algorithm, int nodes) {
    const auto made = model(machine, nodes, {.algorithm = algorithm}, 0, "rail-optimised,switch=quantum-2,sharp=true");
    const LibraryAnswer a = answer(made, Collective::all_reduce, 16 * kGiB);
    EXPECT_EQ(a.algorithm, algorithm);
    return a.time.value;
  };
  const auto time = [&](const char* algorithm, int nodes) { return time_on("dgx-h100", algorithm, nodes); };
  // Where the NICs are what is narrow, whose bytes a tree sends twice.
  EXPECT_GT(time_on("dgx-a100", "Tree", 16), 1.2 * time_on("dgx-a100", "CollNetDirect", 16));
  EXPECT_GT(time("Tree", 16), time("CollNetDirect", 16));
  EXPECT_NEAR(time("CollNetDirect", 16) / time("CollNetDirect", 2), 1, 0.02);
  EXPECT_LT(time("CollNetDirect", 16), time("CollNetChain", 16));
  // NVSwitches sum inside and InfiniBand's between: no more than the tree of nodes with two, half of its bytes with more.
  EXPECT_NEAR(time("NVLS", 2) / time("NVLSTree", 2), 1, 0.02);
  EXPECT_GT(time("NVLSTree", 16), 1.2 * time("NVLS", 16));
  EXPECT_NEAR(time("NVLS", 16) / time("NVLS", 2), 1, 0.02);
  const auto made = model("dgx-h100", 4, {}, 0, "rail-optimised,switch=quantum-2,sharp=true");
  EXPECT_NE(answer(made, Collective::all_reduce, kGiB).algorithm, "CollNetDirect");  // NCCL takes it when it is told to
}

TEST(Hccl, AMeshTakesShortCallsToAllAtOnceAndLongOnesInTwoSteps) {
  const auto made = model("atlas-800-a2", 1);
  const LibraryAnswer short_call = answer(made, Collective::all_reduce, 256 << 10);
  const LibraryAnswer long_call = answer(made, Collective::all_reduce, (256 << 10) + 4);
  EXPECT_EQ(short_call.algorithm, "Mesh one-shot");
  EXPECT_EQ(long_call.algorithm, "Mesh");
  EXPECT_EQ(long_call.protocol, "SDMA");
  EXPECT_EQ(long_call.channels, 0);
  // Seven times all bytes by a rank's seven links in one step; then twice an eighth for each of the others in two.
  const double wires = 0.9 * 7 * 28;  // GB/s
  EXPECT_NEAR(short_call.time.value, 9e3 + 2.6e3 + 7 * (256 << 10) / wires, 1);
  EXPECT_NEAR(long_call.time.value, 9e3 + 2 * 2.6e3 + 2 * 7.0 / 8 * ((256 << 10) + 4) / wires, 1);
  EXPECT_EQ(answer(made, Collective::all_to_all, kGiB).algorithm, "Mesh");
  EXPECT_NEAR(answer(made, Collective::all_gather, kGiB).time.value, 9e3 + 2.6e3 + 7.0 / 8 * kGiB / wires, 10);
  EXPECT_FALSE(made->predict({Collective::gather, Bytes{8}}));
}

TEST(Hccl, ServersGoByTheStepsThatItsCostsCount) {
  const auto way = [](int nodes, Collective collective, std::uint64_t bytes) {
    return answer(model("atlas-800-a2", nodes), collective, bytes).algorithm;
  };
  EXPECT_EQ(way(2, Collective::all_reduce, 1 << 20), "Mesh+Ring");
  EXPECT_EQ(way(3, Collective::all_reduce, 1 << 20), "Mesh+Ring");  // two steps as well, and the first of equals
  EXPECT_EQ(way(4, Collective::all_reduce, 1 << 20), "Mesh+NHR");
  EXPECT_EQ(way(4, Collective::all_reduce, 32 << 20), "Mesh+Pipeline");  // a MiB a rank
  EXPECT_EQ(way(4, Collective::all_gather, 31 << 15), "Mesh+NHR");
  EXPECT_EQ(way(4, Collective::all_gather, 32 << 15), "Mesh+Pipeline");  // 32 KiB a rank
  EXPECT_EQ(way(4, Collective::broadcast, 1 << 20), "Mesh+H-D_R");
  EXPECT_EQ(way(6, Collective::broadcast, 1 << 20), "Mesh+Ring");
  EXPECT_EQ(way(9, Collective::broadcast, 1 << 20), "Mesh+H-D_R");
  EXPECT_EQ(way(4, Collective::all_to_all, 1 << 20), "Mesh+Pairwise");
  EXPECT_EQ(way(4, Collective::send_recv, 1 << 20), "Direct");
  EXPECT_EQ(answer(model("atlas-800-a2", 4, {}, 1), Collective::all_reduce, kGiB).algorithm, "NHR");
  EXPECT_EQ(answer(model("atlas-900-pod", 4), Collective::all_reduce, kGiB).algorithm, "Ring+H-D_R");
  EXPECT_EQ(answer(model("atlas-900-pod", 3), Collective::all_reduce, kGiB).algorithm, "Ring+Ring");
}

TEST(Hccl, WhatServersShareIsCarriedByTheirOwnNics) {
  // Of 8 GiB each of eight NICs of 25 GB/s carries an eighth, three quarters of it in and out again; a pipeline hides that behind the mesh
  // but for one part of four.
  const LibraryAnswer pipeline = answer(model("atlas-800-a2", 4), Collective::all_reduce, 8 * kGiB);
  const LibraryAnswer in_turn = answer(model("atlas-800-a2", 4, {.algorithm = "nhr"}), Collective::all_reduce, 8 * kGiB);
  const double mesh = 2 * 7.0 / 8 * 8 * kGiB / (0.9 * 7 * 28);
  const double network = in_turn.time.value - mesh;
  EXPECT_GT(network, 2 * 3.0 / 4 * kGiB / 25);
  EXPECT_LT(network, 2 * 3.0 / 4 * kGiB / (0.8 * 25));
  EXPECT_NEAR(in_turn.time.value - pipeline.time.value, network * 3 / 4, 0.01 * network);
  // A root's NIC carries all that leaves its server.
  EXPECT_GT(answer(model("atlas-800-a2", 4), Collective::scatter, kGiB).time.value, 3.0 / 4 * kGiB / 25);
  // Beyond a power of two servers hand their bytes to others.
  const double six = answer(model("atlas-800-a2", 6, {.algorithm = "H-D_R"}), Collective::all_reduce, kGiB).time.value;
  EXPECT_GT(six, 1.5 * answer(model("atlas-800-a2", 6, {.algorithm = "NHR"}), Collective::all_reduce, kGiB).time.value);
}

TEST(Hccl, WhatItCannotDoIsSaid) {
  const auto says = [](const Result<LibraryModel>& made, const char* what) {
    ASSERT_FALSE(made) << what;
    EXPECT_NE(made.error().message.find(what), std::string::npos) << made.error().message;
  };
  says(model("atlas-800-a2", 2, {.algorithm = "Tree"}), "Tree of HCCL is not modelled: Ring, H-D_R");
  says(model("atlas-800-a2", 1, {.algorithm = "Ring"}), "leave --algorithm out");
  says(model("atlas-800-a2", 2, {.algorithm = "Pipeline"}, 1), "several Ascend 910B");
  says(model("atlas-800-a2", 2, {.protocol = "LL"}), "leave --protocol out");
  const auto ring = model("atlas-800-a2", 2, {.algorithm = "NHR"})->predict({Collective::reduce, Bytes{8}});
  ASSERT_FALSE(ring);
  EXPECT_NE(ring.error().message.find("NHR cannot do reduce"), std::string::npos) << ring.error().message;
  const topology::Cluster nvidia = *topology::build_cluster("dgx-h100", 1, "");
  const auto other = LibraryModel::make(nvidia, {nvidia.device_of_rank(0), nvidia.device_of_rank(1)}, {.whose = Library::hccl});
  says(other, "HCCL does not run on H100-SXM5: type --library nccl");
}

TEST(Library, WhatCannotBeDoneIsSaid) {
  const auto fails_with = [](const Result<LibraryModel>& made, std::string_view words) {
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find(words), std::string::npos) << made.error().message;
  };
  fails_with(model("dgx-a100", 1, {.algorithm = "NVLS"}), "type --algorithm Ring");
  fails_with(model("dgx-h100", 1, {.algorithm = "Star"}), "Ring, Tree, NVLS");
  fails_with(model("dgx-h100", 4, {.algorithm = "CollNetDirect"}), "sharp: true");
  fails_with(model("dgx-h100", 4, {.algorithm = "NVLS"}), "type --algorithm NVLSTree");
  fails_with(model("dgx-h100", 1, {.protocol = "LL64"}), "LL, LL128 or Simple");
  fails_with(model("dgx-h100", 2, {.network = "pigeon"}), "nothing is known of net.share.pigeon");
  const auto tree = model("dgx-a100", 1, {.algorithm = "Tree"});
  ASSERT_TRUE(tree);
  EXPECT_FALSE(tree->predict({Collective::all_gather, Bytes{1024}}));
}

TEST(Library, EveryAnswerSaysWhatItIsWorth) {
  const auto worth = [](const Result<LibraryModel>& made) {
    const LibraryCall call{Collective::all_reduce, Bytes{kGiB}};
    return made->evidence(call, *made->predict(call));
  };
  const std::string node = worth(model("dgx-a100", 1));
  EXPECT_NE(node.find(" %, from "), std::string::npos) << node;
  EXPECT_NE(node.find("inside a node"), std::string::npos) << node;
  EXPECT_EQ(node.find("none of more"), std::string::npos) << node;
  EXPECT_EQ(worth(model("dgx-a100", 8)).find("none of more"), std::string::npos);
  EXPECT_NE(worth(model("polaris", 1000)).find("none of more than 540"), std::string::npos);
  const std::string iwarp = worth(model("dgx-a100", 2, {.network = "iwarp"}));
  EXPECT_NE(iwarp.find("nothing was measured for net.latency.iwarp"), std::string::npos) << iwarp;
}

TEST(Library, ConstantsOfAFileAreReadWithTheirLines) {
  topology::LibraryConstants constants;
  const char* good = "constants:\n  - {name: a.b, values: [1, 2.5], what: \"us\", source: \"here\"}\n";
  ASSERT_TRUE(constants.add_text(good, "one.yaml"));
  const auto twice = constants.add_text(good, "two.yaml");
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("two.yaml:2"), std::string::npos) << twice.error().message;
  for (const char* bad :
       {"constants:\n  - {name: c, values: [], what: w, source: s}\n", "constants:\n  - {name: c, values: [x], what: w, source: s}\n",
        "constants:\n  - {name: c, values: [1, 2], prior: 1, spread: 1, what: w, source: s}\n", "constants:\n  - {name: c}\n"}) {
    const auto refused = topology::LibraryConstants().add_text(bad, "bad.yaml");
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().message.find("bad.yaml:2"), std::string::npos) << refused.error().message;
  }
  EXPECT_NE(constants.find("a.c").error().message.find("a.b"), std::string::npos);
}

TEST(Library, AFitFindsTheConstantsThatMadeItsData) {
  auto truth = topology::LibraryConstants::from_data();
  ASSERT_TRUE(truth);
  const auto set = [&](const char* name, double factor) {
    const auto index = truth->find(name);
    ASSERT_TRUE(index);
    truth->at(*index).values[0] = truth->at(*index).prior * factor;
  };
  set("launch.hopper", 1.2);
  set("hop.NVLS", 0.8);
  set("share.NVLS.hopper", 1.05);
  set("hop.LL.nvlink", 0.7);
  std::vector<FitRow> rows;
  const auto made = model("dgx-h100", 1);
  ASSERT_TRUE(made) << made.error().message;
  for (std::uint64_t bytes = 8; bytes <= 16 * kGiB; bytes *= 4) {
    auto way = made->way({Collective::all_reduce, Bytes{bytes}});
    ASSERT_TRUE(way);
    const double us = time_of(*way, *truth).microseconds();
    rows.push_back({*std::move(way), us, 1, "dgx-h100", "one"});
  }
  const topology::LibraryConstants found = fit_constants(rows, *truth);
  for (const FitRow& row : rows) EXPECT_NEAR(time_of(row.way, found).microseconds() / row.measured_us, 1, 0.02);
  const int nvls = *found.find("share.NVLS.hopper");
  EXPECT_NEAR(found.value(nvls) / truth->value(nvls), 1, 0.01);
  EXPECT_EQ(found.all()[static_cast<std::size_t>(nvls)].machines, std::vector<std::string>{"dgx-h100"});
  const int other = *found.find("launch.volta");
  EXPECT_EQ(found.value(other), found.all()[static_cast<std::size_t>(other)].prior);
}

}  // namespace
}  // namespace peal::sim
