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
#include <reduce/f8_float.hpp>

// Whether this instruction set converts f16 itself.
#undef PEAL_REDUCE_HAS_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define PEAL_REDUCE_HAS_F16C 1
#else
#define PEAL_REDUCE_HAS_F16C 0
#endif

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
#if PEAL_REDUCE_HAS_F16C
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

/// One of the formats of f8_float.hpp, whose conversions these are, in lanes and without branches.
template <class Format>
struct Float8 {
  using Lane = std::uint8_t;
  using Compute = float;
  template <class D>
  using StoreTag = hn::Rebind<Lane, D>;
  static constexpr int kDropped = 23 - Format::kFraction;
  static constexpr std::int32_t kRebias = (127 - Format::kBias) << 23;
  static constexpr float kSmallestNormal = Format::kSmallest * (1 << Format::kFraction);

  /// With exponent 0 the normal form is (1 + fraction) * kSmallestNormal / 2, where fraction * kSmallestNormal is meant: twice of it
  /// less kSmallestNormal, which is the smaller of the two there and nowhere else.
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Lane* from) {
    const hn::Rebind<std::int32_t, D> i32;
    const hn::Rebind<std::int8_t, D> i8;
    const auto bits = hn::PromoteTo(i32, hn::BitCast(i8, load_lanes(StoreTag<D>(), from)));  // the sign is the highest bit
    const auto magnitude = hn::And(bits, hn::Set(i32, 0x7f));
    const auto normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<kDropped>(magnitude), hn::Set(i32, kRebias)));
    const auto finite = hn::Min(normal, hn::Add(normal, hn::Sub(normal, hn::Set(d, kSmallestNormal))));
    const auto is_special = hn::VecFromMask(i32, hn::Gt(magnitude, hn::Set(i32, Format::kOverflow - 1)));
    const auto special = hn::And(is_special, hn::Set(i32, 0x7f800000));
    const auto sign = hn::And(bits, hn::Set(i32, INT32_MIN));
    return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(i32, finite), special), sign));
  }

  template <class D>
  static HWY_INLINE hn::VFromD<StoreTag<D>> encode(D d, hn::VFromD<D> v) {
    constexpr float kAdder = Format::kSmallest * 0x1p23f;
    const hn::Rebind<std::int32_t, D> i32;
    const auto bits = hn::BitCast(i32, v);
    const auto magnitude = hn::And(bits, hn::Set(i32, 0x7fffffff));
    const auto lowest_kept = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(i32, 1));
    const auto half = hn::Add(lowest_kept, hn::Set(i32, (1 << (kDropped - 1)) - 1 - kRebias));
    const auto normal = hn::Min(hn::ShiftRight<kDropped>(hn::Add(magnitude, half)), hn::Set(i32, Format::kOverflow));
    const auto adder = hn::Set(d, kAdder);
    const auto tiny = hn::Sub(hn::BitCast(i32, hn::Add(hn::BitCast(d, magnitude), adder)), hn::BitCast(i32, adder));
    auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(i32, kRebias + (1 << 23))), tiny, normal);
    if constexpr (Format::kOverflow != 0x7f) {
      const auto is_nan = hn::VecFromMask(i32, hn::Gt(magnitude, hn::Set(i32, 0x7f800000)));
      out = hn::Or(out, hn::And(is_nan, hn::Set(i32, 0x7f)));
    }
    return hn::DemoteTo(StoreTag<D>(), hn::Or(out, hn::And(hn::ShiftRight<24>(bits), hn::Set(i32, 0x80))));
  }
};

#if PEAL_REDUCE_HAS_F16C
/// The upper byte of an f16, so that the instructions for f16 do most of the work.
template <>
struct Float8<E5m2> {
  using Lane = std::uint8_t;
  using Compute = float;
  template <class D>
  using StoreTag = hn::Rebind<Lane, D>;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Lane* from) {
    const auto upper = hn::ShiftLeft<8>(hn::PromoteTo(hn::Rebind<std::uint16_t, D>(), load_lanes(StoreTag<D>(), from)));
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), upper));
  }
  /// Rounded before it becomes an f16, by a sum whose last place is that of the f8: rounding twice would be wrong.
  template <class D>
  static HWY_INLINE hn::VFromD<StoreTag<D>> encode(D d, hn::VFromD<D> v) {
    constexpr std::int32_t kSmallestExponent = (128 - E5m2::kBias) << 23;
    constexpr std::int32_t kLargeExponent = 200 << 23;  // beyond every number, and the sum stays finite
    constexpr std::int32_t kRaise = ((23 - E5m2::kFraction) << 23) + 0x400000;
    const hn::Rebind<std::int32_t, D> i32;
    const hn::Rebind<std::uint16_t, D> u16;
    const auto exponent = hn::And(hn::BitCast(i32, v), hn::Set(i32, 0x7f800000));
    const auto inside = hn::Min(hn::Max(exponent, hn::Set(i32, kSmallestExponent)), hn::Set(i32, kLargeExponent));
    const auto adder = hn::BitCast(d, hn::Add(inside, hn::Set(i32, kRaise)));
    const auto rounded = hn::Or(hn::Sub(hn::Add(v, adder), adder), hn::And(v, hn::SignBit(d)));  // the sum makes +0 of -0
    const auto half = hn::BitCast(u16, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), rounded));
    return hn::DemoteTo(StoreTag<D>(), hn::BitCast(hn::Rebind<std::int16_t, D>(), hn::ShiftRight<8>(half)));
  }
};
#endif

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
