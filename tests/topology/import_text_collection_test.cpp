// The text files of ../shared/data, where they lie beside this checkout: what each of them describes is understood, and the tables of
// nvidia-smi come back cell by cell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <topology/describe.hpp>
#include <topology/import.hpp>

#include "import_fixtures.hpp"
#include "source_tree.hpp"

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

const std::string kData = peal::test::in_source("../shared/data/");

std::string text_of(const std::string& path) {
  std::ifstream file(kData + path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// What the index of the collection says of a file.
struct ExpectedOfText {
  std::string file;
  std::size_t gpus = 0;
  std::size_t nics = 0;
  std::size_t hosts_or_cpus = 0;
  std::size_t switches = 0;   ///< of the network
  bool has_warnings = false;  ///< beyond the one that says that rates are assumed
};

bool says_more_than_rates(const Graph& graph) {
  for (const std::string& w : graph.warnings())
    if (w.find("rates") == std::string::npos && w.find("how fast") == std::string::npos) return true;
  return false;
}

void check_all(Reader reader, const std::string& folder, const std::vector<ExpectedOfText>& files) {
  if (!std::filesystem::is_directory(kData + folder)) GTEST_SKIP() << "no collection of files beside this checkout";
  for (const ExpectedOfText& e : files) {
    const auto graph = reader(text_of(folder + "/" + e.file), e.file);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(count(*graph, DeviceKind::gpu), e.gpus) << e.file;
    EXPECT_EQ(count(*graph, DeviceKind::nic), e.nics) << e.file;
    EXPECT_EQ(count(*graph, DeviceKind::cpu), e.hosts_or_cpus) << e.file;
    EXPECT_EQ(count(*graph, DeviceKind::net_switch), e.switches) << e.file;
    EXPECT_EQ(says_more_than_rates(*graph), e.has_warnings) << e.file << ": " << ::testing::PrintToString(graph->warnings());
    EXPECT_TRUE(describe_json(*graph).starts_with("{")) << e.file;
  }
}

const std::vector<ExpectedOfText> kMatrices = {{"2gpu-nv2-desktop.txt", 2, 0, 1},
                                               {"a100-4gpu-commented.txt", 4, 1, 4, 0, true},
                                               {"a100-4gpu-sxm-della.txt", 4, 1, 2},
                                               {"a100-8gpu-narrow-columns.txt", 8, 0, 2},
                                               {"a100-pcie-4gpu-adroit.txt", 4, 1, 2},
                                               {"azure-nc96-a100-4gpu-numa4.txt", 4, 0, 4},
                                               {"b200-8gpu-16nic.txt", 8, 16, 2},
                                               {"b300-8gpu-8nic-cx8.txt", 8, 8, 2},
                                               {"dgx-2-v100-16gpu-truncated.txt", 16, 10, 2, 0, true},
                                               {"dgx-a100-8gpu-12mlx5.txt", 8, 12, 6},
                                               {"dgx-h100-8gpu-12nic-truncated.txt", 8, 12, 2, 0, true},
                                               {"dgx1-v100-8gpu-4mlx5.txt", 8, 4, 2},
                                               {"gb10-dgx-spark-1gpu-4nic.txt", 1, 4, 1},
                                               {"gcp-g2-l4-8gpu.txt", 8, 0, 2},
                                               {"h100-8gpu-1nic-vllm-env.txt", 8, 1, 3},
                                               {"h100-8gpu-8nic-sglang.txt", 8, 8, 2},
                                               {"hgx-a100-8gpu-4nic-lopsided.txt", 8, 4, 3, 0, true},
                                               {"k80-4gpu-mlx4-soc-legend.txt", 4, 1, 1},
                                               {"l40s-4gpu-pix-pairs-noleadtab.txt", 4, 0, 1},
                                               {"pcie-6gpu-pix-node-sys.txt", 6, 0, 2},
                                               {"polaris-a100-4gpu-2mlx5-badheader.txt", 4, 2, 4},
                                               {"rtx-2gpu-pix-noleadtab.txt", 2, 0, 1},
                                               {"umd-a100-4gpu-3nic-empty-cpu.txt", 4, 3, 1, 0, true},
                                               {"v100-2gpu-nv4-oldbanner.txt", 2, 0, 1},
                                               {"v100-4gpu-partial-cube.txt", 4, 1, 2},
                                               {"v100-8gpu-vm-phb.txt", 8, 0, 1}};

TEST(ImportTextCollection, EveryMatrixHasItsDevices) { check_all(import_smi_matrix, "nvidia-smi-topo", kMatrices); }

/// Rows of a table, split at blanks alone, so that nothing of the reader judges itself: label, then one cell a device.
std::vector<std::vector<std::string>> rows_of(const std::string& table, std::size_t columns) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line) && line.find("Legend") == std::string::npos;) {
    std::istringstream words(line[0] == '#' ? line.substr(1) : line);
    std::vector<std::string> row;
    for (std::string word; row.size() <= columns && words >> word;) row.push_back(word == "SOC" ? "SYS" : word);
    const bool is_row = row.size() > columns && std::find(row.begin() + 1, row.end(), "X") != row.end();
    if (is_row) rows.push_back({row.begin() + 1, row.end()});
  }
  return rows;
}

