#include <gtest/gtest.h>

#include <topology/claims.hpp>
#include <topology/machine.hpp>

#include "golden.hpp"
#include "source_tree.hpp"

namespace peal::topology {
namespace {

Result<double> seven(std::string_view name) {
  if (name == "seven") return 7.0;
  return fail(ErrorCode::corrupt, "no {}", name);
}

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
      "     measured: [{text: 13, source: a table}]}\n",
      "c.yaml", seven);
  ASSERT_TRUE(claims) << claims.error().message;
  ASSERT_EQ(claims->size(), 1u);
  EXPECT_EQ((*claims)[0].verdict, Verdict::depends);
  EXPECT_DOUBLE_EQ((*claims)[0].arithmetic[0].value, 14);
  const std::string page = claims_page(*claims);
  EXPECT_NE(page.find("- twice: 2 x 7 = 14 GB/s\n- Measured: 13 (a table)\n\n**depends.** it does\n"), std::string::npos) << page;
}

TEST(Claims, BadFilesAreRefusedWithTheirLine) {
  const auto why = [](const char* text) {
    auto claims = read_claims_text(text, "c.yaml", seven);
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
}

TEST(Claims, ThePageIsWhatTheDataSays) {
  auto claims = load_claims();
  ASSERT_TRUE(claims) << claims.error().message;
  EXPECT_GE(claims->size(), 25u);
  EXPECT_EQ(read_whole(peal::test::in_source("docs/claims.md")), claims_page(*claims))
      << "write it anew: build/release/bin/peal claims > docs/claims.md";
}

}  // namespace
}  // namespace peal::topology
