// Every algorithm of the registry is proven, under every protocol, for many rank counts.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <base/names.hpp>
#include <numeric>
#include <schedule/registry.hpp>
#include <schedule/verify.hpp>

namespace peal::schedule {
namespace {

std::vector<Protocol> protocols() {
  std::vector<Protocol> all;
  for (const ProtocolTraits& traits : all_protocols()) all.push_back(traits.protocol);
  return all;
}

// Proves the request under each protocol that may carry it, and counts, so that a table that is empty by mistake does not pass.
std::size_t prove(const Algorithm& algorithm, Request request, std::span<const Protocol> under,
                  std::uint8_t switches = kSwitchesInside | kSwitchesBetween) {
  request.placement.switches = switches;
  if (!algorithm.supports(request)) return 0;
  const Result<Schedule> schedule = make_schedule(algorithm, request);
  EXPECT_TRUE(schedule.has_value()) << schedule.error().message;
  if (!schedule) return 0;
  std::size_t proven = 0;
  for (const Protocol protocol : under) {
    const ProtocolTraits& traits = traits_of(protocol);
    const bool may = is_right_under(algorithm, request, protocol);
    const std::string what = fmt::format("{} by {}, {} ranks, root {}{}, {}", peal::name_of(algorithm.collective), algorithm.name,
                                         request.ranks, request.root, request.in_place ? ", in place" : "", traits.name);
    // Slots that hold copies carry everything.
    if (traits.snapshots && !traits.rendezvous) {
      EXPECT_TRUE(may) << what;
    }
    if (!may) continue;
    if (protocol == Protocol::staged && is_right_when_shown(algorithm, request)) {
      VerifyOptions options;
      options.shows = true;
      const Verdict verdict = verify(*schedule, options);
      EXPECT_TRUE(verdict.ok) << what << ", shown: " << verdict.why;
      ++proven;
    }
    if (protocol == Protocol::staged && is_right_when_answered(algorithm, request)) {
      VerifyOptions options;
      options.shows = options.answers = true;
      const Verdict verdict = verify(*schedule, options);
      EXPECT_TRUE(verdict.ok) << what << ", answered: " << verdict.why;
      ++proven;
    }
    for (const bool fuse : {true, false}) {
      VerifyOptions options;
      options.protocol = protocol;
      options.fuse = fuse;
      const Verdict verdict = verify(*schedule, options);
      EXPECT_TRUE(verdict.ok) << what << (fuse ? ", fused: " : ", as built: ") << verdict.why;
      if (!verdict.ok) continue;
      // Up to three ranks every order of summation is the canonical one.
      if (algorithm.is_canonical(request) || request.ranks > 3) {
        EXPECT_EQ(verdict.canonical, algorithm.is_canonical(request)) << what;
      }
      ++proven;
    }
  }
  return proven;
}

std::size_t prove_all(std::int32_t ranks, bool with_all_roots, std::span<const Protocol> under) {
  std::size_t proven = 0;
  for (const Algorithm& algorithm : registry()) {
    Request request;
    request.collective = algorithm.collective;
    request.ranks = ranks;
    for (const bool in_place : {false, true}) {
      request.in_place = in_place;
      for (std::int32_t root = 0; root < (with_all_roots ? ranks : 1); ++root) {
        request.root = root;
        request.peer = (root + 1) % ranks;
        proven += prove(algorithm, request, under);
      }
    }
  }
  return proven;
}

TEST(VerifyRegistry, provesEveryAlgorithmOnFewRanksWithEveryRootAndProtocol) {
  const std::vector<Protocol> all = protocols();
  for (std::int32_t n = 1; n <= 9; ++n) EXPECT_GT(prove_all(n, true, all), 50U) << n;
}

TEST(VerifyRegistry, provesEveryAlgorithmUpTo64Ranks) {
  const std::vector<Protocol> all = protocols();
  for (std::int32_t n = 10; n <= 64; n += n < 16 ? 1 : n < 32 ? 5 : 16) EXPECT_GT(prove_all(n, false, all), 50U) << n;
  EXPECT_GT(prove_all(64, false, all), 50U);
}

// Every sum is rounded once: the verifier refuses a partial sum that lies or travels in its own type.
TEST(VerifyRegistry, provesEverySumWithWidePartialSums) {
  constexpr Protocol kThroughSlots[] = {Protocol::line, Protocol::staged};
  for (const Algorithm& algorithm : registry()) {
    if (!has_reduction(algorithm.collective)) continue;
    std::size_t proven = 0;
    for (const std::int32_t ranks : {1, 2, 3, 4, 5, 7, 8, 12, 13}) {
      for (const std::int32_t group : {0, 2, 3}) {
        for (const bool in_place : {false, true}) {
          for (const std::int32_t root : {0, ranks - 1}) {
            Request request;
            request.collective = algorithm.collective;
            request.ranks = ranks;
            request.root = root;
            request.in_place = in_place;
            request.wide_partials = true;
            if (root > 0 && !has_root(algorithm.collective)) continue;
            for (std::int32_t r = 0; group > 0 && r < ranks; ++r) request.placement.group.push_back(r / group);
            if (algorithm.name == "multi_ring") {
              std::vector<std::int32_t> there(static_cast<std::size_t>(ranks));
              std::iota(there.begin(), there.end(), 0);
              request.placement.rings = {there, {there.rbegin(), there.rend()}};
              if (group == 2) request.placement.shares = {2, 3};
            }
            proven += prove(algorithm, request, kThroughSlots);
          }
        }
      }
    }
    EXPECT_GT(proven, 30U) << algorithm.name;
  }
}

TEST(VerifyRegistry, refusesWidePartialSumsWhereNoSlotCanHoldThem) {
  Request request;
  request.ranks = 4;
  request.wide_partials = true;
  const Schedule ring = *make_schedule(**find_algorithm(Collective::all_reduce, "tree"), request);
  for (const Protocol protocol : {Protocol::direct_read, Protocol::direct_write, Protocol::fused}) {
    const Verdict verdict = verify(ring, {.protocol = protocol});
    EXPECT_FALSE(verdict.ok);
    EXPECT_NE(verdict.why.find("made in a slot"), std::string::npos) << verdict.why;
  }
  EXPECT_FALSE(is_right_under(**find_algorithm(Collective::all_reduce, "tree"), request, Protocol::direct_read));
}

TEST(VerifyRegistry, provesHierarchiesOfUnequalAndEqualGroups) {
  const std::vector<Protocol> all = protocols();
  std::size_t proven = 0;
  for (const Algorithm& algorithm : registry()) {
    for (const std::int32_t group : {2, 3, 4}) {
      for (const std::int32_t ranks : {6, 8, 12}) {
        Request request;
        request.collective = algorithm.collective;
        request.ranks = ranks;
        request.peer = 1;
        for (std::int32_t r = 0; r < ranks; ++r) request.placement.group.push_back(r / group);
        proven += prove(algorithm, request, all);
        for (const std::int32_t root : {1, ranks - 1}) {
          request.root = root;
          if (has_root(algorithm.collective)) proven += prove(algorithm, request, all);
        }
      }
    }
  }
  EXPECT_GT(proven, 100U);
}

TEST(VerifyRegistry, provesChainsOfUpTo64RanksInThreeAndMoreGroups) {
  const std::vector<Protocol> all = protocols();
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    for (const char* const name : {"ring", "leader_chain"}) {
      const Algorithm& algorithm = **find_algorithm(collective, name);
      for (std::int32_t ranks = 3; ranks <= 64; ranks += ranks < 10 ? 1 : ranks < 24 ? 7 : 20) {
        Request request;
        request.collective = collective;
        request.ranks = ranks;
        const std::int32_t groups = 3 + ranks / 8;
        for (std::int32_t r = 0; r < ranks; ++r) request.placement.group.push_back(r * groups / ranks);
        request.root = ranks / 2;
        EXPECT_GT(prove(algorithm, request, all), 0U) << name << ", " << ranks;
        request.in_place = true;
        EXPECT_GT(prove(algorithm, request, all), 0U) << name << ", " << ranks;
      }
    }
  }
}

TEST(VerifyRegistry, provesRingsBothWaysRoundUpTo64RanksInTwoGroups) {
  const std::vector<Protocol> all = protocols();
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
    const Algorithm& algorithm = **find_algorithm(collective, "bidirectional_ring");
    for (std::int32_t ranks = 2; ranks <= 64; ranks += ranks < 10 ? 1 : ranks < 24 ? 7 : 20) {
      Request request;
      request.collective = collective;
      request.ranks = ranks;
      for (std::int32_t r = 0; r < ranks; ++r) request.placement.group.push_back(2 * r / ranks);
      EXPECT_GT(prove(algorithm, request, all), 0U) << ranks;
      request.in_place = true;
      EXPECT_GT(prove(algorithm, request, all), 0U) << ranks;
    }
  }
}

