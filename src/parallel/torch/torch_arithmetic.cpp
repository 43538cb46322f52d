// libtorch as the arithmetic: a module of its own, so that neither the library nor the tool loads libtorch before somebody trains.
#include <ATen/core/grad_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/Parallel.h>

#include <parallel/arithmetic.hpp>
#include <parallel/torch_module.hpp>

namespace peal::parallel {

namespace {

// A tensor over memory of the caller's. ATen takes no pointer to const; what is read only is not written.
at::Tensor over(const float* data, at::IntArrayRef sizes) { return at::from_blob(const_cast<float*>(data), sizes, at::kFloat); }

class TorchArithmetic final : public Arithmetic {
 public:
  TorchArithmetic() { at::set_num_threads(1); }
  std::string_view name() const override { return "libtorch"; }

  void multiply(const Product& p, const float* a, const float* b, float* c) const override {
    const at::NoGradGuard no_gradient;
    at::Tensor left = p.is_a_transposed ? over(a, {p.batch, p.k, p.m}).transpose(1, 2) : over(a, {p.batch, p.m, p.k});
    at::Tensor right = p.is_b_transposed ? over(b, {p.batch, p.n, p.k}).transpose(1, 2) : over(b, {p.batch, p.k, p.n});
    at::Tensor result = over(c, {p.batch, p.m, p.n});
    if (p.batch == 1)
      result[0].addmm_(left[0], right[0], p.adds ? 1 : 0);
    else
      result.baddbmm_(left, right, p.adds ? 1 : 0);
  }

  void attend(const Scores& s, float* x) const override {
    const at::NoGradGuard no_gradient;
    at::Tensor scores = over(x, {s.heads, s.queries, s.keys});
    scores.mul_(s.scale).masked_fill_(hidden_from(s), -std::numeric_limits<float>::infinity());
    scores.copy_(at::softmax(scores, -1));
  }

  void attend_backward(const Scores& s, const float* probabilities, float* gradient) const override {
    const at::NoGradGuard no_gradient;
    const at::Tensor p = over(probabilities, {s.heads, s.queries, s.keys});
    at::Tensor g = over(gradient, {s.heads, s.queries, s.keys});
    g.sub_(g.mul(p).sum(-1, true)).mul_(p).mul_(s.scale);
  }

  void norm(NormShape s, const float* x, const float* gain, const float* bias, float* y, float* mean, float* rate) const override {
    const at::NoGradGuard no_gradient;
    const auto [result, means, rates] =
        at::native_layer_norm(over(x, {s.rows, s.width}), {s.width}, over(gain, {s.width}), over(bias, {s.width}), kNormEpsilon);
    over(y, {s.rows, s.width}).copy_(result);
    over(mean, {s.rows}).copy_(means.view({s.rows}));
    over(rate, {s.rows}).copy_(rates.view({s.rows}));
  }

  void norm_backward(NormShape s, const float* gradient, const float* x, const float* gain, const float* mean, const float* rate,
                     float* x_gradient) const override {
    const at::NoGradGuard no_gradient;
    const at::Tensor gains = over(gain, {s.width});
    const auto gradients =
        at::native_layer_norm_backward(over(gradient, {s.rows, s.width}), over(x, {s.rows, s.width}), {s.width}, over(mean, {s.rows, 1}),
                                       over(rate, {s.rows, 1}), gains, at::zeros_like(gains), {true, false, false});
    over(x_gradient, {s.rows, s.width}).copy_(std::get<0>(gradients));
  }

  void gelu(std::int64_t count, const float* x, float* y) const override {
    const at::NoGradGuard no_gradient;
    over(y, {count}).copy_(at::gelu(over(x, {count})));
  }

  void gelu_backward(std::int64_t count, const float* gradient, const float* x, float* x_gradient) const override {
    const at::NoGradGuard no_gradient;
    over(x_gradient, {count}).copy_(at::gelu_backward(over(gradient, {count}), over(x, {count})));
  }

 private:
  static at::Tensor hidden_from(const Scores& s) {
    const at::Tensor keys = at::arange(s.keys, at::kLong).view({1, s.keys});
    const at::Tensor queries = at::arange(s.first, s.first + s.queries, at::kLong).view({s.queries, 1});
    return keys.gt(queries);
  }
};

}  // namespace

}  // namespace peal::parallel

const peal::parallel::Arithmetic* peal_torch_arithmetic(int version) {
  if (version != peal::parallel::kTorchModuleVersion) return nullptr;
  static const peal::parallel::TorchArithmetic arithmetic;
  return &arithmetic;
}
