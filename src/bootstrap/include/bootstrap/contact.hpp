// What every rank tells the others about itself.
#pragma once

#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peal::bootstrap {

inline constexpr std::size_t kMaxContactText = 255;  ///< bytes of each text below

struct Contact {
  int rank = 0;
  std::int32_t pid = 0;
  std::uint64_t pid_start_time = 0;  ///< field 22 of /proc/PID/stat: tells a process from a later one with the same pid
  std::uint32_t uid = 0;
  std::string host_name;
  std::string host_identity;   ///< equal for ranks of the same boot and network namespace (PEAL_HOST_ID overrides)
  std::string machine;         ///< equal for ranks of one kernel, whatever their network namespaces: they share its cores
  std::int32_t cores = 1;      ///< how many of them the rank may run on
  std::uint64_t core_set = 0;  ///< which: equal sets have equal numbers, and different ones are taken to have none in common
  std::string data_address;    ///< "ip:port" of the rank's data listener, or empty
  std::string unix_name;       ///< abstract Unix name where the rank can be reached, or empty
  std::string rack;            ///< the switches above the host, the highest first, "spine.leaf3" (PEAL_RACK, Slurm); empty: unknown
  bool operator==(const Contact&) const = default;
};

/// This process as `rank`; data_address and unix_name are left to the caller.
Contact local_contact(int rank);
std::uint64_t process_start_time(std::int32_t pid);  ///< 0 when there is no such process
std::string local_host_identity();
/// The rack in what Slurm tells a task: SLURM_TOPOLOGY_ADDR "spine.leaf3.node7" of pattern "switch.switch.node" (or "block.node") without
/// the node. Empty where no switch is named.
std::string rack_of_slurm(std::string_view address, std::string_view pattern);

std::string encode(const Contact& contact);
Result<Contact> parse_contact(std::string_view bytes);
/// A table of exactly `size` contacts in rank order.
std::string encode(const std::vector<Contact>& table);
Result<std::vector<Contact>> parse_contacts(std::string_view bytes, int size);

}  // namespace peal::bootstrap
