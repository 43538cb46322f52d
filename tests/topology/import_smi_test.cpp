// Tables of nvidia-smi, rocm-smi and npu-smi: invented ones, an oddity each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <topology/describe.hpp>
#include <topology/import.hpp>
#include <topology/link_catalogue.hpp>
#include <topology/path.hpp>

#include "golden.hpp"
#include "import_fixtures.hpp"

namespace peal::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Graph read_smi(Reader reader, std::string_view text) {
  auto graph = reader(text, "in.txt");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}
Graph matrix(std::string_view text) { return read_smi(import_smi_matrix, text); }

/// Cells of describe_matrix, row by row, words apart.
std::vector<std::string> cells(const Graph& graph) {
  std::vector<std::string> rows;
  std::istringstream lines(describe_matrix(graph));
  std::size_t count = graph.compute_devices().size() + graph.devices_of(DeviceKind::nic).size();
  for (std::string line; std::getline(lines, line) && !line.starts_with("Legend");) {
    std::istringstream words(line);
    std::string label;
    words >> label;
    if (line.empty() || line.front() == '\t') continue;
    std::string row = label;
    std::string word;
    for (std::size_t i = 0; i < count && words >> word; ++i) row += " " + word;
    rows.push_back(row);
  }
  return rows;
}

/// Warnings but the one that every table of classes has.
std::vector<std::string> warnings(const Graph& graph) {
  std::vector<std::string> found;
  for (const std::string& w : graph.warnings())
    if (w.find("names paths and no rates") == std::string::npos) found.push_back(w);
  return found;
}

// Two sockets, a switch with a GPU and a NIC on each, two more levels on the first.
constexpr std::string_view kTwoSockets =
    "\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV4\tNV4\tPIX\tPXB\tSYS\t0-15,32-47\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tNV4\tPHB\tPHB\tSYS\t0-15,32-47\t0\t\tN/A\n"
    "GPU2\tNV4\tNV4\t X \tSYS\tSYS\tNODE\t16-31,48-63\t1\t\tN/A\n"
    "NIC0\tPIX\tPHB\tSYS\t X \tPXB\tSYS\t\t\t\t\n"
    "NIC1\tPXB\tPHB\tSYS\tPXB\t X \tSYS\t\t\t\t\n"
    "NIC2\tSYS\tSYS\tNODE\tSYS\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = far\n\nNIC Legend:\n\n  NIC0: mlx5_3\n  NIC1: mlx5_7\n  NIC2: bnxt_re0\n";

const std::vector<std::string> kTwoSocketsCells = {"GPU0 X NV4 NV4 PIX PXB SYS",  "GPU1 NV4 X NV4 PHB PHB SYS",
                                                   "GPU2 NV4 NV4 X SYS SYS NODE", "NIC0 PIX PHB SYS X PXB SYS",
                                                   "NIC1 PXB PHB SYS PXB X SYS",  "NIC2 SYS SYS NODE SYS SYS X"};

TEST(ImportSmiMatrix, TheGraphGivesTheTableBack) {
  const Graph graph = matrix(kTwoSockets);
  EXPECT_EQ(cells(graph), kTwoSocketsCells);
  EXPECT_THAT(warnings(graph), IsEmpty());
  EXPECT_EQ(count(graph, DeviceKind::cpu), 2u);
  EXPECT_EQ(count(graph, DeviceKind::pcie_switch), 2u);
  EXPECT_EQ(count(graph, DeviceKind::nvswitch), 0u);
  EXPECT_GE(graph.find("mlx5_3"), 0) << "the legend names the NICs";
  EXPECT_GE(graph.find("bnxt_re0"), 0);
  EXPECT_EQ(graph.device(graph.find("gpu2")).numa, 1);
  EXPECT_EQ(graph.device(graph.find("gpu2")).attribute("cpu_affinity"), "16-31,48-63");
}

TEST(ImportSmiMatrix, APersonReadsWhatIsAssumed) { EXPECT_EQ(describe_text(matrix(kTwoSockets)), golden("import_smi_matrix.txt")); }

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  return std::regex_replace(text, std::regex(what), with);
}