TEST(ImportTextCollection, EveryMatrixComesBackCellByCell) {
  if (!std::filesystem::is_directory(kData + "nvidia-smi-topo")) GTEST_SKIP() << "no collection of files beside this checkout";
  for (const ExpectedOfText& e : kMatrices) {
    const std::string text = text_of("nvidia-smi-topo/" + e.file);
    const auto graph = import_smi_matrix(text, e.file);
    ASSERT_TRUE(graph) << graph.error().message;
    const auto theirs = rows_of(text, e.gpus + e.nics);
    const auto ours = rows_of(describe_matrix(*graph), e.gpus + e.nics);
    ASSERT_EQ(ours.size(), e.gpus + e.nics) << e.file;
    ASSERT_GE(theirs.size(), e.file.find("dgx-2") == 0 ? 4u : e.gpus) << e.file;
    for (std::size_t r = 0; r < theirs.size(); ++r) EXPECT_EQ(ours[r], theirs[r]) << e.file << " row " << r;
  }
}

TEST(ImportTextCollection, PeerAccess) { check_all(import_smi_p2p, "nvidia-smi-topo", {{"h100-8gpu-topo-p2p-r.txt", 8, 0, 0, 0, true}}); }

TEST(ImportTextCollection, EveryNvlinkStatus) {
  check_all(import_smi_nvlink, "nvidia-smi-nvlink",
            {{"a100-pcie-no-nvlink.txt", 2, 0, 0, 0, true},
             {"h100-pcie-bridge-status.txt", 2},
             {"rtx8000-2gpu-status.txt", 2},
             {"v100-8gpu-snipped.txt", 2, 0, 0, 0, true},
             {"v100-sxm2-4gpu-status.txt", 4, 0, 0, 0, true}});
}

TEST(ImportTextCollection, EveryRocmTopology) {
  check_all(import_rocm_topology, "rocm-smi-topo",
            {{"mi100-2gpu-pcie-stripped.txt", 2, 0, 1},
             {"mi210-8gpu-two-hives.txt", 8, 0, 2},
             {"mi300a-4gpu.txt", 4, 0, 4},
             {"mi300x-8gpu-vllm-1.txt", 8, 0, 2},
             {"showtoponuma-8gpu.txt", 8, 0, 2, 0, true}});
}

TEST(ImportTextCollection, EveryNpuTopology) {
  check_all(import_npu_topology, "npu-smi-topo", {{"ascend-910b3-8npu.txt", 8, 0, 4}});
  if (!std::filesystem::is_directory(kData + "npu-smi-topo")) return;
  EXPECT_FALSE(import_npu_topology(text_of("npu-smi-topo/ascend-not-supported.txt"), "none.txt"));
}

