// What hwloc says about cores, caches and NUMA domains, as plain facts.
#pragma once

#include <discovery/discover.hpp>
#include <string>
#include <vector>

namespace peal::discovery {

struct CoreFact {
  int numa = 0;     ///< index into CoreFacts::domains
  int cache = 0;    ///< index into CoreFacts::caches
  std::string pus;  ///< processors of the core as the system numbers them, "0,64"
};

struct DomainFact {
  int os_index = 0;
  int package = 0;
  unsigned long long memory_bytes = 0;
};

/// What a group of cores shares: the last cache below their domain's memory, or that memory itself.
struct CacheFact {
  int numa = 0;
  bool is_cache = false;
  unsigned long long bytes = 0;
  std::string name;  ///< "L3 35.8 MiB"
};

struct CoreFacts {
  std::vector<CoreFact> cores;
  std::vector<DomainFact> domains;
  std::vector<CacheFact> caches;
  int packages = 0;
  int pus = 0;
  std::string cache_text;  ///< "L1d 32K L2 1M L3 35.8M", of the first core
};

Result<CoreFacts> find_cores(const Roots& roots);

}  // namespace peal::discovery
