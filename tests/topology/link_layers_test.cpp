#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <topology/link_layers.hpp>

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kWhole =
    "layers:\n"
    "  - name: a\n"
    "    links: [nvlink-1]\n"
    "    physical: {end_ns: {is: 60, source: s}}\n"
    "    data_link: {crc_bits: {is: 25, source: s}, sequence_bits: {is: 12, source: s}, replay_bytes: {is: 9, source: s},\n"
    "      message_bytes: {is: 16, source: s}, timeout_round_trips: {is: 2, source: s}, refresh_ns: {is: 30000, source: s}}\n"
    "    transaction: {max_payload_bytes: {is: 256, source: s}, max_read_bytes: {is: 256, source: s},\n"
    "      read_reply_bytes: {is: 256, source: s}, credits: {is: 8, source: s}, outstanding: {is: 8, source: s}}\n";

std::string error_of_layers(const std::string& text) {
  const auto read = read_layers_text(text, "l.yaml");
  return read ? "accepted" : read.error().message;
}

TEST(LinkLayers, EveryFigureHasASourceAndEveryLinkIsInTheCatalogue) {
  const auto catalogue = layer_catalogue();
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  ASSERT_TRUE((*catalogue)->sharing);
  std::size_t figures = 0;
  for (const LinkLayers& record : (*catalogue)->layers) {
    EXPECT_FALSE(record.links.empty()) << record.name;
    for (const LayerFigure& f : record.figures) EXPECT_GT(f.source.size(), 6u) << record.name << " " << f.key;
    figures += record.figures.size();
    for (const std::string& name : record.links) {
      const auto& links = (*link_catalogue())->links;
      EXPECT_TRUE(std::any_of(links.begin(), links.end(), [&](const LinkGeneration& l) { return l.name == name || l.generation == name; }))
          << name;
    }
  }
  EXPECT_GT(figures, 100u);
}

TEST(LinkLayers, EveryNvlinkAndPcieIsDescribedOnce) {
  for (const LinkGeneration& link : (*link_catalogue())->links) {
    if (link.family != "nvlink" && link.family != "pcie") continue;
    int records = 0;
    for (const LinkLayers& record : (*layer_catalogue())->layers)
      for (const std::string& name : record.links) records += name == link.name || name == link.generation ? 1 : 0;
    EXPECT_EQ(records, 1) << link.name;
  }
}

TEST(LinkLayers, ARecordLikeAnotherTakesItsFiguresAndReplacesSome) {
  const std::string_view second = "  - {name: b, like: a, links: [nvlink-4], physical: {end_ns: {is: 70, source: t}}}\n";
  const auto read = read_layers_text(fmt::format("{}{}", kWhole, second), "l.yaml");
  ASSERT_TRUE(read) << read.error().message;
  const LinkLayers& b = read->layers.at(1);
  EXPECT_EQ(b.end_ns, 70);
  EXPECT_EQ(b.crc_bits, 25);
  EXPECT_EQ(b.links, (std::vector<std::string>{"nvlink-4"}));
  EXPECT_EQ(b.figures.size(), read->layers[0].figures.size());
  EXPECT_EQ(std::count_if(b.figures.begin(), b.figures.end(), [](const LayerFigure& f) { return f.source == "t"; }), 1);
}

TEST(LinkLayers, WhatSharingCostsMayDifferFromLinkToLink) {
  const auto read = read_layers_text(
      fmt::format("{}  - {{name: b, like: a, links: [nvlink-4], sharing: {{fault_us: {{is: 12, source: t}}}}}}\n", kWhole), "l.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->layers.at(0).sharing.figures.empty());
  EXPECT_EQ(read->layers.at(1).sharing.fault_us, 12);
  EXPECT_THAT(error_of_layers(fmt::format("{}    sharing: {{faults_us: {{is: 12, source: t}}}}\n", kWhole)), HasSubstr("faults_us"));

  const auto over = [](const char* name) {
    LinkLayers named;
    for (const LinkLayers& record : (*layer_catalogue())->layers)
      if (record.name == name) named = record;
    return *sharing_over(named);
  };
  const SharingFigures usual = over("pcie"), hopper = over("pcie-5");
  EXPECT_EQ(usual.fault_us, (*layer_catalogue())->sharing->fault_us);
  EXPECT_GT(hopper.fault_us, usual.fault_us) << "measured";
  EXPECT_EQ(hopper.page_bytes, usual.page_bytes) << "not given again";
  EXPECT_EQ(hopper.figures.size(), usual.figures.size());
}

TEST(LinkLayers, WhatIsWrongInAFileIsSaidWithItsLine) {
  const std::string whole(kWhole);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return error_of_layers(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(error_of_layers(whole), "accepted");
  EXPECT_THAT(with("end_ns", "ends_ns"), HasSubstr("l.yaml:4"));
  EXPECT_THAT(with("{is: 60, source: s}", "{is: 60}"), HasSubstr("source"));
  EXPECT_THAT(with("is: 60", "is: -1"), HasSubstr("l.yaml:4"));
  EXPECT_THAT(with("crc_bits: {is: 25, source: s}, ", ""), HasSubstr("has no crc_bits"));
  EXPECT_THAT(with("end_ns: {is: 60, source: s}", "fec_symbol_bits: {is: 10, source: s}"), HasSubstr("needs fec_symbols"));
  EXPECT_THAT(error_of_layers(fmt::format("{}  - {{name: b, like: c}}\n", kWhole)), HasSubstr("like 'c', which no record above is called"));
  EXPECT_THAT(error_of_layers("sharing: {line_bytes: {is: 128, source: s}}\n"), HasSubstr("sharing needs"));
}

}  // namespace
}  // namespace peal::topology
