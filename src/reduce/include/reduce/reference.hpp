// The rules of combine.hpp and scale.hpp written plainly, one element at a time: slow, and what the kernels are tested against.
#pragma once

#include <cstddef>
#include <peal/types.hpp>
#include <reduce/combine.hpp>

namespace peal::reduce {

/// As combine_for(type, op)(dst, a, b, count). False, and nothing done, where the pair is refused.
bool combine_reference(DataType type, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count);

/// As combine_many.
bool combine_many_reference(DataType type, ReduceOp op, void* dst, const void* const* sources, int k, std::size_t count, Order order,
                            int divisor = 1);

/// As scale and divide.
void scale_reference(DataType type, void* dst, const void* src, std::size_t count, double factor);
void divide_reference(DataType type, void* dst, const void* src, std::size_t count, int n);

}  // namespace peal::reduce
