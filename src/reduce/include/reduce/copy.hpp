// Copying bytes, through the caches or past them.
#pragma once

#include <cstddef>
#include <reduce/combine.hpp>

namespace peal::reduce {

/// memcpy, or a copy whose stores bypass the caches and end with a store fence. The ranges must not overlap. Any alignment.
void copy(void* dst, const void* src, std::size_t bytes, Stores stores) noexcept;

}  // namespace peal::reduce
