#include <algorithm>
#include <cmath>
#include <numeric>
#include <parallel/expert_choice.hpp>

namespace peal::parallel {

ExpertChoice choose_experts(std::int64_t rows, int experts, int chosen, const float* scores) {
  ExpertChoice choice;
  std::vector<int> order(static_cast<std::size_t>(experts));
  for (std::int64_t row = 0; row < rows; ++row, scores += experts) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + chosen, order.end(),
                      [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    float sum = 0;
    for (int k = 0; k < chosen; ++k) sum += std::exp(scores[order[static_cast<std::size_t>(k)]] - scores[order[0]]);
    for (int k = 0; k < chosen; ++k) {
      const int expert = order[static_cast<std::size_t>(k)];
      choice.experts.push_back(expert);
      choice.weights.push_back(std::exp(scores[expert] - scores[order[0]]) / sum);
    }
  }
  return choice;
}

std::vector<float> score_gradients(const ExpertChoice& choice, std::int64_t rows, int experts, const std::vector<float>& weight_gradients) {
  std::vector<float> gradients(static_cast<std::size_t>(rows * experts));
  const std::size_t chosen = choice.experts.size() / static_cast<std::size_t>(rows);
  float* line = gradients.data();
  for (std::size_t at = 0; at < choice.experts.size(); at += chosen, line += experts) {
    float mean = 0;
    for (std::size_t i = at; i < at + chosen; ++i) mean += choice.weights[i] * weight_gradients[i];
    for (std::size_t i = at; i < at + chosen; ++i) line[choice.experts[i]] = choice.weights[i] * (weight_gradients[i] - mean);
  }
  return gradients;
}

}  // namespace peal::parallel
