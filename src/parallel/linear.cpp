#include <parallel/linear.hpp>

namespace peal::parallel {

void add_bias(std::int64_t rows, std::int64_t width, const float* bias, float* y) {
  if (bias == nullptr) return;
  for (std::int64_t r = 0; r < rows; ++r, y += width)
    for (std::int64_t i = 0; i < width; ++i) y[i] += bias[i];
}

void add_rows(std::int64_t rows, std::int64_t width, const float* y, float* bias) {
  if (bias == nullptr) return;
  for (std::int64_t r = 0; r < rows; ++r, y += width)
    for (std::int64_t i = 0; i < width; ++i) bias[i] += y[i];
}

Product forward_product(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows, .n = out, .k = in, .is_b_transposed = true};
}
Product input_product(std::int64_t rows, std::int64_t in, std::int64_t out) { return {.m = rows, .n = in, .k = out}; }
Product weight_product(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = out, .n = in, .k = rows, .is_a_transposed = true, .adds = true};
}

float* place_of_part(Group& group, bool cuts_sequence, std::int64_t rows, std::int64_t width, float* result) {
  return cuts_sequence ? group.scratch(rows * width) : result;
}

Status sum_rows(Group& group, bool cuts_sequence, std::int64_t rows, std::int64_t width, const float* part, float* result) {
  if (cuts_sequence) return group.scatter_sum(part, result, rows / group.size() * width);
  return group.sum(result, rows * width);
}

Status ColumnLinear::forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* all, float* y) const {
  if (cuts_sequence_) PEAL_TRY(group_->gather(x, all, rows / group_->size() * in_));
  multiplier_->multiply(forward_product(rows, in_, out_), cuts_sequence_ ? all : x, weight, y);
  add_bias(rows, out_, bias, y);
  return {};
}

Status ColumnLinear::backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* x_gradient) const {
  float* part = place_of_part(*group_, cuts_sequence_, rows, in_, x_gradient);
  multiplier_->multiply(input_product(rows, in_, out_), y_gradient, weight, part);
  return sum_rows(*group_, cuts_sequence_, rows, in_, part, x_gradient);
}

void ColumnLinear::backward_weight(std::int64_t rows, const float* all, const float* y_gradient, float* weight_gradient,
                                   float* bias_gradient) const {
  multiplier_->multiply(weight_product(rows, in_, out_), y_gradient, all, weight_gradient);
  add_rows(rows, out_, y_gradient, bias_gradient);
}

Status RowLinear::forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* y) const {
  float* part = place_of_part(*group_, cuts_sequence_, rows, out_, y);
  multiplier_->multiply(forward_product(rows, in_, out_), x, weight, part);
  PEAL_TRY(sum_rows(*group_, cuts_sequence_, rows, out_, part, y));
  add_bias(own(rows), out_, bias, y);
  return {};
}

Status RowLinear::backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* all, float* x_gradient) const {
  if (cuts_sequence_) PEAL_TRY(group_->gather(y_gradient, all, own(rows) * out_));
  multiplier_->multiply(input_product(rows, in_, out_), cuts_sequence_ ? all : y_gradient, weight, x_gradient);
  return {};
}

void RowLinear::backward_weight(std::int64_t rows, const float* x, const float* all, const float* y_gradient, float* weight_gradient,
                                float* bias_gradient) const {
  multiplier_->multiply(weight_product(rows, in_, out_), cuts_sequence_ ? all : y_gradient, x, weight_gradient);
  add_rows(own(rows), out_, y_gradient, bias_gradient);
}

}  // namespace peal::parallel
