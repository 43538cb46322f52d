#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <topology/constants.hpp>
#include <topology/describe.hpp>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>

namespace peal::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

double rate_of(std::string_view name) {
  const auto link = link_generation(name);
  EXPECT_TRUE(link) << link.error().message;
  return link ? (*link)->bandwidth.gigabytes() : 0;
}

double usable_of(std::string_view name) {
  const auto link = link_generation(name);
  EXPECT_TRUE(link) << link.error().message;
  return link ? (*link)->usable.gigabytes() : 0;
}

std::string error_of_links(std::string_view text) {
  const auto read = read_links_text(text, "l.yaml");
  return read ? std::string("accepted") : read.error().message;
}

Link link_of(const std::string& words) {
  const auto cluster =
      read_cluster_text("devices:\n  - {id: \"g[0-1]\", kind: gpu}\nlinks:\n  - {a: g0, b: g1, " + words + "}\n", "m.yaml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return cluster ? cluster->machine().link(0) : Link{};
}

TEST(LinkCatalogue, LineRatesFollowFromLaneAndCoding) {
  EXPECT_NEAR(rate_of("pcie-3-x16"), 15.75, 0.01);
  EXPECT_NEAR(rate_of("pcie-4-x16"), 31.5, 0.01);
  EXPECT_NEAR(rate_of("pcie-5-x16"), 63.0, 0.02);
  EXPECT_NEAR(rate_of("pcie-6-x16"), 121, 1e-9);
  EXPECT_NEAR(rate_of("pcie-5-x4") * 4, rate_of("pcie-5-x16"), 1e-9);
  EXPECT_NEAR(rate_of("nvlink-1"), 20, 1e-9);
  EXPECT_NEAR(rate_of("nvlink-2"), 25, 1e-9);
  EXPECT_NEAR(rate_of("nvlink-3"), 25, 1e-9);
  EXPECT_NEAR(rate_of("nvlink-4"), 25, 1e-9);
  EXPECT_NEAR(rate_of("nvlink-5"), 50, 1e-9);
  EXPECT_NEAR(rate_of("infiniband-edr-x4"), 12.5, 1e-9);
  EXPECT_NEAR(rate_of("infiniband-hdr-x4"), 25, 1e-9);
  EXPECT_NEAR(rate_of("infiniband-ndr-x4"), 50, 1e-9);
  EXPECT_NEAR(rate_of("infiniband-xdr-x4"), 100, 1e-9);
  EXPECT_NEAR(rate_of("ethernet-10"), 1.25, 1e-9);
  EXPECT_NEAR(rate_of("roce-800"), 100, 1e-9);
}

TEST(LinkCatalogue, UsableRatesAreThePlanningFigures) {
  EXPECT_DOUBLE_EQ(usable_of("pcie-3-x16"), 12);
  EXPECT_DOUBLE_EQ(usable_of("pcie-4-x16"), 24);
  EXPECT_DOUBLE_EQ(usable_of("pcie-5-x16"), 48);
  EXPECT_DOUBLE_EQ(usable_of("pcie-5-x8"), 24);
  EXPECT_DOUBLE_EQ(usable_of("nvlink-3"), 20);
  EXPECT_DOUBLE_EQ(usable_of("nvlink-4"), 20.6);
  EXPECT_DOUBLE_EQ(usable_of("infiniband-ndr-x4"), 48);
  EXPECT_DOUBLE_EQ(usable_of("infiniband-xdr-x4"), 100);  // nobody states better: the line rate
}

TEST(LinkCatalogue, EveryRecordHasASourceAndConstants) {
  const auto catalogue = link_catalogue();
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  ASSERT_GT((*catalogue)->links.size(), 60u);
  std::set<std::string> families;
  for (const LinkGeneration& l : (*catalogue)->links) {
    families.insert(l.family);
    EXPECT_GT(l.source.size(), 10u) << l.name;
    EXPECT_EQ(l.usable < l.bandwidth, !l.usable_source.empty() && l.usable != l.bandwidth) << l.name;
    for (const LinkUse& use : l.uses) EXPECT_GT(use.source.size(), 10u) << l.name << " " << use.device;
    Graph graph;
    ASSERT_TRUE(graph.add_device({.id = "a"}) && graph.add_device({.id = "b"}));
    const auto added = graph.add_link({.a = 0, .b = 1, .kind = l.kind, .bandwidth = l.bandwidth, .scope = l.scope});
    ASSERT_TRUE(added);
    EXPECT_TRUE(constants_for(graph.link(0).scope, "staged")) << l.name;
  }
  EXPECT_EQ(families, (std::set<std::string>{"cpu", "ethernet", "hccs", "infiniband", "nvlink", "pcie", "xgmi"}));
}

TEST(LinkCatalogue, TotalsOfDevicesAreThePublishedOnes) {
  const auto catalogue = link_catalogue();
  ASSERT_TRUE(catalogue);
  int checked = 0;
  for (const LinkGeneration& l : (*catalogue)->links)
    for (const LinkUse& use : l.uses) {
      if (use.both.value <= 0) continue;
      EXPECT_NEAR(l.bandwidth.gigabytes() * use.links * 2, use.both.gigabytes(), 0.005 * use.both.gigabytes())
          << l.name << " " << use.device;
      ++checked;
    }
  EXPECT_GT(checked, 10);
}

TEST(LinkCatalogue, PcieIsFoundByTheSpeedThatToolsPrint) {
  const std::vector<std::pair<double, std::string>> printed = {{2.5, "pcie-1-x1"}, {5, "pcie-2-x1"},  {8, "pcie-3-x1"},
                                                               {16, "pcie-4-x1"},  {32, "pcie-5-x1"}, {64, "pcie-6-x1"}};
  for (const auto& [speed, name] : printed) {
    ASSERT_NE(pcie_generation(speed), nullptr) << name;
    EXPECT_EQ(pcie_generation(speed * 1.01)->name, name);
  }
  EXPECT_EQ(pcie_generation(20), nullptr);
  EXPECT_EQ(pcie_generation(0), nullptr);
  EXPECT_DOUBLE_EQ(pcie_generation(5)->coding_share, 0.8);
  EXPECT_DOUBLE_EQ(pcie_generation(32)->coding_share, 128.0 / 130);
  EXPECT_DOUBLE_EQ(pcie_generation(64)->coding_share, 242.0 / 256);
  const LinkGeneration wide = pcie_generation(16)->of_width(12);
  EXPECT_EQ(wide.title, "PCIe 4.0 x12");
  EXPECT_NEAR(wide.bandwidth.gigabytes(), 16 * 12 * 128.0 / 130 / 8, 1e-9);
  EXPECT_NEAR(wide.usable.gigabytes(), 18, 1e-9);
}

TEST(LinkCatalogue, UnknownNamesSayTheNearest) {
  const auto result = link_generation("nvlink-44");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("did you mean 'nvlink-4'"), HasSubstr("peal machines --links")));
}

