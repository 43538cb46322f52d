#include <algorithm>
#include <array>
#include <base/names.hpp>
#include <span>
#include <vector>

namespace peal {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, kDataTypeCount> kDataTypes = {"f64", "f32", "f16", "bf16", "i8",   "u8",        "i16",    "u16",
                                                                     "i32", "u32", "i64", "u64",  "bool", "f8_e4m3fn", "f8_e5m2"};
constexpr std::array<std::string_view, kReduceOpCount> kReduceOps = {"sum",        "prod", "min", "max", "avg",
                                                                     "premul_sum", "band", "bor", "bxor"};
constexpr std::array<std::string_view, kCollectiveCount> kCollectives = {
    "all_reduce", "reduce_scatter", "all_gather",   "broadcast",        "reduce",       "gather",   "scatter",  "all_to_all",
    "barrier",    "send_recv",      "all_gather_v", "reduce_scatter_v", "all_to_all_v", "gather_v", "scatter_v"};

struct Spelling {
  std::string_view text;
  int index;
};

constexpr int index_of(DataType type) { return static_cast<int>(type); }
constexpr int index_of(ReduceOp op) { return static_cast<int>(op); }
constexpr int index_of(Collective kind) { return static_cast<int>(kind); }

// Other people's spellings: nccl-tests, NCCL, PyTorch, numpy and C.
constexpr Spelling kDataTypeSpellings[] = {
    {"double", index_of(DataType::f64)},
    {"float64", index_of(DataType::f64)},
    {"fp64", index_of(DataType::f64)},
    {"float", index_of(DataType::f32)},
    {"float32", index_of(DataType::f32)},
    {"fp32", index_of(DataType::f32)},
    {"half", index_of(DataType::f16)},
    {"float16", index_of(DataType::f16)},
    {"fp16", index_of(DataType::f16)},
    {"bfloat16", index_of(DataType::bf16)},
    {"int8", index_of(DataType::i8)},
    {"char", index_of(DataType::i8)},
    {"uint8", index_of(DataType::u8)},
    {"byte", index_of(DataType::u8)},
    {"int16", index_of(DataType::i16)},
    {"uint16", index_of(DataType::u16)},
    {"int32", index_of(DataType::i32)},
    {"int", index_of(DataType::i32)},
    {"uint32", index_of(DataType::u32)},
    {"int64", index_of(DataType::i64)},
    {"uint64", index_of(DataType::u64)},
    {"boolean", index_of(DataType::boolean)},
    {"float8_e4m3fn", index_of(DataType::f8_e4m3fn)},
    {"float8_e4m3", index_of(DataType::f8_e4m3fn)},
    {"f8_e4m3", index_of(DataType::f8_e4m3fn)},
    {"fp8_e4m3", index_of(DataType::f8_e4m3fn)},
    {"float8_e5m2", index_of(DataType::f8_e5m2)},
    {"fp8_e5m2", index_of(DataType::f8_e5m2)},
};
constexpr Spelling kReduceOpSpellings[] = {
    {"add", index_of(ReduceOp::sum)},           {"product", index_of(ReduceOp::prod)}, {"minimum", index_of(ReduceOp::min)},
    {"maximum", index_of(ReduceOp::max)},       {"average", index_of(ReduceOp::avg)},  {"mean", index_of(ReduceOp::avg)},
    {"mulsum", index_of(ReduceOp::premul_sum)},
};
constexpr Spelling kCollectiveSpellings[] = {
    {"bcast", index_of(Collective::broadcast)},
    {"sendrecv", index_of(Collective::send_recv)},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// "AllReduce", "all-reduce" and "all_reduce" are one word: lower case without separators.
std::string folded(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c != '_' && c != '-' && c != ' ') out += lower(c);
  }
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above + 1, row[j - 1] + 1, replaced});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// Index of `text` among `names` and `spellings`, or a failure that lists the names.
Result<int> parse_word(std::string_view text, std::string_view what, std::span<const std::string_view> names,
                       std::span<const Spelling> spellings) {
  const std::string word = folded(text.substr(0, 64));
  if (text.size() <= 64) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (folded(names[i]) == word) return static_cast<int>(i);
    }
    for (const Spelling& s : spellings) {
      if (folded(s.text) == word) return s.index;
    }
  }
  const std::string_view close = nearest(text, names.data(), names.size());
  const std::string hint = close.empty() ? std::string() : fmt::format(" Did you mean '{}'?", close);
  return fail(ErrorCode::invalid_argument, "'{}' is not a {}.{} It is one of: {}.", text.substr(0, 64), what, hint, fmt::join(names, ", "));
}

}  // namespace

std::string_view name_of(DataType type) noexcept {
  const auto i = static_cast<std::size_t>(type);
  return i < kDataTypes.size() ? kDataTypes[i] : "unknown";
}
std::string_view name_of(ReduceOp op) noexcept {
  const auto i = static_cast<std::size_t>(op);
  return i < kReduceOps.size() ? kReduceOps[i] : "unknown";
}
std::string_view name_of(Collective kind) noexcept {
  const auto i = static_cast<std::size_t>(kind);
  return i < kCollectives.size() ? kCollectives[i] : "unknown";
}

Result<DataType> parse_data_type(std::string_view text) {
  PEAL_ASSIGN(const int index, parse_word(text, "data type", kDataTypes, kDataTypeSpellings));
  return static_cast<DataType>(index);
}
Result<ReduceOp> parse_reduce_op(std::string_view text) {
  PEAL_ASSIGN(const int index, parse_word(text, "reduction operator", kReduceOps, kReduceOpSpellings));
  return static_cast<ReduceOp>(index);
}
Result<Collective> parse_collective(std::string_view text) {
  PEAL_ASSIGN(const int index, parse_word(text, "collective", kCollectives, kCollectiveSpellings));
  return static_cast<Collective>(index);
}

std::string_view nearest(std::string_view text, const std::string_view* choices, std::size_t count) {
  const std::string word = folded(text.substr(0, 64));
  std::string_view best;
  // Close means that at most a third of the letters are wrong, and always at least one may be.
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t distance = edit_distance(word, folded(choices[i]));
    // A word of which everything would have to change is no neighbour.
    if (distance < best_distance && distance < word.size()) {
      best_distance = distance;
      best = choices[i];
    }
  }
  return best;
}

}  // namespace peal
