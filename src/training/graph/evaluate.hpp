// Operators in double precision on one core, forward and backward: what cuts are held against, not what models are trained with.
#pragma once

#include <training/graph.hpp>

namespace peal::training {

using Numbers = std::vector<double>;

/// A tensor that an operator reads.
struct Operand {
  const Numbers* numbers = nullptr;
  const Shape* shape = nullptr;
  Numbers* gradient = nullptr;  ///< of its size; evaluate_backward adds to it
};

/// Not for input, parameter and what the cut inserts.
Numbers evaluate_forward(const Operator& op, std::span<const Operand> operands);
/// `made` is what evaluate_forward gave, `gradient` that of it.
void evaluate_backward(const Operator& op, std::span<const Operand> operands, const Numbers& made, const Numbers& gradient);

}  // namespace peal::training