TEST(ImportSmiMatrix, PastesInAllTheirShapesReadTheSame) {
  const std::string plain(kTwoSockets);
  const std::vector<std::pair<std::string, std::string>> shapes = {
      {"tabs as blanks", replaced(plain, "\t", "    ")},
      {"no leading tab", plain.substr(1)},
      {"indented", replaced(plain, "(^|\n)", "$1    ")},
      {"in comments", replaced(plain, "(^|\n)", "$1# ")},
      {"quoted", replaced(plain, "(^|\n)", "$1> ")},
      {"lost tabs", replaced(plain, "(PXB|SYS|PHB)\t(SYS|PHB|NODE|PXB)", "$1$2")},
      {"lost tabs in the header", replaced(plain, "\tNIC", "NIC")},
      {"header with single blanks", replaced(plain, "NIC2\tCPU Affinity\tNUMA", "NIC2 CPU Affinity NUMA")},
      {"escapes", "\x1b[4m" + replaced(plain, "\tCPU Aff", "\x1b[0m\tCPU Aff")},
      {"blank lines", replaced(plain, "\n", "\n\n")},
      {"windows", replaced(plain, "\n", "\r\n")},
      {"a banner", "=====MATRIX=====\n$ nvidia-smi topo -m\n" + plain},
      {"byte order mark", "\xef\xbb\xbf" + plain},
      {"NIC rows without their tabs", replaced(plain, "\t\t\t\t\n", "\n")},
      {"a table of Markdown", replaced(replaced(plain, "\t", " | "), "(^|\n)", "$1| ")},
      {"trailing blanks", replaced(plain, "\n", "   \n")},
      {"the command before the header", "$ nvidia-smi topo -m  " + plain},
  };
  for (const auto& [shape, text] : shapes) {
    const Graph graph = matrix(text);
    EXPECT_EQ(cells(graph), kTwoSocketsCells) << shape;
    EXPECT_THAT(warnings(graph), IsEmpty()) << shape;
    EXPECT_GE(graph.find("mlx5_7"), 0) << shape;
    EXPECT_EQ(graph.device(graph.find("gpu2")).numa, 1) << shape;
    EXPECT_EQ(graph.device(graph.find("gpu1")).attribute("cpu_affinity"), "0-15,32-47") << shape;
  }
}

TEST(ImportSmiMatrix, OldTablesSaySocAndNameNicsInTheHeader) {
  const Graph graph = matrix(
      "        GPU0    GPU1    mlx4_0  CPU Affinity\n"
      "GPU0     X      SOC     PHB     0-5\n"
      "GPU1    SOC      X      SOC     6-11\n"
      "mlx4_0  PHB     SOC      X\n");
  EXPECT_THAT(cells(graph), ElementsAre("GPU0 X SYS PHB", "GPU1 SYS X SYS", "NIC0 PHB SYS X"));
  EXPECT_EQ(graph.device(graph.devices_of(DeviceKind::nic).front()).id, "mlx4_0");
  EXPECT_THAT(warnings(graph), IsEmpty());
}

TEST(ImportSmiMatrix, MissingRowsComeFromTheColumnsAndAreNamed) {
  const Graph graph = matrix(
      "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV2\tPIX\t0-7\t0\n"
      "GPU1\tNV2\t X \tSYS\t8-15\t1\n");
  EXPECT_THAT(cells(graph), ElementsAre("GPU0 X NV2 PIX", "GPU1 NV2 X SYS", "NIC0 PIX SYS X"));
  EXPECT_THAT(warnings(graph), ElementsAre("in.txt:1: the header names devices that have no row: NIC0"));
}

