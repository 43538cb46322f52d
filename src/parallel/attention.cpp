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

Buffer by_heads(const Heads& h, std::int64_t kinds, std::int64_t kind, const float* rows) {
  Buffer heads = floats(h.elements());
  each_vector(h, kinds, kind, const_cast<float*>(rows), heads.data(),
              [&](const float* row, float* head) { std::copy_n(row, h.width, head); });
  return heads;
}

void to_rows(const Heads& h, std::int64_t kinds, std::int64_t kind, Buffer& heads, float* rows) {
  each_vector(h, kinds, kind, rows, heads.data(), [&](float* row, const float* head) { std::copy_n(head, h.width, row); });
}

// Between parts x heads x block, as the group gathers them, and heads x parts x block.
template <class Move>
void each_block(const Heads& h, float* by_part, float* by_head, Move&& move) {
  for (std::int64_t part = 0; part < h.parts; ++part)
    for (std::int64_t head = 0; head < h.count(); ++head)
      move(by_part + (part * h.count() + head) * h.block(), by_head + (head * h.parts + part) * h.block());
}

Status gather_positions(const GptContext& c, const Heads& h, Buffer& own) {
  if (h.parts == 1) return {};
  Buffer gathered = floats(h.elements() * h.parts), all = floats(h.elements() * h.parts);
  PEAL_TRY(c.context->gather(own.data(), gathered.data(), h.elements()));
  each_block(h, gathered.data(), all.data(), [&](const float* from, float* to) { std::copy_n(from, h.block(), to); });
  own.swap(all);
  return {};
}

Status sum_positions(const GptContext& c, const Heads& h, Buffer& all) {
  if (h.parts == 1) return {};
  Buffer scattered = floats(h.elements() * h.parts), own = floats(h.elements());
  each_block(h, scattered.data(), all.data(), [&](float* to, const float* from) { std::copy_n(from, h.block(), to); });
  PEAL_TRY(c.context->scatter_sum(scattered.data(), own.data(), h.elements()));
  all.swap(own);
  return {};
}

Scores scores_of(const GptContext& c, const Heads& h) {
  return {h.count(), h.positions, h.seen(), c.first_position(), 1 / std::sqrt(static_cast<float>(h.width))};
}

}  // namespace

Status attend(const GptContext& c, const float* qkv, AttentionTape& tape, float* output) {
  const Heads h(c);
  tape.queries = by_heads(h, 3, 0, qkv);
  tape.keys = by_heads(h, 3, 1, qkv);
  tape.values = by_heads(h, 3, 2, qkv);
  PEAL_TRY(gather_positions(c, h, tape.keys));
  PEAL_TRY(gather_positions(c, h, tape.values));
  tape.probabilities = floats(h.count() * h.positions * h.seen());
  c.arithmetic->multiply({.m = h.positions, .n = h.seen(), .k = h.width, .is_b_transposed = true, .batch = h.count()}, tape.queries.data(),
                         tape.keys.data(), tape.probabilities.data());
  c.arithmetic->attend(scores_of(c, h), tape.probabilities.data());
  Buffer result = floats(h.elements());
  c.arithmetic->multiply({.m = h.positions, .n = h.width, .k = h.seen(), .batch = h.count()}, tape.probabilities.data(), tape.values.data(),
                         result.data());
  to_rows(h, 1, 0, result, output);
  c.look();
  return {};
}

Status attend_backward(const GptContext& c, const float* output_gradient, const AttentionTape& tape, float* qkv_gradient) {
  const Heads h(c);
  const Buffer result = by_heads(h, 1, 0, output_gradient);
  Buffer scores = floats(h.count() * h.positions * h.seen());
  Buffer queries = floats(h.elements()), keys = floats(h.elements() * h.parts), values = floats(h.elements() * h.parts);
  c.arithmetic->multiply({.m = h.seen(), .n = h.width, .k = h.positions, .is_a_transposed = true, .batch = h.count()},
                         tape.probabilities.data(), result.data(), values.data());
  c.arithmetic->multiply({.m = h.positions, .n = h.seen(), .k = h.width, .is_b_transposed = true, .batch = h.count()}, result.data(),
                         tape.values.data(), scores.data());
  c.arithmetic->attend_backward(scores_of(c, h), tape.probabilities.data(), scores.data());
  c.arithmetic->multiply({.m = h.positions, .n = h.width, .k = h.seen(), .batch = h.count()}, scores.data(), tape.keys.data(),
                         queries.data());
  c.arithmetic->multiply({.m = h.seen(), .n = h.width, .k = h.positions, .is_a_transposed = true, .batch = h.count()}, scores.data(),
                         tape.queries.data(), keys.data());
  c.look();
  PEAL_TRY(sum_positions(c, h, keys));
  PEAL_TRY(sum_positions(c, h, values));
  to_rows(h, 3, 0, queries, qkv_gradient);
  to_rows(h, 3, 1, keys, qkv_gradient);
  to_rows(h, 3, 2, values, qkv_gradient);
  return {};
}

}  // namespace peal::parallel
