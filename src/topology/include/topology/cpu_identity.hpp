// How a CPU calls itself, looked up by its name in data/cpus.yaml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace peal::topology {

/// Empty strings: nobody knows.
struct CpuIdentity {
  std::string arch;    ///< "x86_64", "arm64", "ppc64"
  std::string vendor;  ///< "GenuineIntel"
  std::string family;  ///< decimal, as NCCL writes it
  std::string model;
};

/// The first of `names` that a word of the table is in. Unknown names, or no table, give an empty identity.
CpuIdentity identify_cpu(const std::vector<std::string_view>& names);

}  // namespace peal::topology
