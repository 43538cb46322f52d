// Which experts a token takes, and how much of each.
#pragma once

#include <cstdint>
#include <vector>

namespace peal::parallel {

/// `chosen` entries a row.
struct ExpertChoice {
  std::vector<int> experts;
  std::vector<float> weights;  ///< of a row they sum to 1
};

/// The largest scores of each row (of equals, the lower number), weighed by a softmax over them alone: the softmax over all experts,
/// normalised over the chosen, is the same.
ExpertChoice choose_experts(std::int64_t rows, int experts, int chosen, const float* scores);

/// Gradients of the scores (rows x experts) from those of the weights. What was not chosen has none.
std::vector<float> score_gradients(const ExpertChoice& choice, std::int64_t rows, int experts, const std::vector<float>& weight_gradients);

}  // namespace peal::parallel