TEST(ImportSmiMatrix, WhatNobodySaysIsNotInvented) {
  const Graph graph = matrix(
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
      "GPU0\t X \tNV12\tNV12\tNV12\t0-7\n");
  EXPECT_EQ(count(graph, DeviceKind::nvswitch), 1u) << "36 links a GPU exist on no GPU";
  EXPECT_EQ(graph.total_of(graph.find("gpu3"), LinkKind::pcie).value, 0);
  EXPECT_THAT(warnings(graph), Contains(HasSubstr("no PCIe link: gpu1 gpu2 gpu3")));
}

TEST(ImportSmiMatrix, SevenOfEightGpusKeepTheirNumbers) {
  std::string text = "\tGPU0\tGPU1\tGPU2\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\n";
  const std::vector<std::string> names = {"GPU0", "GPU1", "GPU2", "GPU4", "GPU5", "GPU6", "GPU7"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += names[i];
    for (std::size_t j = 0; j < names.size(); ++j) text += i == j ? "\t X " : "\tNV18";
    text += i < 3 ? "\t0-31\n" : "\t32-63\n";
  }
  const Graph graph = matrix(text);
  EXPECT_EQ(count(graph, DeviceKind::gpu), 7u);
  EXPECT_LT(graph.find("gpu3"), 0);
  EXPECT_EQ(count(graph, DeviceKind::nvswitch), 1u);
  EXPECT_NEAR(graph.total_of(graph.find("gpu7"), LinkKind::nvlink).gigabytes(), 18 * 25, 1e-9);
  EXPECT_EQ(cells(graph)[3], "GPU3 NV18 NV18 NV18 X NV18 NV18 NV18");
}

TEST(ImportSmiMatrix, NvlinkRunsThroughASwitchOnlyWhereWiresCannotDo) {
  const auto table = [](int gpus, const std::string& cell) {
    std::string text;
    for (int i = 0; i < gpus; ++i) text += fmt::format("\tGPU{}", i);
    text += "\tCPU Affinity\n";
    for (int i = 0; i < gpus; ++i) {
      text += fmt::format("GPU{}", i);
      for (int j = 0; j < gpus; ++j) text += i == j ? "\t X " : "\t" + cell;
      text += "\t0-7\n";
    }
    return matrix(text);
  };
  EXPECT_EQ(count(table(4, "NV4"), DeviceKind::nvswitch), 0u) << "3 x 4 are the twelve links of an A100";
  EXPECT_EQ(count(table(4, "NV6"), DeviceKind::nvswitch), 0u) << "3 x 6 are the eighteen links of an H100";
  EXPECT_EQ(count(table(2, "NV12"), DeviceKind::nvswitch), 0u) << "a bridge";
  EXPECT_EQ(count(table(3, "NV3"), DeviceKind::nvswitch), 0u);
  EXPECT_EQ(count(table(3, "NV8"), DeviceKind::nvswitch), 1u) << "16 links exist on no GPU, eight do";
  EXPECT_EQ(count(table(8, "NV8"), DeviceKind::nvswitch), 1u);
  EXPECT_EQ(count(table(16, "NV6"), DeviceKind::nvswitch), 1u);
  EXPECT_NEAR(table(16, "NV6").total_of(0, LinkKind::nvlink).gigabytes(), 150, 1e-9);
}

TEST(ImportSmiMatrix, ALinkThatIsDownBehindASwitchCostsItsOwnGpuOnly) {
  const Graph graph = matrix(
      "\tGPU0\tGPU1\tGPU2\tGPU3\n"
      "GPU0\t X \tNV18\tNV18\tNV17\n"
      "GPU1\tNV18\t X \tNV18\tNV17\n"
      "GPU2\tNV18\tNV18\t X \tNV17\n"
      "GPU3\tNV17\tNV17\tNV17\t X \n");
  EXPECT_EQ(count(graph, DeviceKind::nvswitch), 1u);
  EXPECT_THAT(cells(graph),
              ElementsAre("GPU0 X NV18 NV18 NV17", "GPU1 NV18 X NV18 NV17", "GPU2 NV18 NV18 X NV17", "GPU3 NV17 NV17 NV17 X"));
}

