// What training in parallel is made of, for programs of your own: gradients summed beside the backward pass, dense layers cut over ranks,
// pipelines of stages. Buffers are plain floats; whatever computes them (a framework, a library of matrices, loops) is yours.
//
//   peal::GradientReducer reducer(world, gradients, sizes);      // data parallel
//   for each layer, from the last: { compute its gradient; reducer.ready(layer); }
//   reducer.finish();                                            // every gradient is the mean over the ranks
//
// Holds for all of them:
//   Ranks       constructors are local; what communicates is collective: all ranks of the communicator call it, in the same order, with the
//               same sizes and options. Ranks that call it with others get ErrorCode::mismatch, or wait for the timeout.
//   Threads     an object is used by one thread at a time, and so is its communicator, which nobody else uses between two calls of the
//               object that belong together (from the first ready() to finish(); within step()). Give each its own (split()). What flies
//               beside the program is carried by the communicator's progress thread.
//   Ownership   buffers and weights are the caller's and stay where they are for as long as is said; matrices are row-major. Nothing is
//               copied that is not said to be. An object shares the communicator's inside: it may outlive the handle.
//   Errors      peal::Error: ErrorCode::invalid_argument before anything was sent, when an argument cannot be; else the fault of the
//               communicator (a lost rank, a timeout), after which it and the object are of no more use than to be destroyed.
//   Moving      what was moved from may be destroyed or assigned to, nothing else. Destructors wait for what flies, or for its fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <peal/communicator.hpp>
#include <peal/export.hpp>
#include <span>

namespace peal {

/// Seconds since the object was made. One less waited / took is the share that was hidden.
struct HiddenTimes {
  double took = 0;    ///< by calls that have ended, each from its start, or from the end of the one before, to its end
  double waited = 0;  ///< that the program stood still for them
};

struct ReducerOptions {
  std::size_t bucket_bytes = 25 << 20;  ///< gradients that travel together (PyTorch DDP's default is 25 MiB); a larger one travels alone
  ReduceOp op = ReduceOp::avg;          ///< one that floats have: sum, avg, min, max or prod
};

/// Sums gradients over the ranks of a communicator, in buckets that leave as soon as they are full, beside the rest of the backward pass.
class PEAL_API GradientReducer {
 public:
  /// `gradients` are those of all parameters one behind the other, in the order of the forward pass, `sizes` their elements, which are
  /// copied. The memory of the gradients outlives the reducer, or is not touched by it again once finish() is over. Invalid: sizes that do
  /// not add up to the gradients. O(parameters).
  GradientReducer(Communicator& communicator, std::span<float> gradients, std::span<const std::size_t> sizes,
                  const ReducerOptions& options = {});
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;
  ~GradientReducer();

