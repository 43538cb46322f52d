// Every algorithm of the registry is proven, under every protocol, for many rank counts.
#include <base/names.hpp>
#include <gtest/gtest.h>
#include <schedule/registry.hpp>
#include <schedule/verify.hpp>

namespace peal::schedule {
namespace {

std::vector<Protocol> protocols() {
  std::vector<Protocol> all;
  for (const ProtocolTraits& traits : all_protocols()) all.push_back(traits.protocol);
  return all;
}

// Counts what was proven, so that a table that is empty by mistake does not pass.
std::size_t prove(const Algorithm& algorithm, const Request& request, std::span<const Protocol> under) {
  if (!algorithm.supports(request)) return 0;
  const Result<Schedule> schedule = make_schedule(algorithm, request);
  EXPECT_TRUE(schedule.has_value()) << schedule.error().message;
  if (!schedule) return 0;
  std::size_t proven = 0;
  for (const Protocol protocol : under) {
    if (!algorithm.pieced && traits_of(protocol).protocol == Protocol::line) continue;
    for (const bool fuse : {true, false}) {
      VerifyOptions options;
      options.protocol = protocol;
      options.fuse = fuse;
      const Verdict verdict = verify(*schedule, options);
      EXPECT_TRUE(verdict.ok) << algorithm.name << " " << peal::name_of(algorithm.collective) << " n=" << request.ranks << " root=" << request.root
                              << " in_place=" << request.in_place << " " << name_of(protocol) << (fuse ? " fused" : " as built") << "\n  "
                              << verdict.why;
      if (verdict.ok && algorithm.is_canonical(request)) {
        EXPECT_TRUE(verdict.canonical) << algorithm.name << " n=" << request.ranks;
      }
      if (verdict.ok && !algorithm.is_canonical(request) && request.ranks > 3) {
        EXPECT_FALSE(verdict.canonical) << algorithm.name << " " << peal::name_of(algorithm.collective) << " n=" << request.ranks << " is canonical, but its row says no";
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
  const Protocol under[] = {Protocol::staged, Protocol::direct_read};
  for (const std::int32_t n : {16, 23, 33, 64}) EXPECT_GT(prove_all(n, false, under), 50U) << n;
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
        request.root = ranks - 1;
        proven += prove(algorithm, request, all);
      }
    }
  }
  EXPECT_GT(proven, 100U);
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
