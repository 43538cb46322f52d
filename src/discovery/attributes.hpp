// Attributes of a device in the graph, as discover.hpp lists them.
#pragma once

#include <vector>
#include <vendor/nvml.hpp>

#include "nics.hpp"
#include "pci.hpp"

namespace peal::discovery {

/// The PCI address, the link as negotiated and as capable, the errors that it counts.
void add_pci_attributes(const PciPlace& place, Detail detail, std::vector<topology::Attribute>& attributes);
void add_nic_attributes(const NicFact& nic, std::vector<topology::Attribute>& attributes);
void add_nvml_attributes(const vendor::NvmlGpu& gpu, std::vector<topology::Attribute>& attributes);
/// What shows that others decide about this host: a hypervisor, a container, a quota.
void add_host_attributes(const Roots& roots, std::vector<topology::Attribute>& attributes);

}  // namespace peal::discovery
