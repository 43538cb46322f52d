// Which NIC each rank's device uses for other machines.
#pragma once

#include <span>
#include <string>
#include <topology/resources.hpp>
#include <vector>

namespace peal::tuning {

struct Rail {
  int device = -1;  ///< in the cluster
  int nic = -1;     ///< in its machine
  topology::PathClass path_class = topology::PathClass::none;
  Bandwidth rate;  ///< usable on the way from device to NIC, one direction
};

/// Of the ranks of the first rank's machine; the others' are alike. Empty where no device has a NIC for other machines.
std::vector<Rail> rails_of(const topology::Resources& resources, std::span<const int> device_of_rank);

/// "Rails", a line for each NIC that is used; empty without NICs.
std::string describe_rails(const topology::Resources& resources, std::span<const int> device_of_rank);
/// [{"device","nic","class","GBps"}]
std::string rails_json(const topology::Resources& resources, std::span<const int> device_of_rank);

}  // namespace peal::tuning
