// The arithmetic of a transformer on raw float buffers, which somebody else may do: plain loops, or libtorch (torch/, loaded when asked
// for).
//
// Matrices are row-major. A weight is out x in, as PyTorch has it: y = x W^T + b. One thread of the caller's; nothing is kept between
// calls.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <string_view>

namespace peal::parallel {

/// c (m x n) = a (m x k) b (k x n), `batch` times, the matrices of a batch one behind the other.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool is_a_transposed = false;  ///< a lies as k x m
  bool is_b_transposed = false;  ///< b lies as n x k
  bool adds = false;             ///< to what is in c
  std::int64_t batch = 1;
};

/// The scores of attention: `heads` matrices of queries x keys; query q stands at position first + q and sees keys up to there.
struct Scores {
  std::int64_t heads = 0, queries = 0, keys = 0, first = 0;
  float scale = 1;
};

struct NormShape {
  std::int64_t rows = 0, width = 0;
};

class Multiplier {
 public:
  virtual ~Multiplier() = default;
  virtual void multiply(const Product& shape, const float* a, const float* b, float* c) const = 0;
};

class Arithmetic : public Multiplier {
 public:
  virtual std::string_view name() const = 0;
  /// Softmax of scale * x over the keys that are seen, in place; 0 for the others.
  virtual void attend(const Scores& shape, float* x) const = 0;
  /// `gradient` with respect to the probabilities becomes that with respect to x.
  virtual void attend_backward(const Scores& shape, const float* probabilities, float* gradient) const = 0;
  /// y = (x - mean) / sqrt(variance + 1e-5) * gain + bias; mean and 1 / sqrt(..) a row are kept for the way back.
  virtual void norm(NormShape shape, const float* x, const float* gain, const float* bias, float* y, float* mean, float* rate) const = 0;
  virtual void norm_backward(NormShape shape, const float* gradient, const float* x, const float* gain, const float* mean,
                             const float* rate, float* x_gradient) const = 0;
  /// x Phi(x), with the error function.
  virtual void gelu(std::int64_t count, const float* x, float* y) const = 0;
  virtual void gelu_backward(std::int64_t count, const float* gradient, const float* x, float* x_gradient) const = 0;
};

inline constexpr float kNormEpsilon = 1e-5F;

const Arithmetic& plain_arithmetic();

/// libtorch's, from the module that is built where libtorch was found; it stays loaded. Fails with what to install.
Result<const Arithmetic*> torch_arithmetic();

/// "torch", "plain", or "auto": torch where it can be had.
Result<const Arithmetic*> find_arithmetic(std::string_view name);

}  // namespace peal::parallel
