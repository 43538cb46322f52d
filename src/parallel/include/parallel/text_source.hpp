// Text to learn from, made by rule and number: short sentences of a small grammar, the same for the same seed. Nothing is read or fetched.
#pragma once

#include <cstdint>
#include <vector>

namespace peal::parallel {

inline constexpr int kTextSymbols = 40;  ///< letters, digits, blank, full stop, plus, equals

/// Letters as numbers below kTextSymbols. Sample `number` of `length` letters begins where a sentence begins.
std::vector<int> text_sample(std::uint64_t seed, std::int64_t number, std::int64_t length);

}  // namespace peal::parallel
