// Every algorithm of the registry is right: proved by the verifier at many rank counts, roots and placements, with plenty of slots and
// with the fewest.
#include <gtest/gtest.h>

#include <schedule/verify.hpp>

#include "algorithm_cases.hpp"

namespace peal::schedule {
namespace {

void expect_right(const Algorithm& algorithm, const Request& request, const VerifyOptions& options) {
  const Result<Schedule> schedule = make_schedule(algorithm, request);
  if (!schedule) return;  // refused with a reason; refusals have their own test
  const Verdict verdict = verify(*schedule, options);
  EXPECT_TRUE(verdict.ok) << text_of(algorithm, request) << ": " << verdict.why
                          << (request.ranks <= 5 && verdict.rank >= 0 ? "\n" + to_text(program_for(*schedule, verdict.rank, options.fuse))
                                                                      : "");
  if (verdict.ok) {
    EXPECT_EQ(verdict.canonical, request.ranks == 1 || algorithm.is_canonical(request)) << text_of(algorithm, request);
  }
}

class EveryAlgorithm : public testing::TestWithParam<std::int32_t> {};

TEST_P(EveryAlgorithm, IsRightWithTheProtocolsSlots) {
  for (const Algorithm& algorithm : registry())
    for (const Request& request : requests_for(algorithm, GetParam(), GetParam() <= 8)) expect_right(algorithm, request, {});
}

TEST_P(EveryAlgorithm, IsRightFusedWithTwoSlots) {
  for (const Algorithm& algorithm : registry())
    for (const Request& request : requests_for(algorithm, GetParam(), false)) expect_right(algorithm, request, {.slots = 2});
}

TEST_P(EveryAlgorithm, IsRightUnfusedWithOneSlot) {
  for (const Algorithm& algorithm : registry())
    for (const Request& request : requests_for(algorithm, GetParam(), false)) expect_right(algorithm, request, {.slots = 1, .fuse = false});
}

class EveryProtocol : public testing::TestWithParam<std::int32_t> {};

TEST_P(EveryProtocol, IsRightForTheAlgorithmsThatItSuits) {
  for (const Algorithm& algorithm : registry())
    for (const Request& request : requests_for(algorithm, GetParam(), false))
      for (const ProtocolTraits& traits : all_protocols()) {
        const bool through_slots =
            traits.protocol == Protocol::line || traits.protocol == Protocol::staged || traits.protocol == Protocol::fused;
        if (through_slots) {
          EXPECT_TRUE(suits(algorithm, request, traits.protocol)) << text_of(algorithm, request);
        }
        if (!suits(algorithm, request, traits.protocol)) continue;
        for (const bool fuse : {true, false}) expect_right(algorithm, request, {.protocol = traits.protocol, .fuse = fuse});
      }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 31), testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Ranks, EveryProtocol, testing::Values(2, 3, 4, 5, 6, 7, 8, 9), testing::PrintToStringParamName());

}  // namespace
}  // namespace peal::schedule
