#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <topology/describe.hpp>
#include <topology/machine.hpp>

#include "golden.hpp"
#include "source_tree.hpp"

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

Graph load_described(std::string_view name) {
  auto graph = load_machine(name);
  EXPECT_TRUE(graph) << graph.error().message;
  return std::move(*graph);
}

TEST(Describe, MatrixOfDgxMachinesIsTheRecordedOne) {
  EXPECT_EQ(describe_matrix(load_described("dgx-a100")), golden("matrix_dgx-a100.txt"));
  EXPECT_EQ(describe_matrix(load_described("dgx-h100")), golden("matrix_dgx-h100.txt"));
}

/// Cells of the rows "GPUi" and "NICi" of an `nvidia-smi topo -m` table, up to the affinity columns.
std::vector<std::vector<std::string>> cells_of(const std::string& table, const std::string& nic_word, std::size_t columns) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("GPU") && !line.starts_with(nic_word)) continue;
    std::istringstream words(line);
    std::string word;
    words >> word;
    std::vector<std::string> row;
    while (row.size() < columns && words >> word) row.push_back(word);
    rows.push_back(row);
  }
  return rows;
}

void compare_with_published(const std::string& machine, const std::string& file, const std::string& nic_word, std::size_t most_rows) {
  std::ifstream published(peal::test::in_source("../shared/data/nvidia-smi-topo/") + file);
  if (!published) GTEST_SKIP() << "no recorded tables beside this checkout";
  std::ostringstream text;
  text << published.rdbuf();
  const auto theirs = cells_of(text.str(), nic_word, 20);
  const auto ours = cells_of(describe_matrix(load_described(machine)), "NIC", 20);
  ASSERT_GE(theirs.size(), most_rows);
  for (std::size_t r = 0; r < most_rows; ++r) EXPECT_EQ(ours[r], theirs[r]) << "row " << r;
}

TEST(Describe, MatrixOfDgxA100IsThePublishedOne) { compare_with_published("dgx-a100", "dgx-a100-8gpu-12mlx5.txt", "mlx5_", 20); }
TEST(Describe, MatrixOfDgxH100IsThePublishedOne) { compare_with_published("dgx-h100", "dgx-h100-8gpu-12nic-truncated.txt", "NIC", 14); }

TEST(Describe, JsonHasTheContractsKeys) {
  const Graph g = load_described("dgx-h100");
  const auto root = nlohmann::json::parse(describe_json(g));
  ASSERT_EQ(root.size(), 3u);
  ASSERT_EQ(root.at("devices").size(), static_cast<std::size_t>(g.device_count()));
  ASSERT_EQ(root.at("links").size(), static_cast<std::size_t>(g.link_count()));
  EXPECT_TRUE(root.at("warnings").is_array());
  for (const auto& d : root["devices"]) {
    EXPECT_TRUE(d.at("id").is_string());
    EXPECT_TRUE(d.at("kind").is_string());
    EXPECT_TRUE(d.at("name").is_string());
  }
  double nvlink = 0;
  for (const auto& l : root["links"]) {
    EXPECT_GE(g.find(l.at("a").get<std::string>()), 0);
    EXPECT_GE(g.find(l.at("b").get<std::string>()), 0);
    EXPECT_TRUE(l.at("source").is_string());
    EXPECT_TRUE(l.at("latency_ns").is_number());
    if (l.at("kind") == "nvlink" && l["a"] == "gpu3") nvlink += l.at("GBps").get<double>() * l.at("count").get<int>();
  }
  EXPECT_NEAR(nvlink, 450, 1e-9);
}

TEST(Describe, JsonSurvivesBytesThatAreNoText) {
  Graph g;
  ASSERT_TRUE(g.add_device({.id = "a\xff\xfe", .name = "x\"\\\n"}));
  EXPECT_NO_THROW(EXPECT_EQ(nlohmann::json::parse(describe_json(g))["devices"].size(), 1u));
}

TEST(Describe, YamlReadsBackToAnEqualGraph) {
  for (const char* name : {"dgx-a100", "dgx-h100"}) {
    Graph g = load_described(name);
    g.add_warning("a warning with \"quotes\"");
    const std::string text = export_yaml(g);
    const auto back = read_cluster_text(text, "export.yaml");
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(export_yaml(back->machine()), text);
    EXPECT_EQ(describe_json(back->machine()), describe_json(g));
  }
}

TEST(Describe, DrawnClusterReadsBackToo) {
  const auto cluster = build_cluster("dgx-h100", 2);
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto graph = cluster->graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const auto back = read_cluster_text(export_yaml(*graph), "export.yaml");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(describe_json(back->machine()), describe_json(*graph));
}

TEST(Describe, TextSaysTheSumsAndTheSources) {
  const std::string text = describe_text(load_described("dgx-h100"));
  EXPECT_THAT(text, HasSubstr("8 x gpu"));
  EXPECT_THAT(text, HasSubstr("gpu0-7"));
  EXPECT_THAT(text, HasSubstr("450 GB/s of NVLink each way, 900 both ways"));
  EXPECT_THAT(text, HasSubstr("nvidia.com"));
  EXPECT_THAT(describe_links(load_described("dgx-a100")), HasSubstr("nvswitch5"));
}

TEST(Describe, DrawingsNameEveryDeviceOnceAndCloseEveryElement) {
  const Graph g = load_described("dgx-a100");
  const std::string svg = draw_svg(g);
  for (const Device& d : g.devices()) EXPECT_THAT(svg, HasSubstr("<title>" + d.id + ":"));
  const auto count = [&](const std::string& word) {
    std::size_t n = 0;
    for (std::size_t at = svg.find(word); at != std::string::npos; at = svg.find(word, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<g data-hidden-links=\"0\">"), static_cast<std::size_t>(g.device_count()));
  EXPECT_EQ(count("<g "), count("</g>"));
  EXPECT_EQ(count("<path"), static_cast<std::size_t>(g.link_count()));
  EXPECT_EQ(count("nan"), 0u);
  EXPECT_NO_FATAL_FAILURE(draw_svg(Graph()));
}

TEST(Describe, DotQuotesItsNames) {
  Graph g;
  ASSERT_TRUE(g.add_device({.id = "a\"b"}));
  ASSERT_TRUE(g.add_device({.id = "c"}));
  ASSERT_TRUE(g.add_link({.a = 0, .b = 1, .bandwidth = Bandwidth::gigabytes(1)}));
  EXPECT_THAT(export_dot(g), HasSubstr("\"a\\\"b\" -- \"c\""));
}

TEST(Describe, MachinesAreListed) {
  const auto table = describe_machines();
  ASSERT_TRUE(table);
  EXPECT_THAT(*table, HasSubstr("dgx-a100"));
}

}  // namespace
}  // namespace peal::topology
