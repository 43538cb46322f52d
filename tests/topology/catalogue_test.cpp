// Every machine of the catalogue against what its maker or owner publishes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <topology/constants.hpp>
#include <topology/describe.hpp>
#include <topology/machine.hpp>
#include <topology/path.hpp>

#include "source_tree.hpp"

namespace peal::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kShared = peal::test::in_source("../shared/data/");

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Graph load(std::string_view name) {
  auto graph = load_machine(name);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

std::vector<std::string> all_names() {
  const auto entries = list_machines();
  EXPECT_TRUE(entries) << entries.error().message;
  std::vector<std::string> names;
  if (entries)
    for (const MachineEntry& e : *entries) names.push_back(e.name);
  return names;
}

/// What is published of a machine: number of ranks and of NICs for collectives, and what one GPU has of links to GPUs, switches and CPUs of
/// its own kind, one direction, by specification (zero: none).
struct Published {
  int gpus = 0;
  int rails = 0;
  LinkKind kind = LinkKind::nvlink;
  double GBps = 0;
  std::string_view source;
};

constexpr std::string_view kNvlink =
    "nvidia.com/en-au/data-center/nvlink: V100 300, A100 600, H100 and H200 900, B200 1,800 GB/s both ways";
constexpr std::string_view kPascal = "NVIDIA Tesla P100 white paper: four links, 160 GB/s both ways";
constexpr std::string_view kBridge = "NVIDIA A100 80GB PCIe product brief: three bridges, 600 GB/s both ways";
constexpr std::string_view kNoLinks = "no link but PCIe";

const std::map<std::string, Published>& published() {
  static const std::map<std::string, Published> table = {
      {"atlas-800-a2", {8, 8, LinkKind::hccs, 196, "seven HCCS links of 4 x 56 Gb/s an NPU, 392 GB/s both ways"}},
      {"atlas-900-pod", {8, 8, LinkKind::hccs, 90, "Ascend 910: three HCCS links of 30 GB/s"}},
      {"aws-g4dn", {8, 1, LinkKind::nvlink, 0, kNoLinks}},
      {"aws-p3dn", {8, 1, LinkKind::nvlink, 150, kNvlink}},
      {"aws-p4d", {8, 4, LinkKind::nvlink, 300, kNvlink}},
      {"aws-p4de", {8, 4, LinkKind::nvlink, 300, kNvlink}},
      {"aws-p5", {8, 32, LinkKind::nvlink, 450, kNvlink}},
      {"aws-p5en", {8, 16, LinkKind::nvlink, 450, kNvlink}},
      {"azure-nc96ads-a100-v4", {4, 1, LinkKind::nvlink, 300, kBridge}},
      {"azure-nd-a100-v4", {8, 8, LinkKind::nvlink, 300, kNvlink}},
      {"azure-nd-h100-v5", {8, 8, LinkKind::nvlink, 450, kNvlink}},
      {"cscs-gh200", {4, 4, LinkKind::nvlink, 450, kNvlink}},
      {"dgx-1-p100", {8, 4, LinkKind::nvlink, 80, kPascal}},
      {"abci-v", {4, 2, LinkKind::nvlink, 150, kNvlink}},
      {"dgx-1-v100", {8, 4, LinkKind::nvlink, 150, kNvlink}},
      {"dgx-2", {16, 8, LinkKind::nvlink, 150, kNvlink}},
      {"dgx-a100", {8, 8, LinkKind::nvlink, 300, kNvlink}},
      {"dgx-b200", {8, 8, LinkKind::nvlink, 900, kNvlink}},
      {"dgx-h100", {8, 8, LinkKind::nvlink, 450, kNvlink}},
      {"dgx-h200", {8, 8, LinkKind::nvlink, 450, kNvlink}},
      {"dgx-spark", {1, 2, LinkKind::nvlink, 0, "no NVLink but C2C"}},
      {"gb200-nvl72", {72, 72, LinkKind::nvlink, 900, kNvlink}},
      {"gb300-nvl72", {72, 72, LinkKind::nvlink, 900, kNvlink}},
      {"gcp-a3-high", {8, 4, LinkKind::nvlink, 450, kNvlink}},
      {"gcp-a3-mega", {8, 8, LinkKind::nvlink, 450, kNvlink}},
      {"gcp-a3-ultra", {8, 8, LinkKind::nvlink, 450, kNvlink}},
      {"gcp-a4", {8, 8, LinkKind::nvlink, 900, kNvlink}},
      {"gh200", {1, 1, LinkKind::c2c, 450, "nvidia.com: NVLink-C2C of GH200 900 GB/s both ways"}},
      {"hgx-a100", {8, 8, LinkKind::nvlink, 300, kNvlink}},
      {"hgx-a800", {8, 8, LinkKind::nvlink, 200, "NVIDIA A800: NVLink 400 GB/s both ways"}},
      {"hgx-b200", {8, 8, LinkKind::nvlink, 900, kNvlink}},
      {"hgx-b300", {8, 8, LinkKind::nvlink, 900, kNvlink}},
      {"hgx-h100", {8, 8, LinkKind::nvlink, 450, kNvlink}},
      {"hgx-h100-4", {4, 4, LinkKind::nvlink, 450, "github.com/NVIDIA/nccl/issues/1617: six wires of 25 GB/s each way to each of three"}},
      {"hgx-h20", {8, 8, LinkKind::nvlink, 450, "NVIDIA H20: NVLink 900 GB/s both ways"}},
      {"hgx-h200", {8, 8, LinkKind::nvlink, 450, kNvlink}},
      {"hgx-h800", {8, 8, LinkKind::nvlink, 200, "github.com/deepseek-ai/DeepSeek-V3 issue 28: NVLink of H800 400 GB/s both ways"}},
      {"mi250x-4card", {4, 4, LinkKind::xgmi, 250, "github.com/ROCm/rccl topo_8p1h.xml: five wires of 50 GB/s to dies of other cards"}},
      {"mi250x-8gcd", {8, 4, LinkKind::xgmi, 350, "first die; github.com/ROCm/rccl topo_8p1h.xml: 4 + 2 + 1 wires of 50 GB/s"}},
      {"mi300x-8", {8, 8, LinkKind::xgmi, 448, "wheelersnetwork.com/2024/01: seven links of 128 GB/s both ways"}},
      {"mi325x-8", {8, 8, LinkKind::xgmi, 448, "github.com/stas00/ml-engineering: 64 x 7 GB/s each way, 896 both ways"}},
      {"mi355x-8",
       {8, 8, LinkKind::xgmi, 535.5, "AMD product page of MI355X, as ROCm's documentation has it: seven links of 153 GB/s both ways"}},
      {"pcie3-rtx2080tix2", {2, 0, LinkKind::nvlink, 50, "NVIDIA Turing white paper: TU102 two links, 100 GB/s both ways"}},
      {"pcie3-v100x4", {4, 0, LinkKind::nvlink, 0, kNoLinks}},
      {"pcie4-a100x4-bridged", {4, 0, LinkKind::nvlink, 300, kBridge}},
      {"pcie4-l40sx2", {2, 1, LinkKind::nvlink, 0, kNoLinks}},
      {"pcie4-l40sx4", {4, 0, LinkKind::nvlink, 0, kNoLinks}},
      {"pcie4-rtx4090x4", {4, 0, LinkKind::nvlink, 0, kNoLinks}},
      {"perlmutter", {4, 4, LinkKind::nvlink, 300, kNvlink}},
      {"polaris", {4, 2, LinkKind::nvlink, 300, kNvlink}},
      {"power8-p100", {4, 2, LinkKind::nvlink, 80, kPascal}},
      {"summit", {6, 2, LinkKind::nvlink, 150, kNvlink}},
  };
  return table;
}

TEST(Catalogue, EveryMachineHasAnEntryHereAndTheOtherWayRound) {
  std::set<std::string> listed;
  for (const auto& [name, facts] : published()) listed.insert(name);
  const auto names = all_names();
  EXPECT_EQ(listed, std::set<std::string>(names.begin(), names.end()));
}

TEST(Catalogue, RanksNicsAndLinkTotalsAreThePublishedOnes) {
  for (const auto& [name, facts] : published()) {
    const Graph g = load(name);
    const std::vector<int> gpus = g.compute_devices();
    EXPECT_EQ(gpus.size(), static_cast<std::size_t>(facts.gpus)) << name;
    int rails = 0;
    for (int n : g.devices_of(DeviceKind::nic)) rails += g.device(n).rail >= 0 ? 1 : 0;
    EXPECT_EQ(rails, facts.rails) << name;
    for (int gpu : gpus) {
      if (name == "mi250x-8gcd" && gpu != gpus.front()) continue;  // the dies differ: the test below
      EXPECT_NEAR(g.total_of(gpu, facts.kind).gigabytes(), facts.GBps, 1e-6) << name << " " << g.device(gpu).id << ": " << facts.source;
    }
  }
}

// docs.olcf.ornl.gov, Frontier User Guide: 200 GB/s between the dies of a card, 50 to 100 GB/s between dies of different cards.
TEST(Catalogue, DiesOfAnMi250xAreJoinedAsPublished) {
  const Graph g = load("mi250x-8gcd");
  const PathFinder paths(g);
  const std::vector<int> dies = g.compute_devices();
  for (std::size_t i = 0; i < dies.size(); ++i) {
    for (std::size_t k = i + 1; k < dies.size(); ++k) {
      const Path& path = paths.path(dies[i], dies[k]);
      if (path.path_class != PathClass::nvl) continue;
      if (i / 2 == k / 2) {
        EXPECT_NEAR(path.line.gigabytes(), 200, 1e-9);
      } else {
        EXPECT_TRUE(path.line.gigabytes() == 50 || path.line.gigabytes() == 100) << path.line.gigabytes();
      }
    }
    EXPECT_EQ(paths.path(dies[i], dies[i ^ 1]).path_class, PathClass::nvl);
  }
  EXPECT_EQ(load("mi250x-4card").compute_devices().size(), 4u);
}

TEST(Catalogue, NothingIsUndeclaredAndEveryAssumptionWarns) {
  for (const std::string& name : all_names()) {
    const Graph g = load(name);
    const std::string text = read_text(data_directory() + "/machines/" + name + ".yaml");
    EXPECT_THAT(text, HasSubstr("name: " + name + "\n"));
    for (const std::string& warning : g.warnings()) EXPECT_THAT(text, HasSubstr(warning)) << name;
    bool has_assumption = false;
    const auto check = [&](const std::string& source, const std::string& what) {
      EXPECT_FALSE(source.empty()) << name << " " << what;
      EXPECT_THAT(source, Not(HasSubstr("declared in"))) << name << " " << what;
      has_assumption = has_assumption || source.find("assumed") != std::string::npos;
    };
    for (const Device& d : g.devices()) {
      check(d.source, d.id);
      if (d.port) check(d.port->source, d.id + "'s port");
    }
    for (const Link& l : g.links()) {
      EXPECT_FALSE(l.source.empty() || l.usable_source.empty()) << name << " " << g.device(l.a).id << " - " << g.device(l.b).id;
      EXPECT_LE(l.usable.value, l.bandwidth.value) << name << " " << g.device(l.a).id << " - " << g.device(l.b).id;
    }
    EXPECT_TRUE(!has_assumption || !g.warnings().empty()) << name << " assumes without a warning";
  }
}

TEST(Catalogue, EveryRankReachesEveryOtherAndANic) {
  for (const std::string& name : all_names()) {
    const Graph g = load(name);
    const PathFinder paths(g);
    const std::vector<int> ranks = g.compute_devices();
    std::vector<int> nics;
    for (int n : g.devices_of(DeviceKind::nic))
      if (g.device(n).rail >= 0) nics.push_back(n);
    for (int a : ranks) {
      for (int b : ranks) EXPECT_TRUE(paths.path(a, b).exists()) << name << " " << g.device(a).id << " " << g.device(b).id;
      const auto reaches = [&](int n) { return paths.path(a, n).exists(); };
      EXPECT_TRUE(nics.empty() || std::any_of(nics.begin(), nics.end(), reaches)) << name << " " << g.device(a).id;
    }
    for (int n : nics) {
      const auto reaches = [&](int a) { return paths.path(a, n).exists(); };
      EXPECT_TRUE(std::any_of(ranks.begin(), ranks.end(), reaches)) << name << " " << g.device(n).id << " serves nobody";
    }
  }
}

TEST(Catalogue, ThereAreConstantsForEveryWayBetweenRanks) {
  for (const std::string& name : all_names()) {
    const Graph g = load(name);
    const PathFinder paths(g);
    std::set<std::string> scopes;
    for (int a : g.compute_devices())
      for (int b : g.compute_devices())
        if (a != b) scopes.emplace(paths.path(a, b).scope);
    for (int n : g.devices_of(DeviceKind::nic))
      if (g.device(n).rail >= 0) scopes.insert(g.device(n).port->scope);
    for (const std::string& scope : scopes) {
      const auto constants = constants_for(scope, "staged");
      EXPECT_TRUE(constants) << name << ": " << constants.error().message;
    }
  }
}

TEST(Catalogue, TwoOfEachMachineWithNicsMakeACluster) {
  for (const auto& [name, facts] : published()) {
    const auto cluster = build_cluster(name, 2);
    EXPECT_EQ(static_cast<bool>(cluster), facts.rails > 0) << name;
    EXPECT_EQ(cluster ? cluster->ranks() : 0, facts.rails > 0 ? 2 * facts.gpus : 0) << name;
  }
}

TEST(Catalogue, EveryMeasuredMachineIsThere) {
  std::istringstream rows(read_text(kShared + "measured/collectives.csv"));
  std::string line;
  if (!std::getline(rows, line)) GTEST_SKIP() << "no measurements beside this checkout";
  ASSERT_TRUE(line.starts_with("machine,"));
  const auto names = all_names();
  std::set<std::string> seen;
  while (std::getline(rows, line)) {
    const std::string name = line.substr(line.starts_with('"') ? 1 : 0, line.find(':') - (line.starts_with('"') ? 1 : 0));
    if (!seen.insert(name).second) continue;
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  }
  EXPECT_GE(seen.size(), 20u);
}

/// Cells of a matrix by row and column; a NIC counts under the name in the legend where there is one.
std::map<std::pair<std::string, std::string>, std::string> cells_of(const std::string& table, bool has_legend) {
  std::map<std::string, std::string> renamed;
  std::istringstream lines(table);
  for (std::string line; has_legend && std::getline(lines, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("  NIC") && colon != std::string::npos) renamed[line.substr(2, colon - 2)] = line.substr(colon + 2);
  }
  const auto name_of = [&](const std::string& word) { return renamed.contains(word) ? renamed[word] : word; };
  std::map<std::pair<std::string, std::string>, std::string> cells;
  std::vector<std::string> columns;
  std::istringstream again(table);
  for (std::string line; std::getline(again, line);) {
    std::istringstream words(line);
    std::string word;
    if (columns.empty()) {
      while (words >> word && word != "CPU" && word != "NUMA") columns.push_back(name_of(word));
      continue;
    }
    std::string row;
    if (!(words >> row) || std::find(columns.begin(), columns.end(), name_of(row)) == columns.end()) continue;
    for (const std::string& column : columns)
      if (words >> word) cells[{name_of(row), column}] = word;
  }
  return cells;
}

struct PublishedMatrix {
  std::string_view machine;
  std::string_view file;
  bool by_legend;  ///< the file's columns carry the NICs' own names
  std::size_t cells;
};

TEST(Catalogue, MatricesAreThePublishedOnesCellByCell) {
  const std::vector<PublishedMatrix> matrices = {
      {"dgx-1-v100", "dgx1-v100-8gpu-4mlx5.txt", true, 12 * 12},
      {"dgx-2", "dgx-2-v100-16gpu-truncated.txt", true, 4 * 26},
      {"dgx-a100", "dgx-a100-8gpu-12mlx5.txt", true, 20 * 20},
      {"dgx-h100", "dgx-h100-8gpu-12nic-truncated.txt", false, 14 * 20},
      {"dgx-h200", "dgx-h100-8gpu-12nic-truncated.txt", false, 14 * 20},
      {"dgx-b200", "b200-8gpu-16nic.txt", false, 24 * 24},
      {"hgx-h100", "h100-8gpu-8nic-sglang.txt", false, 16 * 16},
      {"polaris", "polaris-a100-4gpu-2mlx5-badheader.txt", true, 6 * 6},
      {"azure-nc96ads-a100-v4", "azure-nc96-a100-4gpu-numa4.txt", false, 4 * 4},
      {"pcie4-l40sx4", "l40s-4gpu-pix-pairs-noleadtab.txt", false, 4 * 4},
  };
  for (const PublishedMatrix& m : matrices) {
    const std::string text = read_text(kShared + "nvidia-smi-topo/" + std::string(m.file));
    if (text.empty()) GTEST_SKIP() << "no recorded tables beside this checkout";
    const auto theirs = cells_of(text, false);
    const auto ours = cells_of(describe_matrix(load(m.machine)), m.by_legend);
    EXPECT_EQ(theirs.size(), m.cells) << m.file;
    for (const auto& [at, cell] : theirs) {
      const auto it = ours.find(at);
      ASSERT_NE(it, ours.end()) << m.machine << " has no " << at.first << " - " << at.second;
      EXPECT_EQ(it->second, cell) << m.machine << " " << at.first << " - " << at.second;
    }
  }
}

TEST(Catalogue, MatricesAreTheRecordedOnes) {
  for (const char* name : {"dgx-1-v100", "gcp-a4", "polaris"}) {
    EXPECT_EQ(describe_matrix(load(name)), read_text(peal::test::in_source("tests/golden/matrix_") + name + ".txt")) << name;
  }
}

}  // namespace
}  // namespace peal::topology
