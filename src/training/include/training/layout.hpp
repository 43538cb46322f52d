// A layout: how a model's training is cut over GPUs. (A plan is a schedule chosen for a call; the training planner speaks of layouts.)
//
//   gpus = tp x cp x dp x pp;  global batch = micro batch x dp x micro batches
//
// ep spreads the experts of a layer over ep of the dp x cp ranks that hold the same stage and shard; it takes no GPUs of its own.
#pragma once

#include <algorithm>
#include <array>
#include <base/result.hpp>
#include <string>
#include <string_view>
#include <training/model.hpp>
#include <vector>

namespace peal::training {

/// What a group of ranks has in common to talk about.
enum class Dimension : std::uint8_t { tp, cp, ep, dp, pp };
inline constexpr int kDimensions = 5;
std::string_view name_of(Dimension dimension) noexcept;  ///< "tp"; empty past the last

enum class PipelineKind : std::uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
std::string_view name_of(PipelineKind kind) noexcept;  ///< "gpipe", "1f1b", "interleaved", "zero-bubble"
Result<PipelineKind> parse_pipeline(std::string_view text);

/// What the backward pass computes anew: nothing, the attention's core (arXiv 2205.05198), whole layers.
enum class Recompute : std::uint8_t { none, selective, full };
std::string_view name_of(Recompute recompute) noexcept;
Result<Recompute> parse_recompute(std::string_view text);

/// Of matrix products; fp8: products alone, what is kept is bf16.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };
std::string_view name_of(Precision precision) noexcept;
Result<Precision> parse_precision(std::string_view text);
int bytes_of(Precision precision) noexcept;  ///< of an activation that is kept: 4 or 2

/// Plain data; check() says whether it can be.
struct Layout {
  int tp = 1, cp = 1, dp = 1, pp = 1;
  int ep = 1;
  int vpp = 1;         ///< pieces of the model that a stage holds (interleaved pipelines: above 1)
  int zero = 0;        ///< ZeRO stage 0 to 3: what dp ranks divide: nothing, optimiser, and gradients, and parameters (= FSDP)
  int zero_group = 0;  ///< of so many of them (hybrid sharding); 0: all
  bool has_sequence_parallel = false;  ///< norms and dropouts between tensor-parallel parts are cut along the sequence
  int micro_batch = 1;                 ///< samples of one data-parallel rank at a time
  int global_batch = 1;                ///< samples of a step
  std::int64_t seq_len = 0;            ///< 0: the model's
  PipelineKind pipeline = PipelineKind::one_f_one_b;
  Recompute recompute = Recompute::none;
  Precision precision = Precision::bf16;
  bool overlaps_gradients = true;  ///< gradient buckets travel beside the backward pass
  bool overlaps_tensor = false;    ///< tensor-parallel calls travel in pieces beside the products (async TP)
  double bucket_bytes = 0;         ///< of gradients that travel together; 0: as many as largest_bucket() says
  /// Which dimension neighbours in rank order differ in first.
  std::array<Dimension, 4> order = {Dimension::tp, Dimension::cp, Dimension::dp, Dimension::pp};

  int gpus() const { return tp * cp * dp * pp; }
  int data_ranks() const { return dp * cp; }  ///< that hold the same parameters
  /// That divide what ZeRO divides; 1: none.
  int zero_ranks() const { return zero == 0 ? 1 : zero_group > 0 ? zero_group : data_ranks(); }
  /// The same of experts, of which neighbours hold different ones.
  int expert_zero_ranks() const { return std::max(1, zero_ranks() / ep); }
  int micro_batches() const { return global_batch / (micro_batch * dp); }
  int chunks() const { return pp * vpp; }
  int size_of(Dimension dimension) const;
  std::int64_t seq_len_of(const Model& model) const { return seq_len > 0 ? seq_len : model.transformer.seq_len; }
  bool operator==(const Layout&) const = default;
};

/// Fails with one sentence that says what does not divide or multiply, and the nearest layout that works.
/// `gpus` <= 0: as many as the layout has.
Status check(const Model& model, const Layout& layout, int gpus = 0);
inline constexpr int kMostGpus = 1 << 20;
/// What somebody should know of a layout that can be, one sentence each.
std::vector<std::string> notes_of(const Layout& layout);

/// Where a rank stands in each dimension (of ep: which share of the experts it holds).
struct Position {
  int tp = 0, cp = 0, dp = 0, pp = 0, ep = 0;
  bool operator==(const Position&) const = default;
};
Position position_of(const Layout& layout, int rank);
int rank_of(const Layout& layout, const Position& position);
/// Ranks that talk about a dimension with `rank`, in ascending position; `rank` is one of them. dp groups of parameters that are not
/// experts' also hold the cp ranks (`with_cp`).
std::vector<int> group_of(const Layout& layout, Dimension dimension, int rank, bool with_cp = false);

/// The dp x cp ranks that hold the same experts as `rank` (those that reduce the experts' gradients), in ascending position.
std::vector<int> expert_group_of(const Layout& layout, int rank);

/// Bytes of gradients that travel together at most. Unless the layout says: 25 MB (PyTorch DDP), or a million elements for each rank that
/// holds the same parameters where that is more, so that a call over many ranks is not all latency (Megatron Core,
/// DistributedDataParallelConfig).
double largest_bucket(const Layout& layout);

/// Layers of a transformer, convolutions of an image network.
int layers_in(const Model& model);
/// Parts beside the layers that may stand for one each where layers are divided over stages: embedding, head, further predictions.
int most_ends(const Model& model);

struct LayerRange {
  int first = 0;
  int count = 0;
  bool operator==(const LayerRange&) const = default;
};
/// Layers of a chunk (piece c of stage s is chunk s + c * pp). Where they do not divide, the head (and what is predicted further) stands
/// for layers of the last chunk, then the embedding for one of the first, as BLOOM's 70 layers on 12 stages and Llama 3's 126 on 16;
/// check() refuses what does not come out even so.
LayerRange layers_of(const Model& model, const Layout& layout, int chunk);

/// "tp 8, pp 4, dp 2, micro batch 1 of 128, 1f1b, selective recomputation, bf16", leaving out what is 1 or none.
std::string describe(const Layout& layout);
/// The options of `peal sim step` that give it: "--tp 8 --pp 4 ...".
std::string options_of(const Layout& layout);
/// "tp,cp,dp,pp" of Layout::order.
Result<std::array<Dimension, 4>> parse_order(std::string_view text);

}  // namespace peal::training
