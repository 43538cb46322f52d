// What the kernel grants this process and how it is set up: processors, control group, limits, clock, huge pages, NUMA domains.
#pragma once

#include <discovery/discover.hpp>
#include <optional>
#include <string>
#include <vector>

#include "system_files.hpp"

namespace peal::discovery {

/// Value of a key of /proc/cpuinfo ("model name"), first processor.
std::string cpuinfo_value(const Roots& roots, const std::string& key);
/// Maker, family and model of the processor ("GenuineIntel 6 207"); empty where the kernel does not say them.
std::string processor_of(const Roots& roots);
bool is_virtual_machine(const Roots& roots);
/// What shows that this is a container ("the control group /docker/4711 of /proc/self/cgroup"), or empty: nothing shows it.
std::string container_sign(const Roots& roots);

/// CPUs' worth of time that the control groups grant: the least of all levels, version 1 or 2.
struct CpuQuota {
  double cpus = 0;  ///< 0: no limit
  std::string file;
  unsigned long long throttled = 0;  ///< periods in which the group was stopped because its time was used up
};
CpuQuota cpu_quota(const Roots& roots);

/// Processors, as the system numbers them.
struct CpuFacts {
  std::vector<int> online;   ///< /sys/devices/system/cpu/online
  std::vector<int> allowed;  ///< those that this process may use (/proc/self/status); all where that is not said
  int cores = 0;             ///< cores among `allowed`: hardware threads of one core count once
  int packages = 0;          ///< sockets that are shown; 0 unknown
};
CpuFacts find_cpus(const Roots& roots);

struct NumaFact {
  int index = 0;
  std::vector<int> cpus;
  std::optional<unsigned long long> memory_bytes;
  std::string folder;
};
std::vector<NumaFact> find_domains(const Roots& roots);

/// Soft limit of a line of /proc/self/limits ("Max open files"); infinity for "unlimited".
std::optional<double> soft_limit(const Roots& roots, const std::string& name);
/// A field of /proc/self/status ("Seccomp", "CapEff"), empty where it is not there.
std::string status_field(const Roots& roots, const std::string& name);
/// The word in brackets of a file of choices: "always [madvise] never" -> "madvise".
std::string chosen_word(const std::string& path);

}  // namespace peal::discovery