TEST(ImportSmiMatrix, CellsThatContradictOneAnotherAreNamed) {
  // GPU0-GPU1 and GPU1-GPU2 share a switch, so GPU0-GPU2 cannot be SYS apart.
  const Graph graph = matrix(
      "\tGPU0\tGPU1\tGPU2\tCPU Affinity\n"
      "GPU0\t X \tPIX\tSYS\t0-7\n"
      "GPU1\tPIX\t X \tPIX\t0-7\n"
      "GPU2\tSYS\tPIX\t X \t0-7\n");
  EXPECT_THAT(
      warnings(graph),
      ElementsAre(HasSubstr("in.txt:2: gpu0 to gpu2 is SYS, which fits no graph together with the other cells: the graph gives PIX")));
  const Graph halves = matrix("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tSYS\t X \n");
  EXPECT_THAT(warnings(halves), Contains(HasSubstr("in.txt:3: GPU1 to GPU0 is SYS here and PIX in line 2, which is used")));
}

TEST(ImportSmiMatrix, AffinityThatDoesNotFitIsSaid) {
  const Graph one = matrix(
      "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV4\tNODE\t\t0\n"
      "GPU1\tNV4\t X \tNODE\t\t1\n"
      "NIC0\tNODE\tNODE\t X \n");
  EXPECT_EQ(count(one, DeviceKind::cpu), 1u);
  EXPECT_EQ(one.device(one.find("gpu1")).numa, 1);
  EXPECT_THAT(warnings(one),
              ElementsAre("in.txt:3: gpu1 names NUMA 1 but is NODE or nearer to devices of NUMA 0: one CPU stands for both"));
  const Graph two = matrix(
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tSYS\t0-7\t0\n"
      "GPU1\tSYS\t X \t0-7\t0\n");
  EXPECT_EQ(count(two, DeviceKind::cpu), 2u);
  EXPECT_THAT(warnings(two), ElementsAre(HasSubstr("both name NUMA 0")));
}

TEST(ImportSmiMatrix, EmptyAffinitiesKeepTheirColumns) {
  const Graph graph = matrix(
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
      "GPU0\t X \tPHB\t0,2-17\t0,2-17\t\t1\n"
      "GPU1\tPHB\t X \t\t0,2-17\t\tN/A\n");
  const Device& first = graph.device(0);
  EXPECT_EQ(first.attribute("gpu_numa_id"), "1");
  EXPECT_EQ(first.attribute("numa_affinity"), "0,2-17");
  EXPECT_EQ(first.numa, -1) << "a range names no domain";
  EXPECT_EQ(graph.device(1).attribute("cpu_affinity"), "");
  EXPECT_EQ(graph.device(1).attribute("numa_affinity"), "0,2-17");
  EXPECT_EQ(count(graph, DeviceKind::cpu), 1u);
}

TEST(ImportSmiMatrix, CutRowsAndRowsOutOfPlaceAreUsedAsFarAsTheyGo) {
  const Graph cut = matrix("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \tSY");
  EXPECT_EQ(cells(cut)[1], "GPU1 PIX X SYS") << "it shares a switch with GPU0, which is SYS from GPU2";
  const Graph shifted = matrix("GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 X SYS\nGPU2 SYS SYS X\n");
  EXPECT_THAT(cells(shifted), ElementsAre("GPU0 X PIX SYS", "GPU1 PIX X SYS", "GPU2 SYS SYS X"));
  EXPECT_THAT(warnings(shifted), Contains(HasSubstr("in.txt:3: the row of GPU1 has 0 cells before its own instead of 1")));
}

TEST(ImportSmiMatrix, OneGpuAndASecondTable) {
  const Graph graph = matrix(
      "\tGPU0\tNIC0\tCPU Affinity\n"
      "GPU0\t X \tNODE\t0-3\n"
      "NIC0\tNODE\t X \n"
      "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n");
  EXPECT_EQ(graph.device_count(), 3) << "the first table counts";
  EXPECT_THAT(cells(graph), ElementsAre("GPU0 X NODE", "NIC0 NODE X"));
}

