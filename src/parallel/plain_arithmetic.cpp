// Loops that a compiler can vectorise: for tests, and where libtorch is not there.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <parallel/arithmetic.hpp>
#include <vector>

namespace peal::parallel {

namespace {

// c (m x n) += a b, b as k x n. Four rows of b at a time, so that c is read and written a quarter as often.
void add_product(const Product& p, const float* a, std::int64_t a_row, std::int64_t a_column, const float* b, float* c) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    float* __restrict row = c + i * p.n;
    std::int64_t l = 0;
    for (; l + 4 <= p.k; l += 4) {
      const float* factor = a + i * a_row + l * a_column;
      const float f0 = factor[0], f1 = factor[a_column], f2 = factor[2 * a_column], f3 = factor[3 * a_column];
      const float* __restrict r0 = b + l * p.n;
      const float* __restrict r1 = r0 + p.n;
      const float* __restrict r2 = r1 + p.n;
      const float* __restrict r3 = r2 + p.n;
      for (std::int64_t j = 0; j < p.n; ++j) row[j] += f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j];
    }
    for (; l < p.k; ++l) {
      const float factor = a[i * a_row + l * a_column];
      const float* __restrict other = b + l * p.n;
      for (std::int64_t j = 0; j < p.n; ++j) row[j] += factor * other[j];
    }
  }
}

class PlainArithmetic final : public Arithmetic {
 public:
  std::string_view name() const override { return "plain loops"; }

  void multiply(const Product& p, const float* a, const float* b, float* c) const override {
    std::vector<float> turned(p.is_b_transposed ? static_cast<std::size_t>(p.n * p.k) : 0);
    for (std::int64_t batch = 0; batch < p.batch; ++batch, a += p.m * p.k, b += p.n * p.k, c += p.m * p.n) {
      if (!p.adds) std::fill_n(c, p.m * p.n, 0.0F);
      const float* right = b;
      if (p.is_b_transposed) {
        for (std::int64_t j = 0; j < p.n; ++j)
          for (std::int64_t l = 0; l < p.k; ++l) turned[static_cast<std::size_t>(l * p.n + j)] = b[j * p.k + l];
        right = turned.data();
      }
      add_product(p, a, p.is_a_transposed ? 1 : p.k, p.is_a_transposed ? p.m : 1, right, c);
    }
  }

  void attend(const Scores& s, float* x) const override {
    for (std::int64_t line = 0; line < s.heads * s.queries; ++line, x += s.keys) {
      const std::int64_t seen = std::min(s.keys, s.first + line % s.queries + 1);
      const float top = *std::max_element(x, x + seen);
      float sum = 0;
      for (std::int64_t k = 0; k < seen; ++k) sum += x[k] = std::exp(s.scale * (x[k] - top));
      for (std::int64_t k = 0; k < seen; ++k) x[k] /= sum;
      std::fill(x + seen, x + s.keys, 0.0F);
    }
  }

  void attend_backward(const Scores& s, const float* p, float* gradient) const override {
    for (std::int64_t line = 0; line < s.heads * s.queries; ++line, p += s.keys, gradient += s.keys) {
      float sum = 0;
      for (std::int64_t k = 0; k < s.keys; ++k) sum += p[k] * gradient[k];
      for (std::int64_t k = 0; k < s.keys; ++k) gradient[k] = s.scale * p[k] * (gradient[k] - sum);
    }
  }

  void norm(NormShape s, const float* x, const float* gain, const float* bias, float* y, float* mean, float* rate) const override {
    const auto width = static_cast<float>(s.width);
    for (std::int64_t r = 0; r < s.rows; ++r, x += s.width, y += s.width) {
      float sum = 0, squares = 0;
      for (std::int64_t i = 0; i < s.width; ++i) sum += x[i];
      mean[r] = sum / width;
      for (std::int64_t i = 0; i < s.width; ++i) squares += (x[i] - mean[r]) * (x[i] - mean[r]);
      rate[r] = 1 / std::sqrt(squares / width + kNormEpsilon);
      for (std::int64_t i = 0; i < s.width; ++i) y[i] = (x[i] - mean[r]) * rate[r] * gain[i] + bias[i];
    }
  }

  void norm_backward(NormShape s, const float* gradient, const float* x, const float* gain, const float* mean, const float* rate,
                     float* x_gradient) const override {
    const auto width = static_cast<float>(s.width);
    for (std::int64_t r = 0; r < s.rows; ++r, x += s.width, gradient += s.width, x_gradient += s.width) {
      float sum = 0, projected = 0;
      for (std::int64_t i = 0; i < s.width; ++i) {
        sum += gradient[i] * gain[i];
        projected += gradient[i] * gain[i] * (x[i] - mean[r]) * rate[r];
      }
      for (std::int64_t i = 0; i < s.width; ++i)
        x_gradient[i] = rate[r] * (gradient[i] * gain[i] - (sum + (x[i] - mean[r]) * rate[r] * projected) / width);
    }
  }

  void gelu(std::int64_t count, const float* x, float* y) const override {
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * normal_share(x[i]);
  }

  void gelu_backward(std::int64_t count, const float* gradient, const float* x, float* x_gradient) const override {
    constexpr float kDensity = 0.5F * std::numbers::inv_sqrtpi_v<float> * std::numbers::sqrt2_v<float>;
    for (std::int64_t i = 0; i < count; ++i)
      x_gradient[i] = gradient[i] * (normal_share(x[i]) + x[i] * kDensity * std::exp(-0.5F * x[i] * x[i]));
  }

 private:
  static float normal_share(float x) { return 0.5F * (1 + std::erf(x * (0.5F * std::numbers::sqrt2_v<float>))); }
};

}  // namespace

const Arithmetic& plain_arithmetic() {
  static const PlainArithmetic arithmetic;
  return arithmetic;
}

}  // namespace peal::parallel
