// The one loop behind every kernel. Included once per instruction set.
//
//   dst   |--head--|                                  |--tail--|
//             |====|====|====|====|====|====|====|====|             aligned vectors of dst
//
// No masks and no scalar remainder: the first and the last vector are computed before the loop and stored after it, overlapping
// the loop's range with equal values. Computing them first keeps this right in place (dst equal to a or b).
// Fewer elements than a vector take the same two overlapping vectors of half the width, and so on down to one lane.
#if defined(PEAL_REDUCE_ELEMENTWISE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PEAL_REDUCE_ELEMENTWISE_INL
#undef PEAL_REDUCE_ELEMENTWISE_INL
#else
#define PEAL_REDUCE_ELEMENTWISE_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <reduce/combine.hpp>

#include "formats-inl.hpp"
#include "operators-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Those of a Loop with combine<Stores, Reads> and combine_twice<Reads>.
template <class Loop>
Kernels pick_kernels(Stores stores, Reads reads) {
  constexpr Stores kPast = Stores::streaming, kThrough = Stores::cached;
  if (reads == Reads::in_a_row)
    return {stores == kPast ? &Loop::template combine<kPast, Reads::in_a_row> : &Loop::template combine<kThrough, Reads::in_a_row>,
            &Loop::template combine_twice<Reads::in_a_row>};
  return {stores == kPast ? &Loop::template combine<kPast, Reads::in_lanes> : &Loop::template combine<kThrough, Reads::in_lanes>,
          &Loop::template combine_twice<Reads::in_lanes>};
}

/// Out, A and B are formats with the same Compute type.
template <class Out, class A, class B, class Op>
struct Elementwise {
  static constexpr std::size_t kPrefetchFrom = 512 << 10;  // bytes of a result whose sources no longer fit a second-level cache
  static constexpr std::size_t kPrefetchAhead = 1024;
  static constexpr std::size_t kReadLanes = 4;
  static constexpr std::size_t kLaneBlock = 512;  // bytes of b by turns; with 64 to 1024 the rate is the same
  using C = typename Out::Compute;
  using OutLane = typename Out::Lane;
  using ALane = typename A::Lane;
  using BLane = typename B::Lane;
  using Wide = hn::ScalableTag<C>;
  using WideOut = typename Out::template StoreTag<Wide>;
  static constexpr bool kOneLane = hn::MaxLanes(Wide()) == 1;

  template <class D>
  static HWY_INLINE auto compute(D d, Op op, const ALane* a, const BLane* b) {
    return Out::encode(d, op(d, A::load(d, a), B::load(d, b)));
  }

  /// Where there is no vector unit, one plain loop for any count.
  static HWY_NOINLINE void one_by_one(Op op, OutLane* dst, OutLane* also, const ALane* a, const BLane* b, std::size_t count) {
    const WideOut out;
    for (std::size_t i = 0; i < count; ++i) store(out, compute(Wide(), op, a + i, b + i), dst, also, i);
  }

  static HWY_INLINE bool is_few(std::size_t count) { return count <= 2 * hn::Lanes(Wide()); }

  template <std::size_t kLanes>
  static HWY_INLINE void few(Op op, OutLane* dst, OutLane* also, const ALane* a, const BLane* b, std::size_t count) {
    const hn::CappedTag<C, kLanes> d;
    const typename Out::template StoreTag<decltype(d)> out;
    const std::size_t lanes = hn::Lanes(d);
    if (count >= lanes) {
      const std::size_t last = count - lanes;
      const auto head = compute(d, op, a, b);
      const auto tail = compute(d, op, a + last, b + last);
      store(out, head, dst, also, 0);
      store(out, tail, dst, also, last);
    } else if constexpr (kLanes > 1) {
      few<kLanes / 2>(op, dst, also, a, b, count);
    }
  }

  template <class D>
  static HWY_INLINE void store(D d, hn::VFromD<D> v, OutLane* dst, OutLane* also, std::size_t at) {
    store_lanes(d, v, dst + at);
    if (also != nullptr) store_lanes(d, v, also + at);
  }

  /// `also_bytes`: where the results are stored a second time, or null.
  static HWY_INLINE void run(Op op, void* dst_bytes, void* also_bytes, const void* a_bytes, const void* b_bytes, std::size_t count,
                             Stores stores, Reads reads = Reads::in_a_row) {
    auto* dst = static_cast<OutLane*>(dst_bytes);
    auto* also = static_cast<OutLane*>(also_bytes);
    const auto* a = static_cast<const ALane*>(a_bytes);
    const auto* b = static_cast<const BLane*>(b_bytes);
    if constexpr (kOneLane) {
      one_by_one(op, dst, also, a, b, count);
    } else {
      if (is_few(count)) return few<hn::MaxLanes(Wide())>(op, dst, also, a, b, count);
      if (also != nullptr) return many<true>(op, dst, also, a, b, count, stores, reads);
      many<false>(op, dst, nullptr, a, b, count, stores, reads);
    }
  }