// Groups whose ranks do not lie side by side, and rings inside where only the network's switches sum.
TEST(VerifyRegistry, provesSumsInSwitchesForAnyGroups) {
  constexpr Protocol kStaged[] = {Protocol::staged};
  for (const char* const name : {"nvls_tree", "sharp"}) {
    const Algorithm& algorithm = **find_algorithm(Collective::all_reduce, name);
    for (const auto& [ranks, groups] : {std::pair{4, 2}, {6, 3}, {12, 3}, {20, 5}, {32, 8}, {8, 8}}) {
      for (const bool in_place : {false, true}) {
        Request request;
        request.ranks = ranks;
        request.in_place = in_place;
        for (std::int32_t r = 0; r < ranks; ++r) request.placement.group.push_back(r % groups);
        for (std::int32_t r = 0; r < ranks; ++r) request.placement.ring.push_back(ranks - 1 - r);
        if (name == std::string("sharp") || ranks > groups) {
          EXPECT_GT(prove(algorithm, request, kStaged), 0U) << name << ", " << ranks;
        }
        if (name == std::string("sharp")) {
          EXPECT_GT(prove(algorithm, request, kStaged, kSwitchesBetween), 0U) << name << ", " << ranks;
        }
      }
    }
  }
}

TEST(VerifyRegistry, provesTreesOfHigherRadixAndReversedRings) {
  const std::vector<Protocol> all = protocols();
  std::size_t proven = 0;
  for (const Algorithm& algorithm : registry()) {
    for (const std::int32_t ranks : {5, 8, 13}) {
      Request request;
      request.collective = algorithm.collective;
      request.ranks = ranks;
      request.peer = 2;
      request.radix = 4;
      for (std::int32_t r = 0; r < ranks; ++r) request.placement.ring.push_back(ranks - 1 - r);
      proven += prove(algorithm, request, all);
    }
  }
  EXPECT_GT(proven, 100U);
}

}  // namespace
}  // namespace peal::schedule
