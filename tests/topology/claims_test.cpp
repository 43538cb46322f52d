#include <gtest/gtest.h>

#include <topology/claims.hpp>

namespace peal::topology {
namespace {

Result<double> seven(std::string_view name) {
  if (name == "seven") return 7.0;
  return fail(ErrorCode::corrupt, "no {}", name);
}

Result<ClaimAnswer> half_a_second(const std::string& sim) {
  if (sim.starts_with("all_reduce")) return ClaimAnswer{5e5, 12.5, "nobody knows"};
  return fail(ErrorCode::invalid_argument, "no {}", sim);
}

const ClaimSources kSources{seven, half_a_second};

double value_of(std::string_view formula) {
  std::string computed;
  auto value = evaluate(formula, seven, computed);
  EXPECT_TRUE(value) << formula << (value ? "" : ": " + value.error().message);
  return value ? *value : 0;
}

TEST(Formula, KnowsPrecedenceBracketsAndNames) {
  EXPECT_DOUBLE_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_DOUBLE_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_DOUBLE_EQ(value_of("12 / 2 / 3"), 2);
  EXPECT_DOUBLE_EQ(value_of("10 - 4 - 3"), 3);
  EXPECT_DOUBLE_EQ(value_of("2*[seven]"), 14);
  std::string computed;
  ASSERT_TRUE(evaluate("2*([seven]+1)", seven, computed));
  EXPECT_EQ(computed, "2 x (7 + 1)");
}

TEST(Formula, RefusesWhatIsNone) {
  for (const std::string& formula :
       {std::string(), std::string("1 +"), std::string("(1"), std::string("1)"), std::string("[seven"), std::string("[eight]"),
        std::string("1 / 0"), std::string("x"), std::string(2000, '('), std::string(500, '('), std::string(1001, '1')}) {
    std::string computed;
    EXPECT_FALSE(evaluate(formula, seven, computed)) << formula;
  }
}

TEST(Claims, AreReadWithTheirFiguresComputed) {
  auto claims = read_claims_text(
      "claims:\n"
      "  - {id: 4, claim: much, verdict: depends, because: it does, arithmetic: [{text: twice, formula: '2 * [seven]', unit: GB/s}],\n"
      "     measured: [{text: 13, source: a table}],\n"
      "     simulated: [{text: once, sim: all_reduce -b 1G, unit: s}, {text: as a rate, sim: all_reduce -b 2G, unit: GB/s}]}\n",
      "c.yaml", kSources);
  ASSERT_TRUE(claims) << claims.error().message;
  ASSERT_EQ(claims->size(), 1u);
  EXPECT_EQ((*claims)[0].verdict, Verdict::depends);
  EXPECT_DOUBLE_EQ((*claims)[0].arithmetic[0].value, 14);
  const std::string page = claims_page(*claims);
  EXPECT_NE(page.find("- twice: 2 x 7 = 14 GB/s\n"
                      "- Simulated: once: 0.5 s (`peal sim all_reduce -b 1G`; nobody knows)\n"
                      "- Simulated: as a rate: 12.5 GB/s (`peal sim all_reduce -b 2G`; nobody knows)\n"
                      "- Measured: 13 (a table)\n\n**depends.** it does\n"),
            std::string::npos)
      << page;
}

TEST(Claims, BadFilesAreRefusedWithTheirLine) {
  const auto why = [](const char* text) {
    auto claims = read_claims_text(text, "c.yaml", kSources);
    return claims ? std::string("read") : claims.error().message;
  };
  EXPECT_EQ(why("claims:\n  - {id: 1, claim: a, verdict: maybe, because: b}\n"),
            "c.yaml:2: 'maybe' is no verdict: write right, wrong, depends, unsupported");
  EXPECT_NE(why("claims:\n  - {claim: a, verdict: right, because: b}\n").find("c.yaml:2: a claim needs an `id:`"), std::string::npos);
  EXPECT_NE(why("claims:\n  - {id: 1, claim: a, verdict: right, because: b}\n  - {id: 1, claim: a, verdict: right, because: b}\n")
                .find("c.yaml:3: claim 1 is there twice"),
            std::string::npos);
  EXPECT_NE(
      why("claims:\n  - id: 1\n    claim: a\n    verdict: right\n    because: b\n    arithmetic:\n      - {text: t, formula: '1 +'}\n")
          .find("c.yaml:7: '1 +' is no formula"),
      std::string::npos);
  EXPECT_NE(why("claims:\n  - {id: 1, claim: a, verdict: right, because: b, measured: [{txet: t, source: s}]}\n").find("measured"),
            std::string::npos);
  const auto simulated = [&](const char* line) {
    return why((std::string("claims:\n  - id: 1\n    claim: a\n    verdict: right\n    because: b\n    simulated:\n      - ") + line + "\n")
                   .c_str());
  };
  EXPECT_EQ(simulated("{text: t, sim: broadcast, unit: s}"), "c.yaml:7: no broadcast");
  EXPECT_EQ(simulated("{text: t, sim: all_reduce, unit: h}"), "c.yaml:7: a simulation has no 'h': write one of: us, ms, s, GB/s, %");
  EXPECT_EQ(simulated("{text: t, unit: s}"), "c.yaml:7: a simulation needs `sim:` or `cost:`");
  EXPECT_EQ(simulated("{text: t, cost: --hours 1, unit: s}"), "c.yaml:7: nobody answers `cost:` here");
}

}  // namespace
}  // namespace peal::topology
