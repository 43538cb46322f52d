// The collected files of NCCL, RCCL and hwloc, each against what its index says (tests of what is in a file) and, for all of them, against
// a count of their elements that knows nothing of the readers. Skipped where the collection is not beside the source tree.
#include <filesystem>
#include <regex>
#include <set>
#include <topology/describe.hpp>
#include <topology/machine.hpp>

#include "import_fixtures.hpp"
#include "source_tree.hpp"

namespace peal::topology {
namespace {

namespace fs = std::filesystem;

fs::path collection() { return peal::test::in_source("../shared/data"); }

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(collection() / folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

int count_in(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()));
}

struct Expected {
  const char* file;
  int gpus;
  int nics;
  int gpu_wires;  ///< NVLink, or xGMI links in rows of the file, which lists each from both ends; -1: the index does not say
};

void hold(const std::string& folder, const std::vector<Expected>& all) {
  if (!fs::is_directory(collection())) GTEST_SKIP() << "no collection of files beside the source tree";
  for (const Expected& e : all) {
    const auto file = import_file((collection() / folder / e.file).string());
    ASSERT_TRUE(file) << e.file << ": " << file.error().message;
    EXPECT_EQ(count_of(file->graph, DeviceKind::gpu), e.gpus) << e.file;
    EXPECT_EQ(count_of(file->graph, DeviceKind::nic), e.nics) << e.file;
    if (e.gpu_wires < 0) continue;
    int nvlink = 0;
    int xgmi = 0;
    for (const Link& l : file->graph.links()) {
      nvlink += l.kind == LinkKind::nvlink ? l.count : 0;
      xgmi += l.kind == LinkKind::xgmi ? 2 : 0;
    }
    EXPECT_EQ(std::max(nvlink, xgmi), e.gpu_wires) << e.file;
  }
}

TEST(ImportCollection, NcclFilesHoldWhatTheIndexSays) {
  hold("nccl-topo", {{"aws-p4d-24xl.xml", 8, 4, -1},
                     {"aws-p5-48xl-2026.xml", 8, 32, -1},
                     {"azure-ncv4.xml", 4, 1, 0},
                     {"azure-ndv2.xml", 8, 1, -1},
                     {"azure-ndv4.xml", 8, 8, -1},
                     {"superbench-ndv4.xml", 8, 8, -1},
                     {"b200-vm-8gpu-13nic-emptylink.xml", 8, 13, 8 * 18},
                     {"gb10-dgx-spark-short.xml", 1, 2, 0},
                     {"nemo-launcher-oci.xml", 8, 8, -1},
                     {"oci-H100.xml", 8, 16, 8 * 18},
                     {"oci-flattened-b4.xml", 8, 8, -1},
                     {"perlmutter-a100-4gpu-cxi.xml", 4, 4, 4 * 3 / 2 * 4},
                     {"rtx3090-8gpu-icelake-1ib.xml", 8, 1, 0},
                     {"rubin-mlopart-fragment.xml.partial", 2, 0, 2 * 36}});
}

TEST(ImportCollection, RcclModelsHoldWhatTheIndexSays) {
  hold("nccl-topo/rccl", {{"topo_16p1h.xml", 16, 8, 56},       {"topo_16p_gio-1s-1rp-cascade.xml", 16, 1, 112},
                          {"topo_3p_pcie.xml", 3, 1, 0},       {"topo_4p1h.xml", 4, 1, 8},
                          {"topo_4p2h.xml", 8, 1, 16},         {"topo_4p2h_2nic.xml", 8, 2, 16},
                          {"topo_4p3l.xml", 4, 2, 12},         {"topo_4p3l_ia.xml", 8, 1, 24},
                          {"topo_4p3l_n2_1.xml", 8, 1, 24},    {"topo_4p4h.xml", 16, 16, 48},
                          {"topo_4p_940.xml", 4, 4, 12},       {"topo_4p_942.xml", 4, 4, 12},
                          {"topo_8p1h.xml", 8, 4, 24},         {"topo_8p1h_2.xml", 8, 2, 24},
                          {"topo_8p1h_4.xml", 8, 8, 24},       {"topo_8p1h_n1.xml", 8, 4, 24},
                          {"topo_8p6l_1nic.xml", 8, 1, 48},    {"topo_8p6l_3nic.xml", 8, 3, 48},
                          {"topo_8p6l_5nic.xml", 8, 5, 48},    {"topo_8p_4nics.xml", 8, 4, 24},
                          {"topo_8p_90a_1.xml", 8, 1, 24},     {"topo_8p_940vm.xml", 8, 8, 56},
                          {"topo_8p_942.xml", 8, 8, 56},       {"topo_8p_pcie_1.xml", 8, 1, 0},
                          {"topo_8p_rome.xml", 8, 1, 16},      {"topo_8p_rome_4n_2.xml", 8, 4, 24},
                          {"topo_8p_rome_n2_1.xml", 8, 2, 16}, {"topo_8p_rome_n4.xml", 8, 1, 16},
                          {"topo_8p_rome_n4_1.xml", 8, 1, 24}, {"topo_8p_rome_pcie.xml", 8, 2, 0},
                          {"topo_8p_ts1_1.xml", 8, 2, 16},     {"topo_8p_ts1_n4_1.xml", 8, 2, 16},
                          {"topo_collnet_n1.xml", 8, 1, 24}});
}

TEST(ImportCollection, HwlocFilesHoldTheirGpus) {
  if (!fs::is_directory(collection())) GTEST_SKIP() << "no collection of files beside the source tree";
  const std::pair<const char*, int> expected[] = {{"mpibind/coral-ea-hwloc1.xml", 4},    {"mpibind/coral-lassen-hwloc1.xml", 4},
                                                  {"mpibind/coral-lassen.xml", 4},       {"mpibind/cts1-pascal.xml", 2},
                                                  {"mpibind/eas-tioga.xml", 8},          {"nvidiaDGX2.xml", 16},
                                                  {"mpibind/epyc-corona-hwloc1.xml", 4}, {"96em64t-4n4d3ca2co-pci.xml", 0},
                                                  {"16intel64-manyVFs.xml", 0},          {"cxlmem+dax.v2.xml", 0}};
  for (const auto& [name, gpus] : expected) {
    const auto file = import_file((collection() / "hwloc" / name).string());
    ASSERT_TRUE(file) << name;
    EXPECT_EQ(count_of(file->graph, DeviceKind::gpu), gpus) << name;
  }
}

/// Every element that is a device is one in the graph, every NUMA node and core of hwloc too.
TEST(ImportCollection, CountsAgreeWithTheElementsOfTheFiles) {
  if (!fs::is_directory(collection())) GTEST_SKIP() << "no collection of files beside the source tree";
  for (const fs::path& path : files_of("nccl-topo")) {
    const std::string text = std::regex_replace(read_whole(path), std::regex("<!--[^]*?-->"), "");
    const auto file = import_text(text, path.string());
    ASSERT_TRUE(file) << path;
    const int elements = count_in(text, "<gpu ");
    if (elements > 0) {
      EXPECT_EQ(count_of(file->graph, DeviceKind::gpu), elements) << path;
    }
    EXPECT_EQ(count_of(file->graph, DeviceKind::cpu), std::max(1, count_in(text, "<cpu "))) << path;
    if (count_in(text, "<net ") > 0) {
      EXPECT_EQ(count_of(file->graph, DeviceKind::nic), count_in(text, "<net ")) << path;
    }
  }
  for (const fs::path& path : files_of("hwloc")) {
    const std::string text = read_whole(path);
    const auto file = import_text(text, path.string());
    ASSERT_TRUE(file) << path;
    int domains = count_of(file->graph, DeviceKind::cpu);
    for (int d : file->graph.devices_of(DeviceKind::memory)) domains += file->graph.device(d).id.starts_with("memory-numa") ? 1 : 0;
    EXPECT_EQ(domains, count_in(text, "type=\"NUMANode\" os_index")) << path;
    const int cores = count_in(text, "<object type=\"Core\"");
    EXPECT_EQ(count_of(file->graph, DeviceKind::core), cores > 0 ? cores : count_in(text, "<object type=\"PU\"")) << path;
  }
}

TEST(ImportCollection, WhatIsImportedCanBeWrittenAsOwnYamlAndReadBack) {
  if (!fs::is_directory(collection())) GTEST_SKIP() << "no collection of files beside the source tree";
  for (const char* folder : {"nccl-topo", "nccl-graph", "hwloc"}) {
    for (const fs::path& path : files_of(folder)) {
      const auto file = import_file(path.string());
      ASSERT_TRUE(file) << path;
      const std::string yaml = export_yaml(file->graph);
      const auto again = read_cluster_text(yaml, "again.yaml");
      ASSERT_TRUE(again) << path << ": " << again.error().message;
      EXPECT_EQ(export_yaml(again->machine()), yaml) << path;
    }
  }
}

}  // namespace
}  // namespace peal::topology
