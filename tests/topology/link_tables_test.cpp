#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <topology/link_tables.hpp>

#include "golden.hpp"

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

const LinkCatalogue& catalogue() {
  const auto read = link_catalogue();
  EXPECT_TRUE(read) << read.error().message;
  return **read;
}

/// The line of a text that holds `word`.
std::string line_of(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  if (at == std::string::npos) return {};
  const auto start = text.rfind('\n', at) + 1;
  return text.substr(start, text.find('\n', at) - start);
}

TEST(LinkTables, NvlinkFromLaneToDeviceIsGolden) {
  LinkCatalogue nvlink;
  for (const LinkGeneration& l : catalogue().links)
    if (l.family == "nvlink") nvlink.links.push_back(l);
  EXPECT_EQ(link_tables(nvlink, true), golden("links_nvlink.txt"));
}

TEST(LinkTables, EverySectionIsThereAndEveryNoteIsListed) {
  const std::string text = link_tables(catalogue(), true);
  for (const char* title : {"PCI Express", "NVLink\n", "NVSwitch", "xGMI", "Ascend HCCS", "Between sockets", "Memory", "InfiniBand\n",
                            "Ethernet and what runs over it", "How TCP, iWARP, RoCE v2 and InfiniBand compare", "Outlook", "\nSources\n"})
    EXPECT_THAT(text, HasSubstr(title));
  int highest = 0;
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1))
    highest = std::max(highest, std::atoi(&text[at + 1]));
  EXPECT_GT(highest, 50);
  for (int n = 1; n <= highest; ++n) EXPECT_THAT(text, HasSubstr(fmt::format("\n  [{}] ", n)));
  EXPECT_LT(text.find("[1]"), text.find("[2]"));  // numbered as they are read
  EXPECT_THAT(link_tables(catalogue(), false), HasSubstr("--links --sources"));
}

TEST(LinkTables, WhatTheEncodingDoesNotExplainIsSaid) {
  const std::string text = link_tables(catalogue(), false);
  EXPECT_THAT(line_of(text, "a P100 if 8b/10b"), ::testing::AllOf(HasSubstr("128"), HasSubstr("160 is published")));
  EXPECT_THAT(line_of(text, "a V100 if 8b/10b"), ::testing::AllOf(HasSubstr("240"), HasSubstr("300 is published")));
  EXPECT_THAT(line_of(text, "NVLink 4: a link if 128b/130b"), HasSubstr("886"));
}

TEST(LinkTables, SwitchesAndMemoriesGiveThePublishedTotals) {
  for (const SwitchGeneration& s : catalogue().switches) EXPECT_NEAR(2 * s.ports * s.port.gigabytes(), s.both.gigabytes(), 1e-9) << s.name;
  EXPECT_EQ(catalogue().switches.size(), 4u);
  ASSERT_GT(catalogue().memories.size(), 15u);
  for (const MemoryGeneration& m : catalogue().memories) {
    if (m.published.value <= 0) continue;
    EXPECT_NEAR(m.bandwidth.gigabytes(), m.published.gigabytes(), 0.01 * m.published.gigabytes()) << m.name;
  }
}

TEST(LinkTables, SharesOfDataFollowFromThePartsOfAPacket) {
  const auto share = [](const std::string& name, int payload) {
    const auto& frames = catalogue().frames;
    const auto it = std::find_if(frames.begin(), frames.end(), [&](const FrameOverhead& f) { return f.name == name; });
    return it == frames.end() ? 0 : it->share(payload);
  };
  EXPECT_NEAR(share("tlp-64", 128), 128.0 / 152, 1e-12);
  EXPECT_NEAR(share("tlp-32", 256), 256.0 / 276, 1e-12);
  EXPECT_NEAR(share("tcp", 1448), 1448.0 / 1538, 1e-12);  // a frame of 1500 bytes takes 1538 on the wire
  EXPECT_NEAR(share("iwarp", 1428), 1428.0 / 1538, 1e-12);
  EXPECT_NEAR(share("roce-v2", 4096), 4096.0 / 4178, 1e-12);
}

TEST(LinkTables, FactsAndFramesHaveSources) {
  for (const LinkFact& f : catalogue().facts) EXPECT_GT(f.source.size(), 7u) << f.about << " " << f.what;
  for (const FrameOverhead& f : catalogue().frames) EXPECT_GT(f.source.size(), 10u) << f.name;
  for (const SwitchGeneration& s : catalogue().switches) EXPECT_GT(s.source.size(), 10u) << s.name;
  for (const MemoryGeneration& m : catalogue().memories) EXPECT_GT(m.source.size(), 10u) << m.name;
}

TEST(LinkTables, JsonHasEveryRecordWithItsArithmetic) {
  const auto json = nlohmann::json::parse(link_tables_json(catalogue()));
  EXPECT_EQ(json["links"].size(), catalogue().links.size());
  for (const char* list : {"switches", "memories", "frames", "facts"})
    for (const auto& record : json[list]) EXPECT_TRUE(record.contains("source")) << list;
  const auto it = std::find_if(json["links"].begin(), json["links"].end(), [](const auto& l) { return l["name"] == "nvlink-4"; });
  ASSERT_NE(it, json["links"].end());
  EXPECT_EQ((*it)["arithmetic"], "100 Gb/s x 2 / 8");
  EXPECT_EQ((*it)["uses"][0]["both_ways_GBps"], 900);
}

}  // namespace
}  // namespace peal::topology
