// The serial run beside the parallel one: rank 0 trains the whole model alone on the same text and compares, step by step, the loss and
// every gradient before it is used. Both runs step their own parameters, so that what a later step finds also judges optimiser and gathers.
#pragma once

#include <map>
#include <memory>
#include <parallel/gpt_trainer.hpp>
#include <string>

namespace peal::parallel {

/// Largest difference of a parameter's gradients, relative to the largest gradient of that parameter; and of the loss, relative to it. Sums
/// of f32 in another order differ by some 1e-6 of the largest; a wrong scale, a missing term or a swapped shard by 1e-2 and more. From the
/// second step on parameters differ, too: Adam moves one by rate * g / (|g| + epsilon), so that the rounding of a gradient about as small
/// as epsilon decides how far. That may reach 1e-4, and in the rarest runs 1e-3 (docs/guide/train.md); with a larger epsilon it is gone.
inline constexpr double kCheckTolerance = 1e-3;

struct CheckResult {
  double gradient = 0;        ///< largest relative difference so far
  std::string parameter;      ///< where
  std::int64_t step = 0;      ///< when
  double loss = 0;            ///< largest relative difference so far
  std::int64_t compared = 0;  ///< gradients
  bool holds() const { return compared > 0 && gradient <= kCheckTolerance && loss <= kCheckTolerance; }
};

class GradientCheck {
 public:
  /// Collective over `world`. `trainer` outlives the check.
  static Result<std::unique_ptr<GradientCheck>> make(GptTrainer& trainer, std::shared_ptr<comm::Core> world);
  /// Before the parallel step: rank 0 takes the serial one.
  Status take_serial_step(std::int64_t number);
  /// On rank 0: the mean loss of the parallel step.
  void compare_loss(double loss);
  /// Where the serial run has to begin: its state is filled from the parallel one's. Collective.
  Status begin_from(std::int64_t steps_taken);
  const CheckResult& result() const { return result_; }

 private:
  GradientCheck(GptTrainer& trainer, std::shared_ptr<comm::Core> world) : trainer_(trainer), world_(std::move(world)) {}
  Status compare_gradients();

  GptTrainer& trainer_;
  std::shared_ptr<comm::Core> world_;
  std::unique_ptr<GptTrainer> serial_;  // on rank 0
  std::map<std::string, Buffer> gradients_;
  std::vector<ParameterSpec> specs_;
  std::int64_t step_ = 0;
  CheckResult result_;
};

/// Of all units, in the order of the forward pass.
std::vector<ParameterSpec> all_parameters_of(const training::Transformer& shape);

}  // namespace peal::parallel