TEST(LinkCatalogue, AnyOrderOfBrokenTextNamesTheLine) {
  const std::string head = "family: x\nlinks:\n  - name: n\n    title: N\n    kind: nvlink\n";
  EXPECT_THAT(error_of_links(head), HasSubstr("has no line"));
  EXPECT_THAT(error_of_links(head + "    line: {lane_Gbps: 10, source: s}\n"), AllOf(HasSubstr("l.yaml:6:"), HasSubstr("lanes")));
  EXPECT_THAT(error_of_links(head + "    line: {lane_Gbps: 10, lanes: 8, GBps: 12, source: s}\n"),
              HasSubstr("is 10 GB/s, the line says 12"));
  EXPECT_THAT(error_of_links(head + "    line: {lane_Gbps: 10, lanes: 8, coding: 8b/10b, source: s}\n"), HasSubstr("128/130"));
  EXPECT_THAT(error_of_links(head + "    line: {lane_Gbps: 10, lanes: 8, coding: 130/128, source: s}\n"), HasSubstr("128/130"));
  EXPECT_THAT(error_of_links(head + "    line: {lane_Gbps: 10, lanes: 8}\n"), HasSubstr("'source'"));
  EXPECT_THAT(error_of_links(head + "    line: {GBps: 10, source: s}\n    usable: {GBps: 11, source: s}\n"),
              HasSubstr("usable of 'n' is 11"));
  EXPECT_THAT(error_of_links(head + "    line: {GBps: 10, source: s}\n    usable: {GBps: 9}\n"), HasSubstr("'source'"));
  EXPECT_THAT(error_of_links(head + "    line: {GBps: 10, source: s}\n    widths: [1, a]\n"), HasSubstr("widths"));
  EXPECT_THAT(error_of_links("family: x\nlinks:\n  - {name: A B, title: t, kind: pcie, line: {GBps: 1, source: s}}\n"),
              HasSubstr("no name"));
  const std::string one = "  - {name: n, title: t, kind: pcie, line: {GBps: 1, source: s}}\n";
  EXPECT_THAT(error_of_links("family: x\nlinks:\n" + one + one), HasSubstr("twice"));
  EXPECT_THAT(error_of_links("links: []\n"), HasSubstr("'family'"));
  EXPECT_THAT(error_of_links("family: x\nfacts:\n  - {about: a, what: b, source: s}\n"), HasSubstr("a value or a text"));
  EXPECT_THAT(error_of_links("family: x\nfacts:\n  - {about: a, what: b, value: [3, 2], source: s}\n"), HasSubstr("ends below"));
  EXPECT_THAT(error_of_links("family: x\nmemories:\n  - {name: a, title: t, device: d, bits: 64, source: s}\n"), HasSubstr("pin_Gbps"));
  EXPECT_EQ(error_of_links("family: x\n"), "accepted");
}

