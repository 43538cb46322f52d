#include "evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace peal::training {
namespace {

constexpr double kEpsilon = 1e-5;

std::size_t rows_of(const Shape& shape) { return static_cast<std::size_t>(shape.front()); }
std::size_t columns_of(const Shape& shape) { return static_cast<std::size_t>(shape.back()); }

/// a [m, k] x b [k, n] (or, transposed, [n, k]) added to c [m, n].
void add_product(const double* a, const double* b, double* c, std::size_t m, std::size_t k, std::size_t n, bool a_transposed,
                 bool b_transposed) {
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l)
        sum += (a_transposed ? a[l * m + i] : a[i * k + l]) * (b_transposed ? b[j * k + l] : b[l * n + j]);
      c[i * n + j] += sum;
    }
}

double activation(OperatorKind kind, double x) {
  if (kind == OperatorKind::relu) return std::max(x, 0.0);
  if (kind == OperatorKind::gelu) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  return x / (1 + std::exp(-x));
}

double slope(OperatorKind kind, double x) {
  if (kind == OperatorKind::relu) return x > 0 ? 1 : 0;
  if (kind == OperatorKind::gelu)
    return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const double sigmoid = 1 / (1 + std::exp(-x));
  return sigmoid * (1 + x * (1 - sigmoid));
}

void softmax_row(const double* x, double* y, std::size_t n) {
  const double most = *std::max_element(x, x + n);
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += y[j] = std::exp(x[j] - most);
  for (std::size_t j = 0; j < n; ++j) y[j] /= sum;
}

void softmax_row_backward(const double* y, const double* dy, double* dx, std::size_t n) {
  double product = 0;
  for (std::size_t j = 0; j < n; ++j) product += y[j] * dy[j];
  for (std::size_t j = 0; j < n; ++j) dx[j] += y[j] * (dy[j] - product);
}

/// Mean (0 of an RMS norm) and inverse deviation of a row.
struct Spread {
  double mean = 0;
  double scale = 0;
};
Spread spread_of(OperatorKind kind, const double* x, std::size_t n) {
  Spread of;
  const double count = static_cast<double>(n);
  if (kind == OperatorKind::layer_norm)
    for (std::size_t j = 0; j < n; ++j) of.mean += x[j] / count;
  double square = 0;
  for (std::size_t j = 0; j < n; ++j) square += (x[j] - of.mean) * (x[j] - of.mean) / count;
  of.scale = 1 / std::sqrt(square + kEpsilon);
  return of;
}

Numbers norm(const Operator& op, std::span<const Operand> in) {
  const std::size_t m = rows_of(op.shape), n = columns_of(op.shape);
  Numbers y(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    const double* x = in[0].numbers->data() + i * n;
    const Spread of = spread_of(op.kind, x, n);
    for (std::size_t j = 0; j < n; ++j)
      y[i * n + j] = (x[j] - of.mean) * of.scale * (*in[1].numbers)[j] + (in.size() > 2 ? (*in[2].numbers)[j] : 0);
  }
  return y;
}

void norm_backward(const Operator& op, std::span<const Operand> in, const Numbers& dy) {
  const std::size_t m = rows_of(op.shape), n = columns_of(op.shape);
  for (std::size_t i = 0; i < m; ++i) {
    const double* x = in[0].numbers->data() + i * n;
    const Spread of = spread_of(op.kind, x, n);
    double sum = 0, along = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const double normal = (x[j] - of.mean) * of.scale, d = dy[i * n + j];
      (*in[1].gradient)[j] += d * normal;
      if (in.size() > 2) (*in[2].gradient)[j] += d;
      const double scaled = d * (*in[1].numbers)[j];
      sum += scaled / static_cast<double>(n);
      along += scaled * normal / static_cast<double>(n);
    }
    if (op.kind == OperatorKind::rms_norm) sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const double normal = (x[j] - of.mean) * of.scale;
      (*in[0].gradient)[i * n + j] += of.scale * (dy[i * n + j] * (*in[1].numbers)[j] - sum - normal * along);
    }
  }
}

