// How elements become vectors to compute with, and back. Included once per instruction set (Highway's toggled guard).
// A format has: Lane (what memory holds), Compute (what arithmetic sees), load(d, from) and store(d, v, to) with d a tag of Compute.
#if defined(PEAL_REDUCE_FORMATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PEAL_REDUCE_FORMATS_INL
#undef PEAL_REDUCE_FORMATS_INL
#else
#define PEAL_REDUCE_FORMATS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// True where Highway's LoadU and StoreU take any address: those of less than 16 bytes, and HWY_SCALAR's, dereference an element.
template <class D>
constexpr bool takes_any_address() {
  return hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= 16;
}

template <class D>
HWY_INLINE hn::VFromD<D> load_lanes(D d, const hn::TFromD<D>* from) {
  using T = hn::TFromD<D>;
  if constexpr (takes_any_address<D>()) {
    return hn::LoadU(d, from);
  } else {
    alignas(16) T lanes[hn::MaxLanes(D())];
    std::memcpy(lanes, from, sizeof(lanes));
    return hn::Load(d, lanes);
  }
}

template <class D>
HWY_INLINE void store_lanes(D d, hn::VFromD<D> v, hn::TFromD<D>* to) {
  using T = hn::TFromD<D>;
  if constexpr (takes_any_address<D>()) {
    hn::StoreU(v, d, to);
  } else {
    alignas(16) T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    std::memcpy(to, lanes, sizeof(lanes));
  }
}

/// Stores past the caches where the vector fills whole 16-byte units (Highway's Stream writes multiples of them); `to` is vector aligned.
template <class D>
HWY_INLINE void stream_lanes(D d, hn::VFromD<D> v, hn::TFromD<D>* to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= HWY_STREAM_MULTIPLE) {
    hn::Stream(v, d, to);
    return;
  }
#endif
  store_lanes(d, v, to);
}

/// Elements computed as they are.
template <class T>
struct Plain {
  using Lane = T;
  using Compute = T;
  template <class D>
  using StoreTag = D;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const T* from) {
    return load_lanes(d, from);
  }
  template <class D>
  static HWY_INLINE hn::VFromD<D> encode(D, hn::VFromD<D> v) {
    return v;
  }
};

/// One byte, where any non-zero value counts as 1.
struct Boolean {
  using Lane = std::uint8_t;
  using Compute = std::uint8_t;
  template <class D>
  using StoreTag = D;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Lane* from) {
    return hn::Min(load_lanes(d, from), hn::Set(d, Lane{1}));
  }
  template <class D>
  static HWY_INLINE hn::VFromD<D> encode(D, hn::VFromD<D> v) {
    return v;
  }
};

struct Bfloat16 {
  using Lane = std::uint16_t;
  using Compute = float;
  template <class D>
  using StoreTag = hn::Rebind<Lane, D>;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Lane* from) {
    const hn::Rebind<std::uint32_t, D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, load_lanes(StoreTag<D>(), from))));
  }
  /// To nearest even by adding half a unit (and the lowest kept bit); a NaN must not be carried into infinity, so it takes another way.
  template <class D>
  static HWY_INLINE hn::VFromD<StoreTag<D>> encode(D d, hn::VFromD<D> v) {
    const hn::Rebind<std::uint32_t, D> u32;
    const hn::Rebind<std::int32_t, D> i32;
    const auto bits = hn::BitCast(u32, v);
    const auto lowest_kept = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1u));
    const auto rounded = hn::Add(bits, hn::Add(lowest_kept, hn::Set(u32, 0x7fffu)));
    const auto quiet = hn::Or(bits, hn::Set(u32, 0x400000u));
    const auto chosen = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), quiet, rounded);
    (void)d;
    return hn::DemoteTo(StoreTag<D>(), hn::BitCast(i32, hn::ShiftRight<16>(chosen)));
  }
};