TEST(OfInMachineFiles, GivesKindRatesScopeAndSources) {
  const Link link = link_of("of: nvlink-3, count: 4");
  EXPECT_EQ(link.kind, LinkKind::nvlink);
  EXPECT_DOUBLE_EQ(link.bandwidth.gigabytes(), 25);
  EXPECT_DOUBLE_EQ(link.usable.gigabytes(), 20);
  EXPECT_EQ(link.count, 4);
  EXPECT_EQ(link.scope, "nvlink-a100");
  EXPECT_THAT(link.source, HasSubstr("NVLink 3: 50 Gb/s x 4 / 8"));
  EXPECT_THAT(link.usable_source, HasSubstr("SM80"));
  EXPECT_THAT(link_of("of: pcie-5-x16").source, HasSubstr("32 Gb/s x 16 x 128/130 / 8"));
}

TEST(OfInMachineFiles, WhatIsWrittenBesideItWins) {
  EXPECT_DOUBLE_EQ(link_of("of: nvlink-3, GBps: 26").bandwidth.gigabytes(), 26);
  EXPECT_THAT(link_of("of: nvlink-3, GBps: 26").source, HasSubstr("declared in m.yaml:4"));
  EXPECT_DOUBLE_EQ(link_of("of: nvlink-3, GBps: 10").usable.gigabytes(), 10);  // never above its own line rate
  EXPECT_DOUBLE_EQ(link_of("of: nvlink-3, usable_GBps: 22.5").usable.gigabytes(), 22.5);
  EXPECT_DOUBLE_EQ(link_of("of: nvlink-3, latency_ns: 40").latency.value, 40);
  EXPECT_EQ(link_of("of: nvlink-3, scope: pcie").scope, "pcie");
  EXPECT_EQ(link_of("of: nvlink-3, kind: xgmi").kind, LinkKind::xgmi);
  EXPECT_EQ(link_of("of: nvlink-3, usable_source: my test").usable_source, "my test");
  // A source beside it says how it is wired; the rate's own source stays.
  EXPECT_THAT(link_of("of: nvlink-3, source: topo -m").source, AllOf(HasSubstr("topo -m; "), HasSubstr("NVLink 3")));
}

TEST(OfInMachineFiles, PortsTakeNetworksOnly) {
  const std::string head = "devices:\n  - {id: g, kind: gpu}\n  - {id: n, kind: nic, rail: 0, port: {of: ";
  const auto cluster = read_cluster_text(head + "infiniband-ndr-x4, latency_ns: 600}}\n", "m.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const Port& port = *cluster->machine().device(1).port;
  EXPECT_EQ(port.kind, LinkKind::infiniband);
  EXPECT_NEAR(port.bandwidth.gigabytes(), 50, 1e-9);
  EXPECT_DOUBLE_EQ(port.usable.gigabytes(), 48);
  EXPECT_DOUBLE_EQ(port.latency.value, 600);
  EXPECT_EQ(port.scope, "infiniband");
  EXPECT_THAT(port.source, AllOf(HasSubstr("InfiniBand NDR x4"), HasSubstr("; usable: ")));
  const auto refused = read_cluster_text(head + "nvlink-4}}\n", "m.yaml");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("m.yaml:3:"), HasSubstr("infiniband or ethernet")));
}

TEST(OfInMachineFiles, AnUnknownGenerationNamesFileLineAndTheNearest) {
  const auto read = read_cluster_text("devices:\n  - {id: \"g[0-1]\", kind: gpu}\nlinks:\n  - {a: g0, b: g1, of: pcie-5-x17}\n", "m.yaml");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, AllOf(HasSubstr("m.yaml:4:"), HasSubstr("pcie-5-x1")));
}

TEST(OfInMachineFiles, ExportSpellsTheFiguresOutAndReadsBack) {
  const auto cluster = read_cluster_text(
      "devices:\n  - {id: \"g[0-1]\", kind: gpu}\n  - {id: n, kind: nic, rail: 0, port: {of: roce-100}}\nlinks:\n  - {a: g0, b: g1, of: "
      "hccs-910b}\n"
      "  - {a: g0, b: n, of: pcie-6-x8}\n",
      "m.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const std::string text = export_yaml(cluster->machine());
  const auto again = read_cluster_text(text, "again.yaml");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(export_yaml(again->machine()), text);
  EXPECT_EQ(again->machine().link(0).kind, LinkKind::hccs);
}

}  // namespace
}  // namespace peal::topology
