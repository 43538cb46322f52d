// What training in parallel is made of, for programs of your own: gradients summed beside the backward pass, dense layers cut over ranks,
// pipelines of stages. Buffers are plain floats; whatever computes them (a framework, a library of matrices, loops) is yours.
//
//   peal::GradientReducer reducer(world, gradients, sizes);      // data parallel
//   for each layer, from the last: { compute its gradient; reducer.ready(layer); }
//   reducer.finish();                                            // every gradient is the mean over the ranks
//
// All functions throw peal::Error. Objects belong to one thread, and their communicator to them while they are in use: give each its own
// (split). They may outlive the handle of the communicator, not what it reaches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <peal/communicator.hpp>
#include <peal/export.hpp>
#include <span>

namespace peal {

/// How long communication took, and how long the program stood still for it; seconds, since the object was made.
struct HiddenTimes {
  double took = 0;
  double waited = 0;
};

struct ReducerOptions {
  std::size_t bucket_bytes = 25 << 20;  ///< gradients that travel together (PyTorch DDP's default is 25 MiB)
  ReduceOp op = ReduceOp::avg;
};

/// Sums gradients over the ranks of a communicator, in buckets that leave as soon as they are full, beside the rest of the backward pass.
class PEAL_API GradientReducer {
 public:
  /// `gradients` are those of all parameters one behind the other, in the order of the forward pass, `sizes` their elements; the same on
  /// all ranks. The memory is the caller's and outlives the reducer.
  GradientReducer(Communicator& communicator, std::span<float> gradients, std::span<const std::size_t> sizes,
                  const ReducerOptions& options = {});
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;
  ~GradientReducer();

  /// The gradient of a parameter is complete and will not be touched until finish() is over. In any order; every parameter once a step.
  void ready(std::size_t parameter);
  /// Sends what has not been ready, too, and waits for all.
  void finish();
  /// While true, ready() and finish() do nothing: gradients of several micro batches are added up before they travel once.
  void set_accumulating(bool is_accumulating);
  HiddenTimes times() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// c (m x n) = a (m x k) b (k x n), row-major.
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool is_a_transposed = false;  ///< a lies as k x m
  bool is_b_transposed = false;  ///< b lies as n x k
  bool adds = false;             ///< to what is in c
};
using Multiply = std::function<void(const MatrixProduct&, const float* a, const float* b, float* c)>;

struct LinearOptions {
  std::int64_t in = 0, out = 0;       ///< of the whole layer; the ranks divide what is cut
  bool is_sequence_parallel = false;  ///< x of ColumnLinear and y of RowLinear are cut by rows (tokens)
  Multiply multiply = {};             ///< empty: plain loops
};

/// y = x W^T + b, whose outputs are cut over the ranks: each has out / ranks rows of W (out x in). Weights are the caller's.
/// `rows` is always of all ranks; with sequence parallelism a rank's own are rows / ranks.
class PEAL_API ColumnLinear {
 public:
  ColumnLinear(Communicator& communicator, const LinearOptions& options);
  ColumnLinear(ColumnLinear&&) noexcept;
  ColumnLinear& operator=(ColumnLinear&&) noexcept;
  ~ColumnLinear();
  std::int64_t own_out() const;
  /// y (rows x own out) from x (own rows x in). `all` (rows x in) gets x of all rows, which backward_weight wants; without sequence
  /// parallelism it is not written, and x stands for it. `bias` may be null.
  void forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* all, float* y);
  /// Gradient of x (own rows x in) from that of y.
  void backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* x_gradient);
  /// Adds to the gradients of the weight and, if not null, of the bias.
  void backward_weight(std::int64_t rows, const float* all, const float* y_gradient, float* weight_gradient, float* bias_gradient);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The layer behind it, whose inputs are cut: each rank has in / ranks columns of W. Its output is the sum over the ranks.
class PEAL_API RowLinear {
 public:
  RowLinear(Communicator& communicator, const LinearOptions& options);
  RowLinear(RowLinear&&) noexcept;
  RowLinear& operator=(RowLinear&&) noexcept;
  ~RowLinear();
  std::int64_t own_in() const;
  /// y (own rows x out) from x (rows x own in).
  void forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* y);
  /// Gradient of x from that of y (own rows x out), of which `all` (rows x out) gets all rows, as above.
  void backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* all, float* x_gradient);
  /// With sequence parallelism the bias' gradient is of own rows: its sum over the ranks is the gradient.
  void backward_weight(std::int64_t rows, const float* x, const float* all, const float* y_gradient, float* weight_gradient,
                       float* bias_gradient);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Orders of a pipeline: GPipe (arXiv 1811.06965), 1F1B (2006.09503), interleaved (2104.04473), zero-bubble ZB-H1 (2401.10241).
enum class PipelineOrder : std::uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };

struct PipelineOptions {
  PipelineOrder order = PipelineOrder::one_f_one_b;
  int micro_batches = 1;
  int pieces = 1;            ///< chunks a stage holds; above 1: interleaved
  std::size_t elements = 0;  ///< floats of the message between two chunks, of one micro batch
};

/// What a stage computes. Chunk c of `chunks` is held by stage c % stages. The first chunk has an empty input (and writes no gradient of
/// it), the last an empty output (and gets no gradient of it: the loss is its own). An exception ends the step on all ranks.
struct PipelineWork {
  std::function<void(int chunk, int micro_batch, std::span<const float> input, std::span<float> output)> forward;
  /// With respect to the input, and unless backward_weight is given and the order is zero-bubble, to the weights.
  std::function<void(int chunk, int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient)> backward;
  std::function<void(int chunk, int micro_batch)> backward_weight;  ///< zero-bubble only, where it must be given
};

/// Runs the passes of this rank's stage in the order's sequence, while messages between stages fly beside them. A rank is a stage.
class PEAL_API PipelineRunner {
 public:
  PipelineRunner(Communicator& communicator, const PipelineOptions& options, PipelineWork work);
  PipelineRunner(PipelineRunner&&) noexcept;
  PipelineRunner& operator=(PipelineRunner&&) noexcept;
  ~PipelineRunner();
  /// All micro batches, forward and backward. Collective.
  void step();
  int chunks() const;
  HiddenTimes times() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace peal
