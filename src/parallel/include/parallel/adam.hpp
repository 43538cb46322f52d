// The optimiser (arXiv 1412.6980, algorithm 1), element by element, so that it steps any part of a model.
#pragma once

#include <cstdint>
#include <span>

namespace peal::parallel {

struct Adam {
  double rate = 1e-3;
  std::int64_t steps = 1;  ///< this one is number so many, from 1
  double first_decay = 0.9, second_decay = 0.999, epsilon = 1e-8;
};

/// All spans are as long as each other.
void step_adam(const Adam& adam, std::span<const float> gradients, std::span<float> parameters, std::span<float> first_moment,
               std::span<float> second_moment);

}  // namespace peal::parallel