  /// Its own function, so that a call with few elements pays for no stack frame. One loop for both kinds of stores: a branch that
  /// always goes the same way is cheaper than compiling every loop twice. kTwice, a loop of its own: into `also` too, in the caches.
  template <bool kTwice>
  static HWY_NOINLINE void many(Op op, OutLane* dst, OutLane* also, const ALane* a, const BLane* b, std::size_t count, Stores stores,
                                Reads reads) {
    if constexpr (!kTwice) also = nullptr;
    const Wide d;
    const WideOut out;
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t last = count - lanes;
    const auto head = compute(d, op, a, b);
    const auto tail = compute(d, op, a + last, b + last);
    const std::size_t bytes = lanes * sizeof(OutLane);
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(dst) % bytes;
    // Aligning pays from a few cache lines on; it cannot be done where dst is not aligned even for its element.
    const bool align = count >= 16 * lanes && misaligned % sizeof(OutLane) == 0;
    const bool stream = (!kTwice || Op::kUnary) && stores == Stores::streaming && align;  // of sums nobody asks for both
    const bool ahead = stream || count * sizeof(OutLane) > kPrefetchFrom;
    std::size_t i = align && misaligned ? (bytes - misaligned) / sizeof(OutLane) : 0;
    // Turns: blocks of the lanes one after the other, then all that is left.
    const bool in_lanes = reads == Reads::in_lanes && count * sizeof(BLane) >= kLeastInLanes;
    const std::size_t block = std::max(2 * lanes, kLaneBlock / sizeof(BLane));  // both are powers of two
    std::size_t blocks = in_lanes ? (count - i) / kReadLanes / block : 0;
    if (blocks > 0 && blocks % 2 == 0) --blocks;  // an odd number, so that lanes meet in no set of the first-level cache
    const std::size_t first = i;
    for (std::size_t turn = 0; turn <= blocks * kReadLanes; ++turn) {
      const bool is_last = turn == blocks * kReadLanes;
      i = first + (is_last ? turn : turn % kReadLanes * blocks + turn / kReadLanes) * block;
      const std::size_t end = is_last ? count : i + block;
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        if (ahead) {
          prefetch(a + i, 2 * lanes * sizeof(ALane));
          if (!Op::kUnary) prefetch(b + i, 2 * lanes * sizeof(BLane));
        }
        const auto v0 = compute(d, op, a + i, b + i);
        const auto v1 = compute(d, op, a + i + lanes, b + i + lanes);
        if (stream) {
          stream_lanes(out, v0, dst + i);
          stream_lanes(out, v1, dst + i + lanes);
          if (also != nullptr) {
            store_lanes(out, v0, also + i);
            store_lanes(out, v1, also + i + lanes);
          }
        } else {
          store(out, v0, dst, also, i);
          store(out, v1, dst, also, i + lanes);
        }
      }
    }
    if (stream) hwy::FlushStream();
    if (i < last) store(out, compute(d, op, a + i, b + i), dst, also, i);
    store(out, head, dst, also, 0);
    store(out, tail, dst, also, last);
  }

  /// It may ask for lines past the end, which no CPU faults on.
  static HWY_INLINE void prefetch(const void* from, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(from) + kPrefetchAhead;
    for (std::size_t o = 0; o < bytes; o += 64) hwy::Prefetch(reinterpret_cast<const char*>(at + o));
  }

  /// As CombineFns, for an operator without state. For few elements there is one way, whatever the stores and reads,
  /// which is compiled once.
  template <Stores kStores, Reads kReads>
  static void combine(void* dst, const void* a, const void* b, std::size_t count) {
    if constexpr (kStores != Stores::cached || kReads != Reads::in_a_row)
      if (is_few(count)) return combine<Stores::cached, Reads::in_a_row>(dst, a, b, count);
    run(Op(), dst, nullptr, a, b, count, kStores, kReads);
  }
  template <Reads kReads>
  static void combine_twice(void* dst, void* also, const void* a, const void* b, std::size_t count) {
    if constexpr (kReads != Reads::in_a_row)
      if (is_few(count)) return combine_twice<Reads::in_a_row>(dst, also, a, b, count);
    run(Op(), dst, also, a, b, count, Stores::cached, kReads);
  }
  static Kernels kernels(Stores stores, Reads reads) { return pick_kernels<Elementwise>(stores, reads); }
  /// Into one place, read in a row: nothing else is compiled for it.
  static CombineFn pick(Stores stores) {
    return stores == Stores::streaming ? &combine<Stores::streaming, Reads::in_a_row> : &combine<Stores::cached, Reads::in_a_row>;
  }
};

/// dst = op(src), for the operators of one operand.
template <class Out, class In, class Op>
HWY_INLINE void map(Op op, void* dst, const void* src, std::size_t count) {
  Elementwise<Out, In, In, Op>::run(op, dst, nullptr, src, src, count, Stores::cached);
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#endif