TEST(ImportSmiMatrix, NamesThatCollideBecomeDifferentDevices) {
  const Graph graph = matrix(
      "\tGPU0\tNIC0\tNIC1\n"
      "GPU0\t X \tPIX\tSYS\n"
      "NIC0\tPIX\t X \tSYS\n"
      "NIC1\tSYS\tSYS\t X \n\nNIC Legend:\n NIC0: gpu0\n NIC1: gpu0\n");
  EXPECT_EQ(count(graph, DeviceKind::nic), 2u);
  EXPECT_THAT(warnings(graph), Contains(HasSubstr("two devices are called gpu0")));
}

TEST(ImportSmiMatrix, ColumnsThatSomebodyCutOutAreNamed) {
  const Graph graph = matrix(
      "  GPU0 GPU1 NIC0 ... NIC5 CPU Affinity NUMA Affinity\nGPU0 X NV18 NODE ... SYS 0-71 0\n"
      "GPU1 NV18 X SYS ... PIX 72-143 1\n...\nNIC5 SYS PIX SYS ... X\n");
  EXPECT_THAT(cells(graph), ElementsAre("GPU0 X NV18 NODE SYS", "GPU1 NV18 X SYS PIX", "NIC0 NODE SYS X SYS", "NIC1 SYS PIX SYS X"));
  EXPECT_EQ(graph.device(graph.find("gpu1")).numa, 1);
  EXPECT_THAT(warnings(graph), Contains("in.txt:1: columns were cut out here (...): devices are missing"));
}

// mx-smi prints the same table with a link of its maker's, and Node Affinity before CPU Affinity.
TEST(ImportSmiMatrix, ClassesOfOtherMakersAreNamedAndNotDrawn) {
  const Graph graph = matrix(
      "        GPU0    GPU1    NIC0    Node Affinity  CPU Affinity\nGPU0    X       MX      PIX     1              0-31\n"
      "GPU1    MX      X       NODE    1              0-31\nNIC0    PIX     NODE    X\n");
  EXPECT_THAT(cells(graph), ElementsAre("GPU0 X NODE PIX", "GPU1 NODE X NODE", "NIC0 PIX NODE X"));
  EXPECT_EQ(graph.device(graph.find("gpu1")).numa, 1);
  EXPECT_EQ(graph.device(graph.find("gpu1")).attribute("cpu_affinity"), "0-31");
  EXPECT_THAT(warnings(graph), ElementsAre(HasSubstr("in.txt:2: GPU0 to GPU1 is MX, a word that is not known here")));
}

TEST(ImportSmiMatrix, NoTableIsSaidWithTheMend) {
  for (std::string_view text : {"", "hello", "GPU0 GPU1 GPU2", "\tGPU0\tGPU1\n", "GPU 0: NVIDIA H100\n"}) {
    const auto graph = import_smi_matrix(text, "in.txt");
    ASSERT_FALSE(graph) << text;
    EXPECT_THAT(graph.error().message, HasSubstr("in.txt:1:"));
    EXPECT_THAT(graph.error().message, HasSubstr("rows that begin with those names"));
  }
}

TEST(ImportSmiP2p, SaysWhoReachesWhomAndDrawsNoLinks) {
  const Graph graph = read_smi(
      import_smi_p2p,
      " \tGPU0\tGPU1\tGPU2\n GPU0\tX\tOK\tCNS\n GPU1\tOK\tX\tTNS\n GPU2\tCNS\tTNS\tX\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n");
  EXPECT_EQ(count(graph, DeviceKind::gpu), 3u);
  EXPECT_EQ(graph.link_count(), 0);
  EXPECT_EQ(graph.device(0).attribute("peer_access"), "gpu1");
  EXPECT_EQ(graph.device(2).attribute("peer_access"), "none");
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("(CNS, the chipset does not support it): gpu0-gpu2")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("(TNS, the topology does not support it): gpu1-gpu2")));
}

