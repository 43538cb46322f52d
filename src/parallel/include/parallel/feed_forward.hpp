// The second half of a layer, behind its norm: dense, or cut into experts of which every token takes some.
//
//   dense     x -> up -> GELU -> down
//   experts   scores = x W;  the `chosen` largest of a token's scores, as a softmax over them alone (which is the softmax over all,
//             normalised), weigh what those experts make of it. No expert has a limit and no loss asks for balance, so that what comes out
//             does not depend on the cut.
//
// Experts are spread over a group of data-parallel ranks (Layout::ep): rows travel to whoever holds their experts and back, in the forward
// pass and in the backward pass. Tensor parallelism cuts every expert as it cuts the dense part.
#pragma once

#include <parallel/gpt_unit.hpp>

namespace peal::parallel {

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual std::unique_ptr<Tape> new_tape() const = 0;
  /// `x` and `y`: own rows x hidden.
  virtual Status forward(Tape& tape, const float* x, float* y) = 0;
  virtual Status backward_input(Tape& tape, const float* y_gradient, float* x_gradient) = 0;
  /// After backward_input of the same tape. `x` as it went in.
  virtual void backward_weight(const Tape& tape, const float* x) = 0;
};

/// Parameters are those of `unit` from number `first` on. `context` and `unit` outlive the part.
std::unique_ptr<FeedForward> make_dense(const GptContext& context, const GptUnit& unit, std::size_t first);
std::unique_ptr<FeedForward> make_experts(const GptContext& context, const GptUnit& unit, std::size_t first);

}  // namespace peal::parallel
