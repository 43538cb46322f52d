// Sizes of memory's pages as Linux has them on x86-64 and mostly on 64-bit Arm. A system with others loses speed by what goes by these,
// never a result: huge pages are asked for only where the kernel names this size (comm/huge_pages.hpp).
#pragma once

#include <cstdint>

namespace peal {

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;  ///< as many as one page of a page table maps in small ones

}  // namespace peal
