#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sim/link_report.hpp>
#include <topology/constants.hpp>

namespace peal::sim {
namespace {

using ::testing::HasSubstr;
using enum LinkOperation;

LinkModel model_of(std::string_view name) {
  const auto model = link_model(name);
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : LinkModel{};
}

LinkOutcome simulated(const LinkModel& model, const LinkQuestion& question, const LinkHooks& hooks = {}) {
  const auto outcome = simulate_link(model, question, hooks);
  EXPECT_TRUE(outcome) << outcome.error().message;
  return outcome ? *outcome : LinkOutcome{};
}

std::string refusal(const LinkModel& model, const LinkQuestion& question) {
  const auto outcome = simulate_link(model, question);
  return outcome ? "accepted" : outcome.error().message;
}

/// The oracle of the data link layer. Every packet that an end hands over a channel must come, once, in the order of its number.
struct Oracle {
  std::map<std::pair<int, LinkChannel>, std::uint64_t> next;
  std::uint64_t delivered = 0, wrong = 0;
  std::string first_wrong;

  LinkHooks hooks() {
    return {.on_delivery = [this](const LinkDelivery& d) {
      ++delivered;
      if (d.packet == next[{d.to, d.channel}]++) return;
      if (wrong++ == 0) first_wrong = fmt::format("packet {} of channel {} at end {}", d.packet, static_cast<int>(d.channel), d.to);
    }};
  }
};

constexpr const char* kLinks[] = {"nvlink-1",  "nvlink-3",  "nvlink-5",   "nvlink-c2c-gh200", "pcie-1-x1",
                                  "pcie-2-x4", "pcie-4-x8", "pcie-5-x16", "pcie-6-x16",       "pcie-6-x4"};

// ---- published figures ----

struct Published {
  const char* link;
  LinkQuestion question;
  double share;
  double within = 0.001;
};

// NVLink: en.wikichip.org/wiki/NVLink (these lines of it not seen): 94.12 and 80 % one way, 88.9 and 66.7 % both ways, for 256 and 64
// bytes. With an address extension 256 bytes take 18 flits (Pascal whitepaper v1.2, as quoted in public). PCIe: 256 / (256 + 20) = 92 %
// with a header of three double words, as a completion has it, messages left out: intel.com/content/www/us/en/docs/programmable/683541.
TEST(SimLink, PublishedSharesComeOutOfThePackets) {
  const Published rows[] = {{"nvlink-1", {.payload = 256}, 0.9412},
                            {"nvlink-1", {.payload = 64}, 0.80},
                            {"nvlink-1", {.operation = write, .is_both_ways = true, .payload = 256}, 0.889},
                            {"nvlink-1", {.operation = read, .is_both_ways = true, .payload = 256}, 0.889},
                            {"nvlink-1", {.operation = write, .is_both_ways = true, .payload = 64}, 0.667},
                            {"nvlink-1", {.payload = 256, .extra_flits = 1}, 0.889},
                            {"pcie-3-x16", {.operation = read, .payload = 256}, 0.9275, 0.006}};
  for (const Published& row : rows)
    EXPECT_NEAR(simulated(model_of(row.link), row.question).share, row.share, row.within) << row.link << " " << row.question.payload;
}

/// The fact of data/links that says this about that, in its unit.
topology::LinkFact fact(std::string_view about, std::string_view what) {
  for (const auto& f : (*topology::link_catalogue())->facts)
    if (f.about == about && f.what == what) return f;
  ADD_FAILURE() << "no fact about " << about << ": " << what;
  return {};
}

// Where nothing but the link is in the way, the packets explain what was measured.
TEST(SimLink, MeasuredCopiesUnderOnePcieSwitchAreThePacketsOf256Bytes) {
  const LinkModel link = model_of("pcie-5-x16");
  const auto one = fact("PCIe 5.0 x16", "GPU to GPU under one switch, one way");
  const double goodput = simulated(link, {}).goodput;
  EXPECT_GT(goodput, one.low * 0.99);
  EXPECT_LT(goodput, one.high * 1.01);
  const auto both = fact("PCIe 5.0 x16", "GPU to GPU under one switch, both ways together");
  EXPECT_NEAR(2 * simulated(link, {.is_both_ways = true}).goodput, both.high, 0.04 * both.high);
  // Through a root complex that forwards 64 bytes at a time (data/links/pcie.yaml) it is the packets of 64 bytes.
  const auto host = fact("PCIe 4.0 x16", "GPU to GPU, peer to peer, one way");
  EXPECT_NEAR(simulated(model_of("pcie-4-x16"), {.payload = 64}).goodput, host.high, 0.06 * host.high);
}

TEST(SimLink, NoMeasuredCopyIsFasterThanItsPackets) {
  const auto check = [](const char* link, int links, std::string_view about, std::string_view what, double allowed) {
    const auto f = fact(about, what);
    EXPECT_LT(f.high, allowed * links * simulated(model_of(link), {}).goodput) << about;
    EXPECT_GT(f.high, 0.85 * links * simulated(model_of(link), {}).goodput) << about;
  };
  check("nvlink-1", 1, "NVLink 1", "copies of one GPU by another, one way", 1);
  // V100: 48.46 GB/s a direction over two links that are 2 x 25 by the data sheet and 2 x 25.78 by the driver; by the latter it holds.
  check("nvlink-2", 4, "NVLink 2", "copies of one GPU by another, both ways together", 25.781 / 25);
  check("nvlink-3", 12, "NVLink 3", "copies of one GPU by another, one way", 1);
  check("nvlink-4", 18, "NVLink 4", "copies of one GPU by another, one way", 1);
  check("nvlink-5", 18, "NVLink 5", "copies of one GPU by another, one way", 1);
  check("pcie-4-x16", 1, "PCIe 4.0 x16", "copy from the host, one way", 1);
  check("pcie-5-x16", 1, "PCIe 5.0 x16", "copy from or to the host, one way", 1);
  check("pcie-5-x16", 2, "PCIe 5.0 x16", "copy from and to the host, both ways together", 1);
}

// ---- against closed forms ----

TEST(SimLink, GoodputIsTheClosedFormWithoutErrors) {
  for (const char* name : kLinks) {
    const LinkModel model = model_of(name);
    for (const LinkOperation operation : {posted_write, write, read, atomic})
      for (const int payload : {64, 256, 1000})
        for (const bool both : {false, true}) {
          LinkQuestion question = {.operation = operation, .is_both_ways = both, .payload = payload, .operations = 1};
          // Twice what is under way at the full rate, and many times that in all: then filling and emptying do not count.
          const double share = link_share(model, question);
          const double latency = simulated(model, question).latency_ns;
          question.outstanding = static_cast<int>(2 * latency * share * model.link.bandwidth.gigabytes() / payload) + 8;
          question.operations = 4 * *question.outstanding + 400;
          const LinkOutcome outcome = simulated(model, question);
          const std::string what = fmt::format("{} {} {} {}", name, name_of(operation), payload, both ? "both" : "one");
          EXPECT_LT(outcome.share / share, 1.01) << what;
          // Messages of their own take up to a byte in fourteen of a narrow link's other direction.
          EXPECT_GT(outcome.share / share, model.layers.ack_rides > 0 ? 0.98 : 0.92) << what;
          EXPECT_EQ(outcome.broken + outcome.replayed + outcome.timeouts, 0u) << what;
        }
  }
}

TEST(SimLink, LatencyIsSerialisationEndsCableCodeAndTarget) {
  const LinkModel model = model_of("nvlink-4");
  const auto& l = model.layers;
  const double word = 5440 / 8 / 25.0;
  for (const double metres : {0.0, 1.0, 20.0}) {
    const double one_way = 2 * l.end_ns + 4.9 * metres + word + l.fec_decode_ns;
    EXPECT_NEAR(simulated(model, {.operations = 2, .metres = metres}).latency_ns, 272 / 25.0 + one_way, 1e-6);
    EXPECT_NEAR(simulated(model, {.operation = read, .operations = 2, .metres = metres}).latency_ns,
                16 / 25.0 + 272 / 25.0 + 2 * one_way + l.target_ns, 1e-6);
  }
  // A flit that is its own code word is not waited for twice.
  const LinkModel flits = model_of("pcie-6-x16");
  EXPECT_NEAR(simulated(flits, {.payload = 200, .operations = 2}).latency_ns, 256 / 128.0 + flits.one_way_ns(flits.layers.metres), 1e-6);
}

// One credit: a packet goes, lies in the buffer, and its room comes back in an idle flit.
TEST(SimLink, FewCreditsLimitGoodputToTheirRoundTrip) {
  const LinkModel model = model_of("nvlink-3");
  const double loop = 272 / 25.0 + 16 / 25.0 + 2 * model.one_way_ns(model.layers.metres) + model.layers.drain_ns;
  EXPECT_NEAR(simulated(model, {.operations = 500, .credits = 1}).goodput, 256 / loop, 1e-6 * 256 / loop);
  double before = 0;
  for (const int credits : {1, 2, 4, 8, 16, 32, 64}) {
    const double goodput = simulated(model, {.operations = 3000, .credits = credits}).goodput;
    EXPECT_NEAR(goodput, std::min(credits * 256 / loop, 25.0 * 16 / 17), 0.05 * goodput) << credits;
    EXPECT_GT(goodput, before * 0.999);
    before = goodput;
  }
  // A longer cable needs more of them.
  EXPECT_LT(simulated(model, {.credits = 64, .metres = 100.0}).share, 0.8 * simulated(model, {.credits = 64, .metres = 1.0}).share);
}

TEST(SimLink, OperationsUnderWayLimitGoodputAsLittleSays) {
  const LinkModel model = model_of("pcie-4-x16");
  const double latency = simulated(model, {.operation = read, .payload = 64, .operations = 2}).latency_ns;
  for (const int n : {1, 4, 16})
    EXPECT_NEAR(simulated(model, {.operation = read, .payload = 64, .operations = 3000, .outstanding = n}).goodput, n * 64 / latency,
                0.05 * n * 64 / latency);
}

// Go-back-N with NAK: a broken packet costs itself, what was sent until the NAK came back, and half of what is being sent then.
TEST(SimLink, AnErrorCostsARoundTripOfPackets) {
  const LinkModel model = model_of("pcie-5-x16");
  const double packet = 280 / model.wire_rate();
  const double lost = 2 * model.one_way_ns(model.layers.metres) + packet + 8 / model.wire_rate() + packet / 2;
  for (const double ber : {1e-7, 1e-6, 4e-6}) {
    const double broken = -std::expm1(280 * 8 * std::log1p(-ber));
    const LinkOutcome outcome = simulated(model, {.operations = 100'000, .ber = ber});
    EXPECT_NEAR(outcome.share / link_share(model, {}), 1 / (1 + broken * lost / packet), 0.02) << ber;
    EXPECT_NEAR(static_cast<double>(outcome.broken), broken * 1e5, 5 * std::sqrt(broken * 1e5) + 0.4 * broken * 1e5) << ber;
  }
  // NVLink has no NAK: the timer finds the same errors later, so they cost more.
  const LinkOutcome timed = simulated(model_of("nvlink-4"), {.ber = 1e-6});
  EXPECT_GT(timed.timeouts, 20u);
  EXPECT_LT(timed.share, 0.95 * link_share(model_of("nvlink-4"), {}));
}

// IEEE 802.3 relates 2.4e-4 in front of RS(544,514) to 9.2e-13 lost frames of 64 bytes: nearly its lost code words, which hold many.
TEST(SimLink, TheCorrectingCodeLeavesWhatItsWordsCannotCorrect) {
  const LinkModel nvlink = model_of("nvlink-4");
  EXPECT_NEAR(code_word_failure(nvlink, 2.4e-4) / 9.2e-13, 1, 0.2);
  EXPECT_LT(ber_after_correction(nvlink, 1e-6), 1e-30);
  // Two wrong bytes of 86, each with probability 8e-6.
  EXPECT_NEAR(code_word_failure(model_of("pcie-6-x16"), 1e-6) / (86 * 85 / 2 * 64e-12), 1, 0.01);
  EXPECT_DOUBLE_EQ(ber_after_correction(model_of("nvlink-3"), 1e-9), 1e-9);
  double before = 0;
  for (const double ber : {1e-7, 1e-5, 1e-4, 1e-3, 1e-2}) {
    EXPECT_GT(ber_after_correction(nvlink, ber), before);
    before = ber_after_correction(nvlink, ber);
  }
}

// A unit of 2176 bits with six wrong ones, of which one in 2^25 passes: 92 million units a second, 0.43e3 a year times 3e-8.
TEST(SimLink, AChecksumIsEnoughWhereErrorsAreRare) {
  const LinkModel model = model_of("nvlink-4");
  const double a_year = 25e9 / 272 * 365.25 * 24 * 3600, six = std::pow(2176e-6, 6) / 720;
  EXPECT_NEAR(simulated(model, {.operations = 1000, .ber = 1e-6}).undetected / (a_year * six / (1 << 25)), 1, 0.3);
  EXPECT_LT(simulated(model, {.operations = 1000, .ber = 1e-9}).undetected, 1e-20);
}

// ---- replay ----

TEST(SimLink, EveryErrorIsRecoveredInOrderExactlyOnce) {
  for (const char* name : kLinks) {
    const LinkModel model = model_of(name);
    for (const LinkOperation operation : {posted_write, write, read, atomic})
      for (const double ber : {1e-6, 2e-5, 2e-4})
        for (const std::uint64_t seed : {1, 2}) {
          const LinkQuestion question = {.operation = operation,
                                         .is_both_ways = true,
                                         .payload = operation == atomic ? 16 : 600,
                                         .operations = 300,
                                         .ber = ber,
                                         .credits = seed == 1 ? 3 : 100,
                                         .seed = seed};
          Oracle oracle;
          const LinkOutcome outcome = simulated(model, question, oracle.hooks());
          EXPECT_EQ(oracle.wrong, 0u) << name << " " << name_of(operation) << " ber " << ber << " seed " << seed << ": "
                                      << oracle.first_wrong;
          EXPECT_EQ(oracle.delivered, outcome.packets) << name << " " << name_of(operation) << " ber " << ber << " seed " << seed;
          if (ber > 1e-4) {
            EXPECT_GT(outcome.broken, 3u) << name;
            EXPECT_GT(outcome.replayed, 3u) << name;
          }
        }
  }
}

// Each of the first pieces of either direction in turn: data, acknowledgements, requests for replay, credits; then also its replay.
TEST(SimLink, AnySinglePieceAndItsReplayMayBreak) {
  for (const char* name : {"nvlink-2", "pcie-3-x16", "pcie-6-x16"}) {
    const LinkModel model = model_of(name);
    for (int end = 0; end < 2; ++end)
      for (std::uint64_t piece = 0; piece < 60; ++piece)
        for (const std::uint64_t again : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}}) {
          Oracle oracle;
          LinkHooks hooks = oracle.hooks();
          hooks.breaks = [&](int e, std::uint64_t n) { return e == end && (n == piece || (again > 0 && n == piece + again)); };
          const LinkOutcome outcome = simulated(model, {.operation = write, .operations = 40, .credits = 4}, hooks);
          EXPECT_EQ(oracle.wrong, 0u) << name << " end " << end << " piece " << piece << ": " << oracle.first_wrong;
          EXPECT_EQ(oracle.delivered, outcome.packets);
        }
  }
}

// More packets than numbers.
TEST(SimLink, NumbersMayComeRound) {
  LinkModel model = model_of("pcie-3-x16");
  model.layers.sequence_bits = 4;
  Oracle oracle;
  const LinkOutcome outcome = simulated(model, {.is_both_ways = true, .operations = 5000, .ber = 2e-5}, oracle.hooks());
  EXPECT_EQ(oracle.wrong, 0u) << oracle.first_wrong;
  EXPECT_EQ(oracle.delivered, 10'000u);
  EXPECT_GT(outcome.replayed, 100u);
}

TEST(SimLink, TheSameSeedGivesTheSameAnswerAndAnotherDoesNot) {
  const LinkModel model = model_of("nvlink-4");
  const LinkQuestion question = {.is_both_ways = true, .operations = 5000, .ber = 1e-6, .seed = 7};
  LinkQuestion other = question;
  other.seed = 8;
  EXPECT_EQ(simulated(model, question).time_ns, simulated(model, question).time_ns);
  EXPECT_NE(simulated(model, question).time_ns, simulated(model, other).time_ns);
}

TEST(SimLink, TheTraceShowsWhatWasSentBrokenAndReplayed) {
  Trace trace;
  const LinkHooks hooks = {.trace = &trace, .on_delivery = {}, .breaks = [](int end, std::uint64_t n) { return end == 0 && n == 3; }};
  const LinkOutcome outcome = simulated(model_of("pcie-4-x16"), {.operations = 30}, hooks);
  std::map<std::string, std::uint64_t> seen;
  for (const TraceEvent& event : trace.events()) ++seen[event.category];
  EXPECT_EQ(seen["broken"], 1u);
  EXPECT_EQ(seen["replay"], outcome.replayed);
  EXPECT_EQ(seen["unit"] + seen["broken"], 30u);
  EXPECT_EQ(seen["message"], outcome.messages);
  EXPECT_TRUE(
      std::any_of(trace.events().begin(), trace.events().end(), [](const TraceEvent& e) { return e.name == "nak 3" && e.process == 1; }));
}

// ---- held together with the flow models ----

// The flow models count with `usable` of data/links times the protocol's efficiency of data/constants. Packets bound both.
struct Held {
  const char* link;
  const char* protocol;
  int payload;     // of the packets that carry the protocol: 256 in bulk, the line of 128 bytes with 8 of flags for line128
  double of_line;  // payload's share that is data
  double least;    // flow / packets
};

// Where the two differ by more than a twentieth, the measured copies above (NoMeasuredCopyIsFasterThanItsPackets) say who is nearer: NVLink
// 3 (274 GB/s of 12 links) and PCIe 5 (57.8) are near the packets; there NCCL's planning figures, which `usable` repeats, are low and fit
// collectives, whose copies are made by the GPU's own threads. NVLink 4 (377 of 18) and 5 (770 of 18) are near `usable`: something behind
// the link, or a packet that is not published, takes a tenth. C2C's `usable` is a measured copy.
TEST(SimLink, FlowModelsStayWithinThePackets) {
  const Held rows[] = {
      {"nvlink-1", "staged", 256, 1, 0.95},       {"nvlink-2", "staged", 256, 1, 1.00},   {"nvlink-3", "staged", 256, 1, 0.845},
      {"nvlink-3-ga102", "staged", 256, 1, 0.90}, {"nvlink-4", "staged", 256, 1, 0.87},   {"nvlink-5", "staged", 256, 1, 0.845},
      {"nvlink-4", "line128", 128, 0.9375, 0.90}, {"pcie-3-x16", "staged", 256, 1, 0.83}, {"pcie-4-x16", "staged", 256, 1, 0.83},
      {"pcie-5-x16", "staged", 256, 1, 0.83},     {"pcie-6-x16", "staged", 256, 1, 0.86}, {"nvlink-c2c-gh200", "staged", 128, 1, 0.93}};
  for (const Held& row : rows) {
    const LinkModel model = model_of(row.link);
    const auto constants = topology::constants_for(model.link.scope.empty() ? name_of(model.link.kind) : model.link.scope, row.protocol);
    ASSERT_TRUE(constants) << constants.error().message;
    const double flow = model.link.usable.gigabytes() * constants->efficiency;
    const double packets = simulated(model, {.payload = row.payload}).goodput * row.of_line;
    EXPECT_LT(flow / packets, 1.025) << row.link << " " << row.protocol;  // V100's links are 3 % faster than their data sheet
    EXPECT_GE(flow / packets, row.least) << row.link << " " << row.protocol;
    EXPECT_LT(flow / packets, row.least + 0.07) << row.link << " " << row.protocol;
  }
}

// NCCL's figure for PCIe is what is left when a root complex answers reads 64 bytes at a time.
TEST(SimLink, PlanningFiguresOfPcieAreReadsInPiecesOf64Bytes) {
  for (const char* name : {"pcie-3-x16", "pcie-4-x16", "pcie-5-x16"}) {
    const LinkModel model = model_of(name);
    const LinkQuestion question = {.operation = read, .payload = 512, .reply_bytes = 64};
    EXPECT_NEAR(simulated(model, question).goodput / model.link.usable.gigabytes(), 1, 0.01) << name;
  }
}

// ---- sharing ----

TEST(SimLink, ASharedLineTakesTwoRoundTrips) {
  const LinkModel model = model_of("nvlink-c2c-gh200");
  const auto& figures = *(*topology::layer_catalogue())->sharing;
  Trace trace;
  const auto line = share_line(model, figures, &trace);
  ASSERT_TRUE(line);
  const double one_way = model.one_way_ns(model.layers.metres), header = 16 / model.wire_rate();
  EXPECT_NEAR(line->invalidated_ns, 2 * (header + one_way) + model.layers.target_ns, 1e-6);
  EXPECT_NEAR(line->read_ns - line->invalidated_ns, 2 * (header + one_way) + 128 / model.wire_rate() + model.layers.target_ns, 1e-6);
  std::vector<std::string> names;
  for (const TraceEvent& e : trace.events())
    if (e.category == "unit") names.push_back(fmt::format("{} {}", e.process, e.name));
  EXPECT_EQ(names, (std::vector<std::string>{"0 invalidate 0", "1 invalidate answer 0", "1 read 0", "0 read answer 0"}));
}

TEST(SimLink, LinesWinWhereFixedCostsCountAndPagesPayForFaults) {
  const auto& figures = *(*topology::layer_catalogue())->sharing;
  const LinkModel coherent = model_of("nvlink-2"), other = model_of("pcie-3-x16");
  const auto at = [&](std::uint64_t bytes) {
    const auto row = share_bytes(coherent, other, figures, bytes);
    EXPECT_TRUE(row);
    return row ? *row : SharingRow{};
  };
  const SharingRow small = at(128), large = at(4 << 20);
  EXPECT_LT(5 * small.lines_ns, small.copy_ns);
  EXPECT_LT(small.lines_ns, small.pages_ns);
  EXPECT_LT(large.lines_ns, large.copy_ns);  // 25 GB/s against 14
  EXPECT_LT(large.copy_ns, large.pages_ns);
  // A processor that waits for one line after the other does not.
  const auto one_by_one = share_bytes(coherent, other, figures, 1 << 20, 1);
  ASSERT_TRUE(one_by_one);
  EXPECT_GT(one_by_one->lines_ns, 10 * one_by_one->copy_ns);
  EXPECT_FALSE(share_bytes(coherent, other, figures, 0));
}

// ---- what is typed ----

TEST(SimLink, WhatIsNoLinkIsRefusedInOneSentence) {
  const LinkModel model = model_of("nvlink-4");
  EXPECT_THAT(refusal(model, {.ber = 1}), HasSubstr("--ber 1: give wrong bits a bit, from 0 to below 1"));
  EXPECT_THAT(refusal(model, {.ber = std::nan("")}), HasSubstr("--ber nan"));
  EXPECT_THAT(refusal(model, {.ber = -1e-9}), HasSubstr("--ber -1e-09"));
  EXPECT_THAT(refusal(model, {.ber = 0.01}), HasSubstr("no link keeps up; give"));
  EXPECT_THAT(refusal(model, {.credits = 0}), HasSubstr("--credits 0: without a credit nothing can be sent"));
  EXPECT_THAT(refusal(model, {.metres = -1.0}), HasSubstr("--metres -1"));
  EXPECT_THAT(refusal(model, {.payload = 0}), HasSubstr("--payload 0"));
  EXPECT_THAT(refusal(model, {.operations = 0}), HasSubstr("--operations 0"));
  EXPECT_THAT(refusal(model, {.outstanding = -3}), HasSubstr("--outstanding -3"));
  EXPECT_THAT(refusal(model, {.reply_bytes = 0}), HasSubstr("--reply 0"));
  EXPECT_THAT(refusal(model, {.extra_flits = 3}), HasSubstr("--extra-flits 3"));
  EXPECT_THAT(refusal(model, {.payload = 1 << 24, .operations = 1'000'000}), HasSubstr("20 million packets"));
  EXPECT_THAT(link_model("nvlink-44").error().message, HasSubstr("did you mean 'nvlink-4'"));
  EXPECT_THAT(link_model("infiniband-ndr-x4").error().message, HasSubstr("not described; there are nvlink-1"));
  EXPECT_THAT(parse_link_operation("copy").error().message, HasSubstr("type posted, write, read"));
}

TEST(SimLink, RangesGoFromTheFirstNumberToTheLast) {
  const auto values = [](std::string_view text, double factor) {
    const auto read = parse_link_range(text, "--payload", factor);
    EXPECT_TRUE(read) << read.error().message;
    return read ? *read : std::vector<double>{};
  };
  EXPECT_EQ(values("256", 2), (std::vector<double>{256}));
  EXPECT_EQ(values("16..256", 2), (std::vector<double>{16, 32, 64, 128, 256}));
  EXPECT_EQ(values("48..100", 2), (std::vector<double>{48, 96, 100}));
  EXPECT_EQ(values("1K..4K", 2), (std::vector<double>{1024, 2048, 4096}));
  EXPECT_EQ(values("0", 10), (std::vector<double>{0}));
  EXPECT_EQ(values("1e-12..1e-9", 10).size(), 4u);
  for (const char* bad : {"", "x", "16..", "..16", "256..16", "0..1", "1e-300..1e300", "-1..2", "16..inf"})
    EXPECT_FALSE(parse_link_range(bad, "--payload", 2)) << bad;
}

}  // namespace
}  // namespace peal::sim