struct Float16 {
  using Lane = std::uint16_t;
  using Compute = float;
  template <class D>
  using StoreTag = hn::Rebind<Lane, D>;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Lane* from) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), load_lanes(StoreTag<D>(), from)));
  }
  template <class D>
  static HWY_INLINE hn::VFromD<StoreTag<D>> encode(D, hn::VFromD<D> v) {
    return hn::BitCast(StoreTag<D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
#else
  // Highway's own substitutes for missing instructions do not round to nearest even everywhere; these do (half_float.hpp, in lanes).
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Lane* from) {
    const hn::Rebind<std::int32_t, D> i32;
    const auto bits = hn::PromoteTo(i32, load_lanes(StoreTag<D>(), from));
    const auto magnitude = hn::And(bits, hn::Set(i32, 0x7fff));
    const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(i32, 112 << 23));
    const auto tiny = hn::BitCast(i32, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f)));
    const auto special = hn::Add(normal, hn::Set(i32, 112 << 23));
    auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(i32, 0x400)), tiny, normal);
    out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(i32, 0x7bff)), special, out);
    out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(i32, 0x7c00)), hn::Or(special, hn::Set(i32, 0x400000)), out);
    return hn::BitCast(d, hn::Or(out, hn::ShiftLeft<16>(hn::Xor(bits, magnitude))));
  }
  template <class D>
  static HWY_INLINE hn::VFromD<StoreTag<D>> encode(D d, hn::VFromD<D> v) {
    const hn::Rebind<std::int32_t, D> i32;
    const auto bits = hn::BitCast(i32, v);
    const auto magnitude = hn::And(bits, hn::Set(i32, 0x7fffffff));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(i32, 0x8000));
    const auto kept = hn::ShiftRight<13>(magnitude);
    const auto half = hn::Add(hn::And(kept, hn::Set(i32, 1)), hn::Set(i32, 0xfff));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(i32, 0x38000000)), half));
    const auto adder = hn::BitCast(i32, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f)));
    const auto tiny = hn::Sub(adder, hn::Set(i32, 0x3f000000));
    const auto nan = hn::Or(hn::And(kept, hn::Set(i32, 0x3ff)), hn::Set(i32, 0x7e00));
    auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(i32, 0x38800000)), tiny, normal);
    out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(i32, 0x477fffff)), hn::Set(i32, 0x7c00), out);
    out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(i32, 0x7f800000)), nan, out);
    return hn::DemoteTo(StoreTag<D>(), hn::Or(out, sign));
  }
#endif
};

/// f32 in memory, f64 in arithmetic.
struct Float32AsFloat64 {
  using Lane = float;
  using Compute = double;
  template <class D>
  using StoreTag = hn::Rebind<float, D>;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const float* from) {
    return hn::PromoteTo(d, load_lanes(StoreTag<D>(), from));
  }
  template <class D>
  static HWY_INLINE hn::VFromD<StoreTag<D>> encode(D d, hn::VFromD<D> v) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    // These two clamp to the largest finite value where the others overflow to infinity.
    double wide[2];
    float narrow[2] = {};
    hn::StoreU(v, d, wide);
    for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) narrow[i] = static_cast<float>(wide[i]);
    return hn::LoadU(StoreTag<D>(), narrow);
#else
    (void)d;
    return hn::DemoteTo(StoreTag<D>(), v);
#endif
  }
};

/// Integers of 8 or 16 bits, exact in f32; leaving truncates toward zero.
template <class T>
struct IntegerAsFloat32 {
  using Lane = T;
  using Compute = float;
  template <class D>
  using StoreTag = hn::Rebind<T, D>;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const T* from) {
    return hn::ConvertTo(d, hn::PromoteTo(hn::Rebind<std::int32_t, D>(), load_lanes(StoreTag<D>(), from)));
  }
  template <class D>
  static HWY_INLINE hn::VFromD<StoreTag<D>> encode(D, hn::VFromD<D> v) {
    return hn::DemoteTo(StoreTag<D>(), hn::ConvertTo(hn::Rebind<std::int32_t, D>(), v));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#endif