/// Where a head's columns begin: of the queries, and of the keys and values, which a group of heads may share.
struct Head {
  std::size_t dim, first, shared_first, width;
};
Head head_of(const Operator& op, std::span<const Operand> in, std::size_t head) {
  const std::size_t heads = static_cast<std::size_t>(op.heads), dim = columns_of(op.shape) / heads, width = columns_of(*in[1].shape);
  return {dim, head * dim, head * width / (heads * dim) * dim, width};
}

/// One head of one row: what it looks at and how much.
void attention_weights(const Operator& op, std::span<const Operand> in, std::size_t row, std::size_t head, Numbers& weights) {
  const std::size_t n = columns_of(op.shape);
  const auto [dim, first, shared_first, width] = head_of(op, in, head);
  const std::size_t seen = op.is_causal ? row + 1 : rows_of(op.shape);
  Numbers scores(seen);
  for (std::size_t other = 0; other < seen; ++other) {
    for (std::size_t d = 0; d < dim; ++d)
      scores[other] += (*in[0].numbers)[row * n + first + d] * (*in[1].numbers)[other * width + shared_first + d];
    scores[other] /= std::sqrt(static_cast<double>(dim));
  }
  weights.assign(seen, 0);
  softmax_row(scores.data(), weights.data(), seen);
}

Numbers attention(const Operator& op, std::span<const Operand> in) {
  const std::size_t m = rows_of(op.shape), n = columns_of(op.shape), heads = static_cast<std::size_t>(op.heads);
  Numbers y(m * n), weights;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t head = 0; head < heads; ++head) {
      attention_weights(op, in, i, head, weights);
      const auto [dim, first, shared_first, width] = head_of(op, in, head);
      for (std::size_t other = 0; other < weights.size(); ++other)
        for (std::size_t d = 0; d < dim; ++d) y[i * n + first + d] += weights[other] * (*in[2].numbers)[other * width + shared_first + d];
    }
  return y;
}

void attention_backward(const Operator& op, std::span<const Operand> in, const Numbers& dy) {
  const std::size_t m = rows_of(op.shape), n = columns_of(op.shape), heads = static_cast<std::size_t>(op.heads);
  const double scale = 1 / std::sqrt(static_cast<double>(n / heads));
  Numbers weights;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t head = 0; head < heads; ++head) {
      attention_weights(op, in, i, head, weights);
      const auto [dim, first, shared_first, width] = head_of(op, in, head);
      Numbers d_weights(weights.size()), d_scores(weights.size());
      for (std::size_t other = 0; other < weights.size(); ++other)
        for (std::size_t d = 0; d < dim; ++d) {
          const std::size_t mine = i * n + first + d, its = other * width + shared_first + d;
          d_weights[other] += dy[mine] * (*in[2].numbers)[its];
          (*in[2].gradient)[its] += weights[other] * dy[mine];
        }
      softmax_row_backward(weights.data(), d_weights.data(), d_scores.data(), weights.size());
      for (std::size_t other = 0; other < weights.size(); ++other)
        for (std::size_t d = 0; d < dim; ++d) {
          const std::size_t mine = i * n + first + d, its = other * width + shared_first + d;
          (*in[0].gradient)[mine] += scale * d_scores[other] * (*in[1].numbers)[its];
          (*in[1].gradient)[its] += scale * d_scores[other] * (*in[0].numbers)[mine];
        }
    }
}

/// Row of the table that an id chooses; past its end where it is another shard's.
std::size_t row_chosen(const Operator& op, double id, std::size_t rows) {
  const double row = id - static_cast<double>(op.first);
  return row >= 0 && row < static_cast<double>(rows) ? static_cast<std::size_t>(row) : rows;
}

Numbers embedding(const Operator& op, std::span<const Operand> in) {
  const std::size_t n = columns_of(op.shape), rows = rows_of(*in[1].shape);
  Numbers y(rows_of(op.shape) * n);
  for (std::size_t i = 0; i < rows_of(op.shape); ++i)
    if (const std::size_t row = row_chosen(op, (*in[0].numbers)[i], rows); row < rows)
      std::copy_n(in[1].numbers->data() + row * n, n, y.data() + i * n);
  return y;
}

void embedding_backward(const Operator& op, std::span<const Operand> in, const Numbers& dy) {
  const std::size_t n = columns_of(op.shape), rows = rows_of(*in[1].shape);
  for (std::size_t i = 0; i < rows_of(op.shape); ++i)
    if (const std::size_t row = row_chosen(op, (*in[0].numbers)[i], rows); row < rows)
      for (std::size_t j = 0; j < n; ++j) (*in[1].gradient)[row * n + j] += dy[i * n + j];
}