TEST(ImportTextCollection, EverySlurmTopology) {
  check_all(import_slurm_topology, "slurm",
            {{"doc-block-topology.conf", 0, 0, 128, 5, true},
             {"doc-tree-topology.conf", 0, 0, 18, 4},
             {"slurm-check-topology.conf", 0, 0, 32, 9, true},
             {"slurm-test133-case1-topology.conf", 0, 0, 10'000, 529},
             {"slurm-test133-case3-topology.conf", 0, 0, 400, 23},
             {"slurm-test133-case5-topology.conf", 0, 0, 400, 22, true},
             {"slurm-test133-case6-topology.conf", 0, 0, 40, 7, true},
             {"topograph-slinky-dra-block.conf", 0, 0, 96, 13, true}});
  check_all(import_slurm_topology_yaml, "slurm", {{"doc-topology.yaml", 0, 0, 4, 3, true}});
}

TEST(ImportTextCollection, EveryGresConf) {
  check_all(import_slurm_gres, "slurm",
            {{"gres-a100-8-links-self-only.conf", 8, 0, 2},
             {"gres-oci-amd.conf", 16, 0, 2},
             {"gres-tesla-8-links-asymmetric.conf", 8, 0, 1},
             {"slurm-test7.17.2-gres.conf", 8, 0, 2},
             {"slurm-test7.17.4-gres.conf", 8, 0, 1},
             {"slurm-test7.17.7-gres.conf", 8, 0, 2}});
}

TEST(ImportTextCollection, EveryNetwork) {
  check_all(import_ibnetdiscover, "topograph", {{"ibnetdiscover-bad.out", 0, 1, 1, 0, true}});
  check_all(import_topograph_model, "topograph",
            {{"model-dual-xclr-irregular.yaml", 0, 0, 255, 34, true},
             {"model-large.yaml", 0, 0, 96, 19},
             {"model-nvl72.yaml", 0, 0, 72, 7},
             {"model-small-tree.yaml", 0, 0, 6, 3}});
  check_all(import_netq_topology, "topograph", {{"netq-topologyGraph.json", 0, 0, 8, 3}});
}

using Form = std::pair<Reader, std::string>;

/// Every prefix of every kind of file, in steps: no crash, and what is read has no broken link.
TEST(ImportTextCollection, FilesThatAreCutOffAnywhereAreReadOrRefused) {
  if (!std::filesystem::is_directory(kData + "slurm")) GTEST_SKIP() << "no collection of files beside this checkout";
  for (const auto& [reader, file] :
       {Form{import_smi_matrix, "nvidia-smi-topo/dgx1-v100-8gpu-4mlx5.txt"},
        Form{import_smi_nvlink, "nvidia-smi-nvlink/v100-8gpu-snipped.txt"},
        Form{import_rocm_topology, "rocm-smi-topo/mi210-8gpu-two-hives.txt"},
        Form{import_npu_topology, "npu-smi-topo/ascend-910b3-8npu.txt"},
        Form{import_slurm_topology, "slurm/slurm-test133-case6-topology.conf"}, Form{import_slurm_topology_yaml, "slurm/doc-topology.yaml"},
        Form{import_slurm_gres, "slurm/gres-tesla-8-links-asymmetric.conf"},
        Form{import_topograph_model, "topograph/model-small-tree.yaml"}, Form{import_netq_topology, "topograph/netq-topologyGraph.json"}}) {
    const std::string text = text_of(file);
    const std::size_t step = std::max<std::size_t>(1, text.size() / 150);
    std::size_t read = 0;
    for (std::size_t length = 0; length < text.size(); length += step) {
      const auto graph = reader(std::string_view(text).substr(0, length), file);
      read += graph ? 1 : 0;
      const bool says_something = graph ? graph->device_count() > 0 : !graph.error().message.empty();
      EXPECT_TRUE(says_something) << file << " " << length;
    }
    EXPECT_GT(read, 50u) << file << ": most cuts leave something to know";
  }
}

}  // namespace
}  // namespace peal::topology
