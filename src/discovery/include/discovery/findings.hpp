// What is wrong with this host, or with a recorded one: each finding in one sentence with its consequence and the mend. Only what follows
// from what was read; what the system does not say is listed as unknown instead.
#pragma once

#include <base/result.hpp>
#include <discovery/discover.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peal::discovery {

enum class Weight : std::uint8_t {
  wrong,  ///< something does not work as it could: `peal doctor` ends with 1
  note,   ///< worth knowing, and perhaps meant so
};
std::string_view name_of(Weight weight) noexcept;

/// One row of the list of findings (docs/guide/doctor.md holds the same rows; a test compares them).
struct FindingKind {
  std::string_view id;  ///< "pcie-narrow"
  Weight weight = Weight::wrong;
  std::string_view what;         ///< what is looked for
  std::string_view consequence;  ///< what it costs
  std::string_view mend;         ///< what to do
  std::string_view read_from;    ///< where it is seen
};
std::span<const FindingKind> finding_kinds();
/// Null for an unknown id.
const FindingKind* find_kind(std::string_view id);
/// The row of docs/guide/doctor.md.
std::string row_of(const FindingKind& kind);

struct Finding {
  const FindingKind* kind = nullptr;
  Weight weight = Weight::wrong;
  std::string subject;      ///< "gpu3 (0000:17:00.0)"
  std::string what;         ///< "PCIe x8 instead of x16"
  std::string consequence;  ///< "half the host bandwidth"
  std::string mend;
  std::string source;  ///< "read from FILE", "measured: ...", "declared: ..."

  /// "gpu3 (0000:17:00.0): PCIe x8 instead of x16, half the host bandwidth: reseat the card ..."
  std::string sentence() const;
};

/// What only trying can tell; errno, 0 where it worked.
struct Probes {
  std::optional<int> shared_memory;  ///< making a sealed memfd, giving it memory and mapping it
  std::optional<int> cross_memory;   ///< reading the memory of another process of this user with process_vm_readv
  std::optional<int> memory_policy;  ///< preferring a NUMA domain for memory (binding.hpp)
};
/// Tries it on this host. Forks once; at most a second.
Probes probe_host();

struct ExamineOptions {
  int ranks = 0;  ///< that are to run here; 0: nobody asked
  Probes probes;  ///< of the host that is examined; empty for a recorded one
};

struct Examination {
  std::vector<Finding> findings;     ///< wrong ones first
  std::vector<std::string> seen;     ///< what was looked at, one sentence each, with sources
  std::vector<std::string> unknown;  ///< what could not be known, and why
  bool is_well() const;              ///< nothing is wrong; notes do not count
};

/// Reads /sys and /proc below `roots` (NVML for this host alone). Never fails: what is not there is not known. Complexity: linear in the
/// devices; milliseconds.
Examination examine(const Roots& roots, const ExamineOptions& options = {});

/// Copies what examine() reads below `roots` to `folder`/sys and `folder`/proc, links as relative links, so that it can be examined
/// elsewhere. Fails where either is there already or cannot be written.
Status record_host(const Roots& roots, const std::string& folder);

}  // namespace peal::discovery
