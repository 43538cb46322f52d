// The pieces of a small GPT (pre-norm, learnt positions, GELU), forward and backward by hand on the shards of one rank: embedding, layer,
// head.
//
// Rows are the tokens of a micro batch that this rank computes: samples x its share of the positions (context parallelism). With sequence
// parallelism what lies between the tensor-parallel parts is of own rows only. What the way back needs stands on a tape, one a micro batch.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <parallel/arithmetic.hpp>
#include <parallel/group.hpp>
#include <parallel/parameters.hpp>
#include <parallel/zone.hpp>
#include <training/layout.hpp>

namespace peal::parallel {

class GptUnit;

/// What all units of a rank share.
struct GptContext {
  training::Transformer shape;
  const Arithmetic* arithmetic = nullptr;
  Group* tensor = nullptr;
  Group* context = nullptr;
  Group* experts = nullptr;            ///< over which the experts of a layer are spread
  const GptUnit* embedding = nullptr;  ///< where this rank holds it; then a tied head takes its words from there
  bool cuts_sequence = false;
  training::Recompute recompute = training::Recompute::none;
  std::int64_t samples = 1;    ///< of a micro batch
  std::int64_t positions = 0;  ///< of each that this rank computes
  double loss_scale = 1;       ///< one over the tokens of a step
  std::function<void()> look;  ///< asked between pieces of work: what flies beside computing notes its end

  std::int64_t rows() const { return samples * positions; }
  std::int64_t own_rows() const { return cuts_sequence ? rows() / tensor->size() : rows(); }
  std::int64_t first_row() const { return cuts_sequence ? own_rows() * tensor->rank() : 0; }
  std::int64_t first_position() const { return positions * context->rank(); }
  /// Between units: own rows x hidden.
  std::int64_t boundary() const { return own_rows() * shape.hidden; }
};

/// Tokens of a micro batch's rows, and what comes after each.
struct MicroBatch {
  std::vector<int> tokens, targets;
};

inline constexpr std::size_t kWords = 0;  ///< the word vectors' number among the embedding's parameters

struct Tape {
  virtual ~Tape() = default;
};

class GptUnit {
 public:
  virtual ~GptUnit() = default;
  virtual std::unique_ptr<Tape> new_tape() const = 0;
  /// `input` and `output`: own rows x hidden. The embedding has no input, the head no output; it adds its loss to `loss`.
  virtual Status forward(Tape& tape, const MicroBatch& batch, const float* input, float* output, double& loss) = 0;
  /// The head has no `output_gradient`, the embedding no `input_gradient`.
  virtual Status backward_input(Tape& tape, const MicroBatch& batch, const float* output_gradient, float* input_gradient) = 0;
  /// After backward_input of the same tape.
  virtual Status backward_weight(Tape& tape, const MicroBatch& batch) = 0;

  const std::vector<Shard>& shards() const { return shards_; }
  /// The zone that holds the parameters of a kind, and where in it the unit's begin.
  void place(Sharing sharing, Zone& zone, std::int64_t first);
  std::int64_t elements(Sharing sharing) const;
  const float* parameter(std::size_t number) const { return zone_of(number).parameters() + shards_[number].offset; }
  float* gradient(std::size_t number) const { return zone_of(number).gradients() + shards_[number].offset; }

 protected:
  GptUnit(const GptContext& context, UnitName name);

  const GptContext& context_;

 private:
  Zone& zone_of(std::size_t number) const { return *zones_[static_cast<std::size_t>(shards_[number].sharing)]; }

  std::vector<Shard> shards_;
  std::array<Zone*, kSharings> zones_ = {};
};

/// `context` outlives the unit.
std::unique_ptr<GptUnit> make_unit(const GptContext& context, UnitName name);
std::unique_ptr<GptUnit> make_layer(const GptContext& context, int layer);
std::unique_ptr<GptUnit> make_embedding(const GptContext& context);
std::unique_ptr<GptUnit> make_head(const GptContext& context);

/// A norm that keeps what its way back needs.
struct NormTape {
  Buffer y, mean, rate, y_gradient;
};
void norm_forward(const GptContext& context, const float* x, const float* gain, const float* bias, NormTape& tape);
/// Of tape.y_gradient.
void norm_backward_input(const GptContext& context, const float* x, const float* gain, const NormTape& tape, float* x_gradient);
void norm_backward_weight(const GptContext& context, const float* x, const NormTape& tape, float* gain_gradient, float* bias_gradient);

inline Buffer floats(std::int64_t count) { return Buffer(static_cast<std::size_t>(count)); }

}  // namespace peal::parallel