TEST(ImportSmiNvlink, TwoGpusWithEqualLinksAreJoinedAtTheSpecifiedRate) {
  const Graph graph = read_smi(import_smi_nvlink,
                               "GPU 0: Some H100 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 26.562 GB/s\n"
                               "GPU 1: Some H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\t Link 2: 26.562 GB/s\n");
  ASSERT_EQ(graph.link_count(), 1);
  EXPECT_EQ(graph.link(0).count, 2);
  EXPECT_NEAR(graph.link(0).bandwidth.gigabytes(), 25, 1e-9);
  EXPECT_THAT(graph.link(0).source, HasSubstr("assumed: all links of two GPUs join them"));
  EXPECT_EQ(graph.device(0).name, "Some H100");
  EXPECT_EQ(graph.device(0).attribute("nvlinks_inactive"), "1");
}

TEST(ImportSmiNvlink, EachDriverRateHasItsSpecification) {
  for (const auto& [reported, specified] : std::vector<std::pair<std::string, std::string>>{
           {"25.781", "25"}, {"25", "25"}, {"26.562", "25"}, {"53.125", "50"}, {"14.062", "14.0625"}}) {
    const Graph graph = read_smi(import_smi_nvlink, "GPU 0: A\n Link 0: " + reported + " GB/s\n");
    EXPECT_EQ(graph.device(0).attribute("nvlink_GBps"), specified) << reported;
  }
  const Graph odd = read_smi(import_smi_nvlink, "GPU 0: A\n Link 0: 77.7 GB/s\n");
  EXPECT_EQ(odd.device(0).attribute("nvlink_GBps"), "77.7");
  EXPECT_THAT(odd.warnings(), Contains(HasSubstr("in.txt:1: GPU 0: 77.7 GB/s a link is none of the rates")));
}

TEST(ImportSmiNvlink, WhereLinksEndIsNotGuessed) {
  std::string text;
  for (int g = 0; g < 4; ++g) text += fmt::format("GPU {}: V\n Link 0: 25.781 GB/s\n Link 1: 25.781 GB/s\n", g);
  const Graph graph = read_smi(import_smi_nvlink, text);
  EXPECT_EQ(graph.link_count(), 0);
  EXPECT_THAT(graph.warnings(), ElementsAre(HasSubstr("where the 8 active links end")));
}

TEST(ImportSmiNvlink, ErrorsCutsAndGapsAreNamed) {
  const Graph none = read_smi(import_smi_nvlink, "GPU 0: A\nNVML: Unable to retrieve NVLink information as all links are inActive\n");
  EXPECT_THAT(none.warnings(), ElementsAre("in.txt:1: GPU 0 has no links: the driver says that all are inactive"));
  const Graph gap = read_smi(import_smi_nvlink, "GPU 0: A\n Link 0: 25 GB/s\n  [snip]\nGPU 3: A\n Link 0: 25 GB/s\n Link 1: 2");
  EXPECT_EQ(gap.link_count(), 0) << "GPUs 0 and 3 are no pair";
  EXPECT_THAT(gap.warnings(), Contains("in.txt:3: something was cut out here"));
  EXPECT_THAT(gap.warnings(), Contains(HasSubstr("in.txt:4: GPU 3 comes here: what lies between 1 and it")));
  EXPECT_THAT(gap.warnings(), Contains(HasSubstr("in.txt:6: link 1 of GPU 3 has no rate")));
  EXPECT_FALSE(import_smi_nvlink("Link 0: 25 GB/s\n", "in.txt"));
}

