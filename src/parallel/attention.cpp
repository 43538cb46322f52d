#include <algorithm>
#include <cmath>
#include <parallel/attention.hpp>

namespace peal::parallel {

namespace {

// Sizes of one rank's part.
struct Heads {
  std::int64_t samples, positions, heads, width, parts;
  explicit Heads(const GptContext& c)
      : samples(c.samples),
        positions(c.positions),
        heads(c.shape.heads / c.tensor->size()),
        width(c.shape.head_dim),
        parts(c.context->size()) {}
  std::int64_t count() const { return samples * heads; }
  std::int64_t block() const { return positions * width; }
  std::int64_t elements() const { return count() * block(); }
  std::int64_t seen() const { return positions * parts; }
};

// Between rows x heads x `kinds` x width, of which kind number `kind`, and samples x heads x positions x width.
template <class Move>
void each_vector(const Heads& h, std::int64_t kinds, std::int64_t kind, float* rows, float* heads, Move&& move) {
  for (std::int64_t sample = 0; sample < h.samples; ++sample)
    for (std::int64_t position = 0; position < h.positions; ++position)
      for (std::int64_t head = 0; head < h.heads; ++head)
        move(rows + (((sample * h.positions + position) * h.heads + head) * kinds + kind) * h.width,
             heads + ((sample * h.heads + head) * h.positions + position) * h.width);
}

void by_heads(const Heads& h, std::int64_t kinds, std::int64_t kind, const float* rows, float* heads) {
  each_vector(h, kinds, kind, const_cast<float*>(rows), heads, [&](const float* row, float* head) { std::copy_n(row, h.width, head); });
}

void to_rows(const Heads& h, std::int64_t kinds, std::int64_t kind, const float* heads, float* rows) {
  each_vector(h, kinds, kind, rows, const_cast<float*>(heads), [&](float* row, const float* head) { std::copy_n(head, h.width, row); });
}

// Keys and values: between parts x kinds x heads x block, as they travel, and kinds x heads x parts x block, as they are computed with.
constexpr std::int64_t kAttentionKinds = 2;

template <class Move>
void each_block(const Heads& h, float* by_part, float* by_head, Move&& move) {
  const std::int64_t heads = kAttentionKinds * h.count();  // of both
  for (std::int64_t part = 0; part < h.parts; ++part)
    for (std::int64_t head = 0; head < heads; ++head)
      move(by_part + (part * heads + head) * h.block(), by_head + (head * h.parts + part) * h.block());
}

// Keys and values of all positions, from those of this rank's; `gathered` holds them where they are not the same.
Result<const float*> gather_positions(const GptContext& c, const Heads& h, const Buffer& own, Buffer& gathered) {
  if (h.parts == 1) return own.data();
  const std::int64_t count = kAttentionKinds * h.elements();
  float* travelled = c.context->scratch(count * h.parts);
  PEAL_TRY(c.context->gather(own.data(), travelled, count));
  gathered = floats(count * h.parts);
  each_block(h, travelled, gathered.data(), [&](const float* from, float* to) { std::copy_n(from, h.block(), to); });
  return gathered.data();
}

// The gradients of all positions become those of this rank's: sums over the ranks.
Status sum_positions(const GptContext& c, const Heads& h, Buffer& gradients) {
  if (h.parts == 1) return {};
  const std::int64_t count = kAttentionKinds * h.elements();
  float* leaving = c.context->scratch(count * h.parts);
  each_block(h, leaving, gradients.data(), [&](float* to, const float* from) { std::copy_n(from, h.block(), to); });
  return c.context->scatter_sum(leaving, gradients.data(), count);
}

Scores scores_of(const GptContext& c, const Heads& h) {
  return {h.count(), h.positions, h.seen(), c.first_position(), 1 / std::sqrt(static_cast<float>(h.width))};
}

}  // namespace

Status attend(const GptContext& c, const float* qkv, AttentionTape& tape, float* output) {
  const Heads h(c);
  tape.queries = floats(h.elements());
  tape.keys_values = floats(kAttentionKinds * h.elements());
  by_heads(h, 3, 0, qkv, tape.queries.data());
  for (std::int64_t kind = 0; kind < kAttentionKinds; ++kind) by_heads(h, 3, 1 + kind, qkv, tape.keys_values.data() + kind * h.elements());
  Buffer gathered;
  PEAL_ASSIGN(const float* keys, gather_positions(c, h, tape.keys_values, gathered));
  const float* values = keys + h.elements() * h.parts;
  tape.probabilities = floats(h.count() * h.positions * h.seen());
  c.arithmetic->multiply({.m = h.positions, .n = h.seen(), .k = h.width, .is_b_transposed = true, .batch = h.count()}, tape.queries.data(),
                         keys, tape.probabilities.data());
  c.arithmetic->attend(scores_of(c, h), tape.probabilities.data());
  Buffer result = floats(h.elements());
  c.arithmetic->multiply({.m = h.positions, .n = h.width, .k = h.seen(), .batch = h.count()}, tape.probabilities.data(), values,
                         result.data());
  to_rows(h, 1, 0, result.data(), output);
  c.look();
  return {};
}

Status attend_backward(const GptContext& c, const float* output_gradient, const AttentionTape& tape, float* qkv_gradient) {
  const Heads h(c);
  Buffer gathered;
  PEAL_ASSIGN(const float* keys, gather_positions(c, h, tape.keys_values, gathered));
  const float* values = keys + h.elements() * h.parts;
  Buffer result = floats(h.elements());  // gradients, as everything from here on
  by_heads(h, 1, 0, output_gradient, result.data());
  Buffer scores = floats(h.count() * h.positions * h.seen());
  Buffer queries = floats(h.elements()), keys_values = floats(kAttentionKinds * h.elements() * h.parts);
  c.arithmetic->multiply({.m = h.seen(), .n = h.width, .k = h.positions, .is_a_transposed = true, .batch = h.count()},
                         tape.probabilities.data(), result.data(), keys_values.data() + h.elements() * h.parts);
  c.arithmetic->multiply({.m = h.positions, .n = h.seen(), .k = h.width, .is_b_transposed = true, .batch = h.count()}, result.data(),
                         values, scores.data());
  c.arithmetic->attend_backward(scores_of(c, h), tape.probabilities.data(), scores.data());
  c.arithmetic->multiply({.m = h.positions, .n = h.width, .k = h.seen(), .batch = h.count()}, scores.data(), keys, queries.data());
  c.arithmetic->multiply({.m = h.seen(), .n = h.width, .k = h.positions, .is_a_transposed = true, .batch = h.count()}, scores.data(),
                         tape.queries.data(), keys_values.data());
  c.look();
  PEAL_TRY(sum_positions(c, h, keys_values));
  to_rows(h, 3, 0, queries.data(), qkv_gradient);
  for (std::int64_t kind = 0; kind < kAttentionKinds; ++kind)
    to_rows(h, 3, 1 + kind, keys_values.data() + kind * h.elements(), qkv_gradient);
  return {};
}

}  // namespace peal::parallel
