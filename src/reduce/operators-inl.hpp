// The operators, on vectors of what a format computes with. Included once per instruction set.
#if defined(PEAL_REDUCE_OPERATORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PEAL_REDUCE_OPERATORS_INL
#undef PEAL_REDUCE_OPERATORS_INL
#else
#define PEAL_REDUCE_OPERATORS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  static constexpr bool kUnary = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};

/// Bytes have no multiplication: even and odd bytes are multiplied in lanes of 16 bits, where the low half of a product needs only low
/// halves.
template <class D, class V>
HWY_INLINE V multiply(D d, V a, V b) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) > 1) {
    (void)d;
    return hn::Mul(a, b);
  } else if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::Set(d, static_cast<T>(unsigned{hn::GetLane(a)} * unsigned{hn::GetLane(b)}));
  } else {
    const hn::Repartition<std::uint16_t, D> pairs;
    const auto a2 = hn::BitCast(pairs, a);
    const auto b2 = hn::BitCast(pairs, b);
    const auto even = hn::And(hn::Mul(a2, b2), hn::Set(pairs, std::uint16_t{0x00ff}));
    const auto odd = hn::Mul(hn::ShiftRight<8>(a2), hn::And(b2, hn::Set(pairs, std::uint16_t{0xff00})));
    return hn::BitCast(d, hn::Or(even, odd));
  }
}

struct Prod {
  static constexpr bool kUnary = false;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return multiply(d, a, b);
  }
};

/// For floats: equal operands differ at most in the sign of zero, where the bits decide; a sum carries a NaN of either side on.
struct Min {
  static constexpr bool kUnary = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), hn::Min(a, b));
      return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), ordered);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Max {
  static constexpr bool kUnary = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::Max(a, b));
      return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), ordered);
    } else {
      return hn::Max(a, b);
    }
  }
};

struct And {
  static constexpr bool kUnary = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::And(a, b);
  }
};

struct Or {
  static constexpr bool kUnary = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Or(a, b);
  }
};

struct Xor {
  static constexpr bool kUnary = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Xor(a, b);
  }
};

/// Of one operand: the second is ignored, and its load falls away.
struct Same {
  static constexpr bool kUnary = true;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V) const {
    return a;
  }
};

template <class T>
struct MultiplyBy {
  static constexpr bool kUnary = true;
  T factor;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V) const {
    return multiply(d, a, hn::Set(d, factor));
  }
};

template <class T>
struct DivideBy {
  static constexpr bool kUnary = true;
  T divisor;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V) const {
    return hn::Div(a, hn::Set(d, divisor));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#endif