constexpr std::string_view kTwoHives =
    "============ ROCm System Management Interface ============\n"
    "=============== Weight between two GPUs ================\n"
    "       GPU0   GPU1   GPU2   GPU3\n"
    "GPU0   0      15     72     72\n"
    "GPU1   15     0      72     72\n"
    "GPU2   72     72     0      15\n"
    "GPU3   72     72     15     0\n"
    "=============== Hops between two GPUs ==================\n"
    "       GPU0   GPU1   GPU2   GPU3\n"
    "GPU0   0      1      3      3\n"
    "GPU1   1      0      3      3\n"
    "GPU2   3      3      0      1\n"
    "GPU3   3      3      1      0\n"
    "=============== Link Type between two GPUs =============\n"
    "       GPU0   GPU1   GPU2   GPU3\n"
    "GPU0   0      XGMI   PCIE   PCIE\n"
    "GPU1   XGMI   0      PCIE   PCIE\n"
    "GPU2   PCIE   PCIE   0      XGMI\n"
    "GPU3   PCIE   PCIE   XGMI   0\n"
    "===================== Numa Nodes =======================\n"
    "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[0]\t\t: (Topology) Numa Affinity: 0\n"
    "GPU[1]\t\t: (Topology) Numa Node: 0\nGPU[2]\t\t: (Topology) Numa Node: 1\nGPU 3 \t: (Topology) Numa Node: 1\n"
    "================== End of ROCm SMI Log =================\n";

TEST(ImportRocm, HivesJoinOverTheirSockets) {
  const Graph graph = read_smi(import_rocm_topology, kTwoHives);
  EXPECT_THAT(cells(graph), ElementsAre("GPU0 X NVL SYS SYS", "GPU1 NVL X SYS SYS", "GPU2 SYS SYS X NVL", "GPU3 SYS SYS NVL X"));
  EXPECT_EQ(count(graph, DeviceKind::cpu), 2u);
  EXPECT_EQ(graph.device(graph.find("gpu3")).numa, 1);
  EXPECT_THAT(warnings(graph), IsEmpty());
}

TEST(ImportRocm, AnyTableMayBeMissing) {
  const std::string text(kTwoHives);
  const auto from = [&](const char* title) { return text.substr(text.rfind('\n', text.find(title)) + 1); };
  const Graph numa = read_smi(import_rocm_topology, from("Numa Nodes"));
  EXPECT_EQ(count(numa, DeviceKind::gpu), 4u);
  EXPECT_EQ(numa.total_of(0, LinkKind::xgmi).value, 0);
  EXPECT_EQ(count(numa, DeviceKind::cpu), 2u);
  const Graph types = read_smi(import_rocm_topology, "== Link Type between two GPUs ==\nGPU0 GPU1\nGPU0 0 PCIE\nGPU1 PCIE 0\n");
  EXPECT_THAT(cells(types), ElementsAre("GPU0 X NODE", "GPU1 NODE X"));
  const Graph weights = read_smi(import_rocm_topology, text.substr(0, text.find("=============== Hops")));
  EXPECT_THAT(cells(weights), ElementsAre("GPU0 X NVL SYS SYS", "GPU1 NVL X SYS SYS", "GPU2 SYS SYS X NVL", "GPU3 SYS SYS NVL X"));
  EXPECT_THAT(warnings(weights), ElementsAre(HasSubstr("no table of link types")));
  const Graph single =
      read_smi(import_rocm_topology, "=== Link Type between two GPUs ===\n       GPU0         \nGPU0   0            \n=== End ===\n");
  EXPECT_EQ(count(single, DeviceKind::gpu), 1u);
}

TEST(ImportRocm, AmdSmiNamesGpusByTheirBusIds) {
  const Graph graph = read_smi(import_rocm_topology,
                               "ACCESS TABLE:\n  0000:0c:00.0 0000:22:00.0 0000:9f:00.0\n0000:0c:00.0 ENABLED ENABLED ENABLED\n"
                               "WEIGHT TABLE:\n  0000:0c:00.0 0000:22:00.0 0000:9f:00.0\n0000:0c:00.0 0 15 52\n0000:22:00.0 15 0 52\n"
                               "HOPS TABLE:\n  0000:0c:00.0 0000:22:00.0 0000:9f:00.0\n0000:0c:00.0 0 1 3\n0000:22:00.0 1 0 3\n"
                               "0000:9f:00.0 3 3 0\nLINK TYPE TABLE:\n  0000:0c:00.0 0000:22:00.0 0000:9f:00.0\n"
                               "0000:0c:00.0 SELF XGMI PCIE\n0000:22:00.0 XGMI SELF PCIE\n0000:9f:00.0 PCIE PCIE SELF\n"
                               "NUMA BW TABLE:\n  0000:0c:00.0 0000:22:00.0 0000:9f:00.0\n0000:0c:00.0 N/A 50000-100000 N/A\n");
  EXPECT_THAT(cells(graph), ElementsAre("GPU0 X NVL SYS", "GPU1 NVL X SYS", "GPU2 SYS SYS X"));
  EXPECT_EQ(graph.device(graph.find("gpu2")).attribute("busid"), "0000:9f:00.0");
}

