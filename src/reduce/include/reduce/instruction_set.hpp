// Which instruction set the kernels use, for diagnostics and for tests.
#pragma once

#include <string_view>
#include <vector>

namespace peal::reduce {

/// The set in use: "AVX3" (Highway's word for AVX-512), "AVX2", "SSE2", "NEON", "SCALAR", ...
std::string_view instruction_set();

/// Every set that was compiled and that this CPU can run.
std::vector<std::string_view> instruction_sets();

/// Tests only: later combine_for, combine_many, convert, scale, divide and copy use this set; "" is the best again.
/// False if there is no such set. Not while other threads resolve kernels.
bool use_instruction_set(std::string_view name);

}  // namespace peal::reduce
