#include <fmt/format.h>
#include <base/mix_bits.hpp>
#include <cmath>
#include <numbers>
#include <parallel/parameters.hpp>

namespace peal::parallel {

namespace {

// GPT-2's (OpenAI's gpt-2, model.py: word embeddings and matrices).
constexpr double kSpread = 0.02;

ParameterSpec matrix(std::string name, std::int64_t rows, std::int64_t columns, Cut cut) {
  return {std::move(name), rows, columns, cut, FirstValue::normal, false, -1};
}
ParameterSpec gain(const std::string& norm, std::int64_t width) {
  return {norm + ".weight", width, 1, Cut::none, FirstValue::one, true, -1};
}
ParameterSpec bias(const std::string& of, std::int64_t width, Cut cut) {
  return {of + ".bias", width, 1, cut, FirstValue::zero, cut == Cut::none, -1};
}

// Experts have no biases, as training::layer_parameters() counts them.
std::vector<ParameterSpec> feed_forward_of(const training::Transformer& s, int number, const std::string& layer) {
  if (!s.has_experts(number))
    return {matrix(layer + "up.weight", s.ffn, s.hidden, Cut::rows), bias(layer + "up", s.ffn, Cut::rows),
            matrix(layer + "down.weight", s.hidden, s.ffn, Cut::columns), bias(layer + "down", s.hidden, Cut::none)};
  std::vector<ParameterSpec> specs = {matrix(layer + "router.weight", s.experts.count, s.hidden, Cut::none)};
  for (int expert = 0; expert < s.experts.count; ++expert) {
    const std::string name = fmt::format("{}experts.{}.", layer, expert);
    specs.push_back(matrix(name + "up.weight", s.experts.ffn, s.hidden, Cut::rows));
    specs.push_back(matrix(name + "down.weight", s.hidden, s.experts.ffn, Cut::columns));
    specs.end()[-1].expert = specs.end()[-2].expert = expert;
  }
  return specs;
}

}  // namespace

std::vector<UnitName> units_of(const training::Transformer& shape) {
  std::vector<UnitName> units = {{UnitName::embedding, 0}};
  for (int layer = 0; layer < shape.layers; ++layer) units.push_back({UnitName::layer, layer});
  units.push_back({UnitName::head, 0});
  return units;
}

std::vector<ParameterSpec> parameters_of(const training::Transformer& s, UnitName unit) {
  if (unit.kind == UnitName::embedding) {
    ParameterSpec positions = matrix("positions.weight", s.positions, s.hidden, Cut::none);
    positions.is_summed_over_tokens = true;
    return {matrix("words.weight", s.vocab, s.hidden, Cut::rows), positions};
  }
  if (unit.kind == UnitName::head) {
    std::vector<ParameterSpec> specs = {gain("norm", s.hidden), bias("norm", s.hidden, Cut::none)};
    if (!s.ties_embeddings) specs.push_back(matrix("head.weight", s.vocab, s.hidden, Cut::rows));
    return specs;
  }
  const std::string layer = fmt::format("layers.{}.", unit.layer_number);
  const std::int64_t width = s.heads * s.head_dim;
  // The rows of qkv go by heads, and within a head query, key, value: a cut by rows is a cut by heads.
  std::vector<ParameterSpec> specs = {gain(layer + "norm1", s.hidden),
                                      bias(layer + "norm1", s.hidden, Cut::none),
                                      matrix(layer + "qkv.weight", 3 * width, s.hidden, Cut::rows),
                                      bias(layer + "qkv", 3 * width, Cut::rows),
                                      matrix(layer + "projection.weight", s.hidden, width, Cut::columns),
                                      bias(layer + "projection", s.hidden, Cut::none),
                                      gain(layer + "norm2", s.hidden),
                                      bias(layer + "norm2", s.hidden, Cut::none)};
  for (ParameterSpec& spec : feed_forward_of(s, unit.layer_number, layer)) specs.push_back(std::move(spec));
  return specs;
}

std::int64_t Shard::whole_index(std::int64_t element) const {
  if (spec.cut == Cut::rows) return rank * elements() + element;
  if (spec.cut == Cut::none) return element;
  return element / columns() * spec.columns + rank * columns() + element % columns();
}

float first_value(const ParameterSpec& spec, std::uint64_t seed, std::int64_t index) {
  if (spec.first != FirstValue::normal) return spec.first == FirstValue::one ? 1.0F : 0.0F;
  std::uint64_t state = mix_bits(seed);
  for (const char letter : spec.name) state = mix_bits(state ^ static_cast<unsigned char>(letter));
  state = mix_bits(state + static_cast<std::uint64_t>(index));
  const auto uniform = [&state] { return (static_cast<double>(next_mixed(state) >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));  // Box and Muller
  return static_cast<float>(kSpread * radius * std::cos(2 * std::numbers::pi * uniform()));
}

}  // namespace peal::parallel