/// Mean over rows; where there is a gradient to go back, it does.
double cross_entropy(std::span<const Operand> in, const double* gradient) {
  const std::size_t m = rows_of(*in[0].shape), n = columns_of(*in[0].shape);
  Numbers chances(n);
  double loss = 0;
  for (std::size_t i = 0; i < m; ++i) {
    softmax_row(in[0].numbers->data() + i * n, chances.data(), n);
    const auto wanted = static_cast<std::size_t>((*in[1].numbers)[i]);
    loss -= std::log(chances[wanted]) / static_cast<double>(m);
    if (gradient == nullptr) continue;
    for (std::size_t j = 0; j < n; ++j)
      (*in[0].gradient)[i * n + j] += *gradient * (chances[j] - (j == wanted ? 1 : 0)) / static_cast<double>(m);
  }
  return loss;
}

}  // namespace

Numbers evaluate_forward(const Operator& op, std::span<const Operand> in) {
  const std::size_t n = columns_of(op.shape);
  Numbers y(static_cast<std::size_t>(elements_of(op.shape)));
  const Numbers& x = *in[0].numbers;
  switch (op.kind) {
    case OperatorKind::matmul:
      add_product(x.data(), in[1].numbers->data(), y.data(), rows_of(op.shape), columns_of(*in[0].shape), n, false, op.transposes);
      break;
    case OperatorKind::add:
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + (*in[1].numbers)[i % in[1].numbers->size()];
      break;
    case OperatorKind::multiply:
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] * (*in[1].numbers)[i];
      break;
    case OperatorKind::softmax:
      for (std::size_t i = 0; i < y.size(); i += n) softmax_row(x.data() + i, y.data() + i, n);
      break;
    case OperatorKind::layer_norm:
    case OperatorKind::rms_norm: return norm(op, in);
    case OperatorKind::attention: return attention(op, in);
    case OperatorKind::embedding: return embedding(op, in);
    case OperatorKind::cross_entropy: y[0] = cross_entropy(in, nullptr); break;
    default:
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = activation(op.kind, x[i]);
  }
  return y;
}

void evaluate_backward(const Operator& op, std::span<const Operand> in, const Numbers& y, const Numbers& dy) {
  const std::size_t m = rows_of(op.shape), n = columns_of(op.shape);
  Numbers& dx = *in[0].gradient;
  switch (op.kind) {
    case OperatorKind::matmul: {
      const std::size_t k = columns_of(*in[0].shape);
      add_product(dy.data(), in[1].numbers->data(), dx.data(), m, n, k, false, !op.transposes);
      if (op.transposes)
        add_product(dy.data(), in[0].numbers->data(), in[1].gradient->data(), n, m, k, true, false);
      else
        add_product(in[0].numbers->data(), dy.data(), in[1].gradient->data(), k, m, n, true, false);
      break;
    }
    case OperatorKind::add:
      for (std::size_t i = 0; i < y.size(); ++i) dx[i] += dy[i], (*in[1].gradient)[i % in[1].numbers->size()] += dy[i];
      break;
    case OperatorKind::multiply:
      for (std::size_t i = 0; i < y.size(); ++i) {
        dx[i] += dy[i] * (*in[1].numbers)[i];
        (*in[1].gradient)[i] += dy[i] * (*in[0].numbers)[i];
      }
      break;
    case OperatorKind::softmax:
      for (std::size_t i = 0; i < y.size(); i += n) softmax_row_backward(y.data() + i, dy.data() + i, dx.data() + i, n);
      break;
    case OperatorKind::layer_norm:
    case OperatorKind::rms_norm: norm_backward(op, in, dy); break;
    case OperatorKind::attention: attention_backward(op, in, dy); break;
    case OperatorKind::embedding: embedding_backward(op, in, dy); break;
    case OperatorKind::cross_entropy: cross_entropy(in, dy.data()); break;
    default:
      for (std::size_t i = 0; i < y.size(); ++i) dx[i] += dy[i] * slope(op.kind, (*in[0].numbers)[i]);
  }
}

}  // namespace peal::training
