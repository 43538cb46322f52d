// Dense layers that are cut over the ranks of a group (arXiv 1909.08053): by columns, then by rows, and one sum for both.
//
//   x --> [ columns: every rank has some outputs ] --> f --> [ rows: every rank has those inputs ] --> sum over ranks --> y
//
// With sequence parallelism (arXiv 2205.05198) x and y are cut by rows of the batch (tokens): an all-gather stands before the columns and a
// reduce-scatter behind the rows, which move as much as the sum. Weights are the shards of this rank, out x in, and the caller's.
#pragma once

#include <cstdint>
#include <parallel/arithmetic.hpp>
#include <parallel/group.hpp>

namespace peal::parallel {

/// Whole sizes.
struct LinearShape {
  std::int64_t in = 0, out = 0;
};

/// Of what is cut, the group's size divides what it cuts. `rows` is always all rows; "own" rows are rows / size with sequence parallelism.
class ColumnLinear {
 public:
  ColumnLinear(const Multiplier& multiplier, Group& group, LinearShape shape, bool cuts_sequence)
      : multiplier_(&multiplier), group_(&group), in_(shape.in), out_(shape.out / group.size()), cuts_sequence_(cuts_sequence) {}
  std::int64_t own_out() const { return out_; }
  /// y (rows x own out) from x (own rows x in); `all` (rows x in) gets x of all rows, which backward_weight wants: where the sequence
  /// is not cut x stands for it. `bias` may be null.
  Status forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* all, float* y) const;
  /// Gradient of x (own rows x in) from that of y (rows x own out).
  Status backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* x_gradient) const;
  /// Adds to the gradients of the weight and, not null, of the bias.
  void backward_weight(std::int64_t rows, const float* all, const float* y_gradient, float* weight_gradient, float* bias_gradient) const;

 private:
  const Multiplier* multiplier_;
  Group* group_;
  std::int64_t in_, out_;
  bool cuts_sequence_;
};

class RowLinear {
 public:
  RowLinear(const Multiplier& multiplier, Group& group, LinearShape shape, bool cuts_sequence)
      : multiplier_(&multiplier), group_(&group), in_(shape.in / group.size()), out_(shape.out), cuts_sequence_(cuts_sequence) {}
  std::int64_t own_in() const { return in_; }
  /// y (own rows x out) from x (rows x own in). `bias` may be null.
  Status forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* y) const;
  /// Gradient of x (rows x own in) from that of y (own rows x out); `all` (rows x out) gets the latter of all rows,
  /// which backward_weight wants: where the sequence is not cut y_gradient stands for it, here and there.
  Status backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* all, float* x_gradient) const;
  /// Adds to the gradients. With sequence parallelism that of the bias is of own rows: its sum over the group is the gradient.
  void backward_weight(std::int64_t rows, const float* x, const float* all, const float* y_gradient, float* weight_gradient,
                       float* bias_gradient) const;

 private:
  std::int64_t own(std::int64_t rows) const { return cuts_sequence_ ? rows / group_->size() : rows; }

  const Multiplier* multiplier_;
  Group* group_;
  std::int64_t in_, out_;
  bool cuts_sequence_;
};

/// y += bias in every row; bias += sum of the rows of y.
void add_bias(std::int64_t rows, std::int64_t width, const float* bias, float* y);
void add_rows(std::int64_t rows, std::int64_t width, const float* y, float* bias);

/// y from x, x's gradient from y's, and what is added to the weight's gradient from y's and x.
Product forward_product(std::int64_t rows, std::int64_t in, std::int64_t out);
Product input_product(std::int64_t rows, std::int64_t in, std::int64_t out);
Product weight_product(std::int64_t rows, std::int64_t in, std::int64_t out);

/// Where a rank puts its part, rows x width, of a sum over the group that `result` gets: with sequence parallelism, where `result` is of
/// its own rows alone, the group's scratch; without, `result` itself.
float* place_of_part(Group& group, bool cuts_sequence, std::int64_t rows, std::int64_t width, float* result);
/// The sum of what every rank has put there.
Status sum_rows(Group& group, bool cuts_sequence, std::int64_t rows, std::int64_t width, const float* part, float* result);

}  // namespace peal::parallel
