// How much memory this host has.
#pragma once

#include <unistd.h>

namespace peal::cli {

/// Bytes of physical memory, whoever uses them. Thread-safe.
inline double host_memory_bytes() { return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)); }

}  // namespace peal::cli