  /// The gradient of parameter number `parameter` is complete and will be neither read nor written until finish() is over. Does not wait.
  /// In any order, which may differ between ranks: buckets leave from the last parameters' on, each when all its gradients and those of
  /// the buckets before it are ready. Invalid: a number that there is not, or one that was ready before in this step.
  void ready(std::size_t parameter);
  /// Sends what has not been ready, too, as it stands, and waits for all: afterwards `gradients` holds the reduction of all ranks',
  /// and the next step begins. Every rank calls it, whatever it called ready() for.
  void finish();
  /// While true, ready() and finish() do nothing: gradients of several micro batches are added up by the caller before they travel once, in
  /// the last of them. To be changed between steps.
  void set_accumulating(bool is_accumulating);
  HiddenTimes times() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// c (m x n) = a (m x k) b (k x n), row-major, nothing between rows.
struct MatrixProduct {
  std::int64_t m = 0, n = 0, k = 0;
  bool is_a_transposed = false;  ///< a lies as k x m
  bool is_b_transposed = false;  ///< b lies as n x k
  bool adds = false;             ///< to what is in c
};
/// Runs in the thread that called the layer. What it throws goes through to that caller; the other ranks then wait for this one in vain,
/// until it ends or their timeout.
using Multiply = std::function<void(const MatrixProduct&, const float* a, const float* b, float* c)>;

struct LinearOptions {
  std::int64_t in = 0, out = 0;       ///< of the whole layer, 1 or more; the ranks divide what is cut
  bool is_sequence_parallel = false;  ///< x of ColumnLinear and y of RowLinear are cut by rows (tokens): rank r has the r-th part of them
  Multiply multiply = {};             ///< empty: plain loops
};

/// y = x W^T + b, whose outputs are cut over the ranks (arXiv 1909.08053): rank r has the r-th out / ranks rows of W (out x in) and of b,
/// its "own out". `rows` is always of all ranks; with sequence parallelism (2205.05198) a rank's "own rows" are rows / ranks, without they
/// are all. Invalid: rows that the ranks do not divide then. Calls block; every pointer is to as many floats as its shape says, none may
/// overlap what is written, and none is kept. The object keeps rows x in floats for itself with sequence parallelism, and no gradients.
class PEAL_API ColumnLinear {
 public:
  /// Invalid: `in` below 1, or `out` that the ranks do not divide.
  ColumnLinear(Communicator& communicator, const LinearOptions& options);
  ColumnLinear(ColumnLinear&&) noexcept;
  ColumnLinear& operator=(ColumnLinear&&) noexcept;
  ~ColumnLinear();
  /// Outputs of this rank: out / ranks.
  std::int64_t own_out() const;
  /// y (rows x own out) from x (own rows x in), `weight` (own out x in) and `bias` (own out; may be null). With sequence parallelism an
  /// all-gather stands before it, and `all` (rows x in) gets x of all rows, which backward_weight wants; without, nothing is sent, `all` is
  /// not written and may be null, and x stands for it.
  void forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* all, float* y);
  /// Gradient of x (own rows x in) from that of y (rows x own out): a sum over the ranks, with sequence parallelism a reduce-scatter.
  void backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* x_gradient);
  /// Adds to the gradients of the weight (own out x in) and, if not null, of the bias (own out). `all` as forward() left it; without
  /// sequence parallelism x. Sends nothing.
  void backward_weight(std::int64_t rows, const float* all, const float* y_gradient, float* weight_gradient, float* bias_gradient);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The layer behind it, whose inputs are cut: rank r has the r-th in / ranks columns of W (its shard lies as out x own in), and all of b.
/// Its output is the sum over the ranks. Rows, pointers and memory (rows x out) as above.
class PEAL_API RowLinear {
 public:
  /// Invalid: `out` below 1, or `in` that the ranks do not divide.
  RowLinear(Communicator& communicator, const LinearOptions& options);
  RowLinear(RowLinear&&) noexcept;
  RowLinear& operator=(RowLinear&&) noexcept;
  ~RowLinear();
  /// Inputs of this rank: in / ranks.
  std::int64_t own_in() const;
  /// y (own rows x out) from x (rows x own in), `weight` (out x own in) and `bias` (out; may be null), which is added once, behind the sum:
  /// an all-reduce, with sequence parallelism a reduce-scatter.
  void forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* y);
  /// Gradient of x (rows x own in) from that of y (own rows x out). With sequence parallelism `all` (rows x out) gets that of all rows by
  /// an all-gather; without, nothing is sent, `all` may be null, and y_gradient stands for it.
  void backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* all, float* x_gradient);
  /// Adds to the gradients of the weight (out x own in) and, if not null, of the bias (out). `all` as backward_input() left it. Sends
  /// nothing: with sequence parallelism the bias' gradient is of own rows, and its sum over the ranks is the gradient; without, all ranks
  /// have the same.
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
  int micro_batches = 1;     ///< of a step, 1 or more; interleaved: a multiple of the stages
  int pieces = 1;            ///< chunks that a stage holds; interleaved: 2 or more, else 1
  std::size_t elements = 0;  ///< floats of the message between two chunks, of one micro batch; 1 or more where there are two
};

/// What a stage computes. Chunk c of chunks() is held by stage c % stages. The first chunk has an empty input (and writes no gradient of
/// it), the last an empty output (and gets no gradient of it: the loss is its own); all other spans have `elements` floats, which are the
/// runner's and valid during the call alone. Outputs begin as zeros. What the way back of a micro batch needs, the work keeps by itself.
/// Functions are called in the thread that called step(), one at a time, and use the runner's communicator for nothing of their own. An
/// exception ends the step on all ranks: step() throws it again on this one, and Error(aborted) on the others.
struct PipelineWork {
  /// Both must be given.
  std::function<void(int chunk, int micro_batch, std::span<const float> input, std::span<float> output)> forward;
  /// With respect to the input and to the weights; with zero-bubble to the input alone. After forward of the same chunk and micro batch.
  std::function<void(int chunk, int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient)> backward;
  /// Zero-bubble only, where it must be given: with respect to the weights, after backward of the same.
  std::function<void(int chunk, int micro_batch)> backward_weight;
};

/// Runs the passes of this rank's stage in the order's sequence, while messages between stages fly beside them. Rank r is stage r.
class PEAL_API PipelineRunner {
 public:
  /// Takes the work. Invalid: options that are not as they say, work without what its order asks for. O(chunks x micro batches).
  PipelineRunner(Communicator& communicator, const PipelineOptions& options, PipelineWork work);
  PipelineRunner(PipelineRunner&&) noexcept;
  PipelineRunner& operator=(PipelineRunner&&) noexcept;
  ~PipelineRunner();
  /// All micro batches, forward and backward; collective. After an exception neither runner nor communicator is of any more use.
  void step();
  /// Of the whole pipeline: stages x pieces.
  int chunks() const;
  /// Of the messages between stages; what was waited for is the pipeline's bubble, too.
  HiddenTimes times() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace peal
