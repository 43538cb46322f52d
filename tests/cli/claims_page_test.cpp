#include <gtest/gtest.h>

#include <cli/claim_words.hpp>
#include <fstream>
#include <sstream>

#include "source_tree.hpp"

namespace peal::cli {
namespace {

TEST(ClaimsPage, IsWhatTheDataAndTheSimulatorSay) {
  const auto claims = topology::load_claims(simulate_claim, price_claim);
  ASSERT_TRUE(claims) << claims.error().message;
  EXPECT_GE(claims->size(), 30u);
  std::ostringstream page;
  page << std::ifstream(peal::test::in_source("docs/claims.md")).rdbuf();
  EXPECT_EQ(page.str(), topology::claims_page(*claims)) << "write it anew: build/release/bin/peal claims > docs/claims.md";
}

TEST(ClaimsPage, RefusesWordsThatAreNoSimulation) {
  const auto why = [](const char* sentence) {
    const auto answer = simulate_claim(sentence);
    return answer ? std::string("answered") : answer.error().message;
  };
  EXPECT_NE(why("all_reduce -b 1G").find("name a machine"), std::string::npos);
  EXPECT_NE(why("all_reduce --machine dgx-a100 --speed 3").find("--speed"), std::string::npos);
  EXPECT_NE(why("all_reduce --machine dgx-a100 -b many").find("many"), std::string::npos);
  EXPECT_EQ(why("all_reduce --machine dgx-a100 --library nccl -b 1M"), "answered");
  EXPECT_EQ(why("all_reduce --machine dgx-a100 -b 1M"), "answered");
}

}  // namespace
}  // namespace peal::cli
