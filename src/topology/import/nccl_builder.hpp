// From the elements of an NCCL topology XML to devices (import_nccl_topology.cpp) and links (nccl_links.cpp).
#pragma once

#include "import_figures.hpp"
#include "nccl_tree.hpp"

namespace peal::topology {

class NcclTopologyBuilder {
 public:
  NcclTopologyBuilder(XmlFile& file, NcclTree tree, const ImportFigures& figures)
      : file_(file), tree_(std::move(tree)), figures_(figures) {}
  Result<Graph> build();

 private:
  Status add_gpus();
  Status add_nets();
  Status add_bridges();
  Status add_cpus();
  Status join_pci();
  Status join_gpu_links();
  Status join_gpu_row(const NcclGpu& gpu, int device, const pugi::xml_node& row, bool is_xgmi);
  Status finish_gpu_links();
  Status join_c2c(const NcclGpu& gpu, int device, const pugi::xml_node& row);
  Status join_pcilinks();
  Status join_cpus();
  Result<int> nvswitch(int host, std::string_view target, const pugi::xml_node& row);
  std::string id_of(int host, std::string_view stem) const;
  std::string free_id(const std::string& id);
  std::vector<int> rails_of_nets() const;
  std::pair<int, std::string> switch_key(int host, std::string_view busid) const;
  std::optional<Port> port_of(const NcclNet& net);
  void keep_attributes(const pugi::xml_node& node, Device& device) const;
  std::string_view name_of(const pugi::xml_node& pci) const;
  int above(int pci) const;
  WireFigures pcie_of(int pci);
  void warn_of_slow_link(int pci, const WireFigures& wire);
  int host_of(int cpu) const { return tree_.cpus[static_cast<std::size_t>(cpu)].host; }
  int numa_of(int cpu) const { return tree_.cpus[static_cast<std::size_t>(cpu)].numa; }

  XmlFile& file_;
  NcclTree tree_;
  const ImportFigures& figures_;
  Graph graph_;
  std::string source_;
  std::vector<int> cpu_devices_;
  std::vector<int> pci_devices_;  ///< device of a PCI element itself (bridges, and functions with several parts)
  std::vector<int> gpu_devices_;
  std::vector<int> net_devices_;
  std::vector<std::vector<int>> pci_parts_;              ///< devices of the GPUs and nets of a PCI element
  std::map<std::pair<int, std::string>, int> switches_;  ///< by host (-1: shared by all) and bus number
  std::unordered_map<std::string, int> used_ids_;
  struct Count {
    int forward = 0;   ///< links that the lower device lists
    int backward = 0;  ///< links that the higher one lists
    WireFigures wire;
    LinkKind kind = LinkKind::nvlink;
    pugi::xml_node row;
  };
  std::map<std::pair<int, int>, Count> gpu_pairs_;
  int dropped_rows_ = 0;
  pugi::xml_node first_dropped_;
  int assumed_ = 0;
  pugi::xml_node first_assumed_;
};

}  // namespace peal::topology
