// Who chooses which expert, and the way of tokens there and back.
#include <parallel/expert_choice.hpp>
#include <parallel/token_exchange.hpp>

#include "small_gpt.hpp"

namespace peal::parallel {
namespace {

TEST(ExpertChoice, TakesTheLargestScoresAndNormalisesThem) {
  const std::vector<float> scores = {0, 2, 1, 2,  //
                                     5, 1, 1, 1};
  const ExpertChoice choice = choose_experts(2, 4, 2, scores.data());
  EXPECT_EQ(choice.experts, (std::vector<int>{1, 3, 0, 1}));  // of equals the lower number
  const float small = std::exp(-4.0F);
  const std::vector<float> weights = {0.5F, 0.5F, 1 / (1 + small), small / (1 + small)};
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(choice.weights[i], weights[i], 1e-6) << i;
  EXPECT_EQ(choose_experts(2, 4, 1, scores.data()).weights, (std::vector<float>{1, 1}));
}

TEST(ExpertChoice, GradientsAreThoseOfTheWeights) {
  const std::vector<float> scores = {0.3F, 1, -0.5F, 0.9F}, factors = {2, -1, 0.5F};
  const auto value = [&](const std::vector<float>& of) {
    const ExpertChoice choice = choose_experts(1, 4, 3, of.data());
    float sum = 0;
    for (std::size_t k = 0; k < 3; ++k) sum += factors[k] * choice.weights[k];
    return sum;
  };
  const Buffer gradients = score_gradients(choose_experts(1, 4, 3, scores.data()), 1, 4, factors);
  for (std::size_t e = 0; e < 4; ++e) {
    std::vector<float> above = scores, below = scores;
    above[e] += 0.01F;
    below[e] -= 0.01F;
    EXPECT_NEAR(gradients[e], (value(above) - value(below)) / 0.02F, 1e-3) << e;
  }
}

// Every rank sends another number of rows; nobody chooses the last expert.
TEST(TokenExchange, BringsRowsToTheirExpertsAndBackToTheirPlaces) {
  constexpr int kWidth = 3;
  for (const int ranks : {1, 2, 3}) {
    const int experts = 2 * ranks;
    on_ranks(ranks, [&](const std::shared_ptr<comm::Core>& world) -> Status {
      Group group(world);
      std::vector<int> chosen;
      for (int i = 0; i < 5 + 4 * world->rank(); ++i) chosen.push_back((i * 7 + world->rank()) % std::max(1, experts - 1));
      PEAL_ASSIGN(const TokenExchange exchange, TokenExchange::make(group, experts, chosen));
      Buffer leaving = floats(exchange.leaving() * kWidth), arrived, back;
      for (std::size_t i = 0; i < chosen.size(); ++i)
        for (int w = 0; w < kWidth; ++w) leaving[static_cast<std::size_t>(exchange.place(i) * kWidth + w)] = static_cast<float>(chosen[i]);
      PEAL_TRY(exchange.to_experts(group, kWidth, leaving, arrived));
      float total = static_cast<float>(exchange.arrived());
      for (std::size_t own = 0; own < 2; ++own) {
        const auto first = static_cast<std::size_t>(exchange.first_of(own) * kWidth);
        for (std::size_t at = first; at < first + static_cast<std::size_t>(exchange.count_of(own) * kWidth); ++at)
          EXPECT_EQ(arrived[at], static_cast<float>(2 * static_cast<std::size_t>(world->rank()) + own));
      }
      EXPECT_TRUE(world->rank() + 1 < ranks || exchange.count_of(1) == 0);
      for (float& value : arrived) value += 0.5F;
      PEAL_TRY(exchange.to_tokens(group, kWidth, arrived, back));
      for (std::size_t i = 0; i < leaving.size(); ++i) EXPECT_EQ(back[i], leaving[i] + 0.5F);
      PEAL_TRY(group.sum(&total, 1));
      EXPECT_EQ(total, static_cast<float>(5 * ranks + 2 * ranks * (ranks - 1)));  // nothing is lost, nothing doubled
      return {};
    });
  }
}

}  // namespace
}  // namespace peal::parallel
