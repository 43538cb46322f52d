#include <cmath>
#include <parallel/adam.hpp>

namespace peal::parallel {

void step_adam(const Adam& adam, std::span<const float> gradients, std::span<float> parameters, std::span<float> first_moment,
               std::span<float> second_moment) {
  const auto number = static_cast<double>(adam.steps);
  const auto rate = static_cast<float>(adam.rate / (1 - std::pow(adam.first_decay, number)));
  const auto correction = static_cast<float>(1 / (1 - std::pow(adam.second_decay, number)));
  const auto first = static_cast<float>(adam.first_decay), second = static_cast<float>(adam.second_decay);
  const auto epsilon = static_cast<float>(adam.epsilon);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const float g = gradients[i];
    first_moment[i] = first * first_moment[i] + (1 - first) * g;
    second_moment[i] = second * second_moment[i] + (1 - second) * g * g;
    parameters[i] -= rate * first_moment[i] / (std::sqrt(second_moment[i] * correction) + epsilon);
  }
}

}  // namespace peal::parallel