TEST(ImportRocm, XgmiThroughOtherGpusIsNoWire) {
  const Graph graph = read_smi(import_rocm_topology,
                               "== Weight between two GPUs ==\nGPU0 GPU1\nGPU0 0 30\nGPU1 30 0\n== Link Type between two GPUs ==\nGPU0 "
                               "GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n");
  EXPECT_EQ(graph.total_of(0, LinkKind::xgmi).value, 0);
  EXPECT_THAT(warnings(graph), ElementsAre(HasSubstr("XGMI over 2 hops")));
  const Graph strange = read_smi(import_rocm_topology, "== Hops between two GPUs ==\nGPU0 A1\nGPU0 0 1\nA1 1 0\n");
  EXPECT_EQ(strange.devices_of(DeviceKind::gpu).size(), 1u) << "a column that is no GPU is none";
  EXPECT_FALSE(import_rocm_topology("nothing\n", "in.txt"));
}

TEST(ImportNpu, MeshSwitchAndDiesAreDirect) {
  const Graph mesh = read_smi(import_npu_topology,
                              "\t   NPU0       NPU1       NPU2       CPU Affinity\n"
                              "NPU0       X          HCCS       PHB        0-23\n"
                              "NPU1       HCCS       X          NA         0-23\n"
                              "NPU2       PHB        NA         X          24-47\n\nLegend:\n\n  X    = Self\n  HCCS = over HCCS\n");
  EXPECT_EQ(count(mesh, DeviceKind::gpu), 3u);
  const PathFinder paths(mesh);
  EXPECT_EQ(paths.path(mesh.find("npu0"), mesh.find("npu1")).path_class, PathClass::nvl);
  EXPECT_EQ(mesh.total_of(mesh.find("npu0"), LinkKind::hccs), link_generation("hccs-910b").value()->bandwidth);
  EXPECT_THAT(warnings(mesh), Contains(HasSubstr("npu1 to npu2 is NA")));
  const Graph dies = read_smi(import_npu_topology,
                              "           Phy-ID12   Phy-ID13   Phy-ID14\n"
                              "Phy-ID12   X          SIO        HCCS_SW\n"
                              "Phy-ID13   SIO        X          HCCS_SW\n"
                              "Phy-ID14   HCCS_SW    HCCS_SW    X\n");
  EXPECT_EQ(count(dies, DeviceKind::nvswitch), 1u);
  EXPECT_EQ(count(dies, DeviceKind::cpu), 0u) << "without the CPU column nothing is known of CPUs";
  const PathFinder through(dies);
  EXPECT_EQ(through.path(dies.find("npu12"), dies.find("npu14")).path_class, PathClass::nvl);
}

TEST(ImportNpu, ADeviceWithoutTopologyIsSaid) {
  const auto graph = import_npu_topology("This device does not support querying topo.\n", "in.txt");
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, HasSubstr("no topology to query"));
}

TEST(ImportText, ManyBadLinesGiveFiftyWarnings) {
  std::string text = "GPU 0: A\n";
  for (int i = 0; i < 500; ++i) text += "Link x\n";
  const Graph graph = read_smi(import_smi_nvlink, text);
  EXPECT_EQ(graph.warnings().size(), 51u);
  EXPECT_THAT(graph.warnings().back(), HasSubstr("further warnings are left out"));
}

}  // namespace
}  // namespace peal::topology
