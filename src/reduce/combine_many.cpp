// k sources in one pass over memory: tiles that stay in the first-level cache, and in each tile the whole fold.
//
//   canonical, k = 7:        +                   The left part of a node is a power of two, so a right part is never larger than it:
//                      +           +             a leaf on the left has a leaf on the right, and a fold of narrow floats needs no
//                   +     +     +     6          other kernels than those of NarrowFold.
//                  0 1   2 3   4 5
#include <algorithm>
#include <base/names.hpp>
#include <reduce/combine.hpp>
#include <reduce/convert.hpp>
#include <reduce/copy.hpp>
#include <reduce/scale.hpp>

#include "kernels.hpp"

namespace peal::reduce {
namespace {

constexpr std::size_t kTileBytes = 4096;
constexpr int kMaxSources = 1 << 16;
constexpr int kLevels = 18;  // of the tree over kMaxSources

/// One partial result per level of the tree: a node and its left child write the buffer of its level, its right child the next one.
struct Workspace {
  alignas(64) std::byte tiles[kLevels][kTileBytes];
};

struct Fold {
  DataType type;
  Order order;
  int k;
  int divisor;
  bool is_widened;  // f16, bf16 or f8, partial results in f32 by the kernels of `narrow`; not min and max, which round nothing
  NarrowFold narrow;
  CombineFn whole;         // the other types, at every node but the root
  CombineFn whole_finish;  // and at the root; every type for k = 2
  const void* const* sources;
  Workspace* workspace;
  std::size_t offset = 0;  // bytes from the start of every source to the tile
  std::size_t count = 0;   // elements of the tile

  const void* source(int i) const { return static_cast<const std::byte*>(sources[i]) + offset; }

  /// Folds sources [first, first + n); answers the source itself for n = 1, else tile `level`.
  const void* canonical(int first, int n, int level) const {
    if (n == 1) return source(first);
    void* out = workspace->tiles[level];
    const int left_n = canonical_left(n);
    const void* left = canonical(first, left_n, level);
    const void* right = canonical(first + left_n, n - left_n, level + 1);
    const CombineFn step = !is_widened ? whole : n == 2 ? narrow.begin : left_n == n - 1 ? narrow.add : narrow.join;
    step(out, left, right, count);
    return out;
  }

  /// Folds sources [0, n) one after the other into tile 0.
  const void* left_to_right(int n) const {
    if (n == 1) return source(0);
    void* out = workspace->tiles[0];
    (is_widened ? narrow.begin : whole)(out, source(0), source(1), count);
    for (int i = 2; i < n; ++i) (is_widened ? narrow.add : whole)(out, out, source(i), count);
    return out;
  }

  const void* first_sources(int n) const { return order == Order::canonical ? canonical(0, n, 0) : left_to_right(n); }

  /// The root writes dst, which may be one of the sources: nothing else does, and it comes last.
  void finish(void* dst) const {
    const int left_n = order == Order::canonical ? canonical_left(k) : k - 1;
    const void* left = first_sources(left_n);
    const void* right = canonical(left_n, k - left_n, 1);
    const CombineFn root = !is_widened || k == 2 ? whole_finish : left_n == k - 1 ? narrow.finish_add : narrow.finish_join;
    root(dst, left, right, count);
  }

  /// For avg: the root stays in the tile, so that narrow floats are divided before their one rounding.
  void finish_divided(void* dst) const {
    const void* sum = first_sources(k);
    if (!is_widened) return divide(type, dst, sum, count, divisor);
    void* quotient = workspace->tiles[0];
    divide(DataType::f32, quotient, sum, count, divisor);
    convert(type, dst, DataType::f32, quotient, count);
  }
};

void copy_one(DataType type, void* dst, const void* src, std::size_t count, Stores stores, int divisor) {
  if (divisor > 1) return divide(type, dst, src, count, divisor);
  if (type == DataType::boolean) return combine_for(type, ReduceOp::band, stores)(dst, src, src, count);
  if (dst != src) copy(dst, src, count * size_of(type), stores);
}

}  // namespace

bool combine_many(DataType type, ReduceOp op, void* dst, const void* const* sources, int k, std::size_t count, Order order, Stores stores,
                  int divisor) noexcept {
  if (k < 1 || k > kMaxSources || divisor < 1 || !is_supported(type, op)) return false;
  if (k == 1) {
    copy_one(type, dst, sources[0], count, stores, divisor);
    return true;
  }
  const CombineFn root = combine_for(type, op, stores);
  if (k == 2 && divisor == 1) {
    root(dst, sources[0], sources[1], count);
    return true;
  }
  const bool is_exact = op == ReduceOp::min || op == ReduceOp::max;
  const bool is_widened = is_narrow(type) && !is_exact;
  Workspace workspace;
  Fold fold{
      type, order,   k,         divisor, is_widened, is_widened ? narrow_fold_for(type, op, stores) : NarrowFold{}, combine_for(type, op),
      root, sources, &workspace};
  const std::size_t element = size_of(type);
  const std::size_t tile = kTileBytes / (is_widened ? sizeof(float) : element);
  for (std::size_t done = 0; done < count; done += tile) {
    fold.offset = done * element;
    fold.count = std::min(tile, count - done);
    void* to = static_cast<std::byte*>(dst) + fold.offset;
    divisor == 1 ? fold.finish(to) : fold.finish_divided(to);
  }
  return true;
}

}  // namespace peal::reduce
