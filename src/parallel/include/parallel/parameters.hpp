// The parameters of a small GPT by name: their whole shapes, how tensor parallelism cuts them, and what they are at first. The names and
// whole shapes are the same in every layout: by them gradients are compared and checkpoints cut anew.
#pragma once

#include <cstdint>
#include <string>
#include <training/model.hpp>
#include <vector>

namespace peal::parallel {

/// A piece of the model that is computed as one.
struct UnitName {
  enum Kind : std::uint8_t { embedding, layer, head } kind = layer;
  int layer_number = 0;
  bool operator==(const UnitName&) const = default;
};
/// In the order of the forward pass.
std::vector<UnitName> units_of(const training::Transformer& shape);

enum class Cut : std::uint8_t { none, rows, columns };
enum class FirstValue : std::uint8_t { normal, zero, one };

struct ParameterSpec {
  std::string name;
  std::int64_t rows = 0, columns = 1;  ///< of the whole
  Cut cut = Cut::none;
  FirstValue first = FirstValue::normal;
  /// With sequence parallelism every rank of a tensor-parallel group has the gradient of its own tokens only.
  bool is_summed_over_tokens = false;
  int expert = -1;  ///< that it belongs to; below 0: to none

  std::int64_t elements() const { return rows * columns; }
};
/// In the order in which the unit's code numbers them.
std::vector<ParameterSpec> parameters_of(const training::Transformer& shape, UnitName unit);

/// Who else holds a shard: all data-parallel ranks, or, of experts that are spread over some of them, one in each such group.
enum class Sharing : std::uint8_t { by_all, by_copies };
inline constexpr int kSharings = 2;

/// One rank's shard.
struct Shard {
  ParameterSpec spec;
  int rank = 0, ranks = 1;
  std::int64_t offset = 0;  ///< in its zone
  Sharing sharing = Sharing::by_all;
  bool is_copy = false;  ///< of words that another stage of the pipeline holds, too: a tied head's

  std::int64_t rows() const { return spec.cut == Cut::rows ? spec.rows / ranks : spec.rows; }
  std::int64_t columns() const { return spec.cut == Cut::columns ? spec.columns / ranks : spec.columns; }
  std::int64_t elements() const { return rows() * columns(); }
  /// Where an element of the shard is in the whole.
  std::int64_t whole_index(std::int64_t element) const;
};

/// What element `index` of the whole is at first: a function of seed, name and index, so the same in every layout.
float first_value(const ParameterSpec& spec, std::uint64_t seed, std::int64_t index);

}  // namespace peal::parallel
