// Tiles that stay in the first-level cache: widened, added, divided and rounded there by the kernels for whole buffers.
#include <reduce/partial_sum.hpp>

#include <algorithm>
#include <cstdint>
#include <reduce/combine.hpp>
#include <reduce/convert.hpp>
#include <reduce/scale.hpp>

namespace peal::reduce {

namespace {

constexpr std::size_t kTile = 1024;  // elements

template <class Byte>
Byte* at(Byte* base, std::size_t elements, std::size_t size) {
  return base + elements * size;
}

/// The addend's elements from `begin` on as f32: where they lie, or in `tile`.
const void* wide_part(DataType type, const Addend& own, std::size_t begin, std::size_t count, std::byte* tile) {
  const auto* data = static_cast<const std::byte*>(own.data);
  if (own.is_wide) return at(data, begin, sizeof(float));
  const std::byte* narrow = at(data, begin, size_of(type));
  alignas(64) std::byte scaled[kTile * 2];
  if (own.factor != nullptr) {
    scale(type, scaled, narrow, count, *own.factor);
    narrow = scaled;
  }
  convert(DataType::f32, tile, type, narrow, count);
  return tile;
}

}  // namespace

void widen(DataType type, void* dst, Addend own, std::size_t count) noexcept {
  if (own.factor == nullptr) {
    convert(DataType::f32, dst, type, own.data, count);
    return;
  }
  for (std::size_t done = 0; done < count; done += kTile)
    wide_part(type, own, done, std::min(kTile, count - done), at(static_cast<std::byte*>(dst), done, sizeof(float)));
}

void add_partial(DataType type, ReduceOp op, void* dst, bool is_finished, Addend own, const void* partial, std::size_t count,
                 int divisor) noexcept {
  alignas(64) std::byte tile[kTile * sizeof(float)];
  const CombineFn add = combine_for(DataType::f32, op);
  const std::size_t element = is_finished ? size_of(type) : sizeof(float);
  for (std::size_t done = 0; done < count; done += kTile) {
    const std::size_t n = std::min(kTile, count - done);
    const void* mine = wide_part(type, own, done, n, tile);
    std::byte* out = at(static_cast<std::byte*>(dst), done, element);
    void* sum = is_finished ? tile : out;
    add(sum, mine, at(static_cast<const std::byte*>(partial), done, sizeof(float)), n);
    if (!is_finished) continue;
    if (divisor > 1) divide(DataType::f32, sum, sum, n, divisor);
    convert(type, out, DataType::f32, sum, n);
  }
}

}  // namespace peal::reduce
