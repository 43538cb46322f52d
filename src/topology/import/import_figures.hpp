// Bandwidths that imported files do not say themselves: data/import/nccl.yaml, read once.
#pragma once

#include <string>
#include <string_view>
#include <topology/graph.hpp>
#include <unordered_map>
#include <vector>

#include "wire_figures.hpp"

namespace peal::topology {

class YamlFields;

class ImportFigures {
 public:
  /// The file of data_directory(); a failure names the line.
  static const Result<ImportFigures>& all();
  static Result<ImportFigures> read(std::string_view text, const std::string& name);

  /// A PCIe link as a topology file words it. `is_assumed`: the file does not say the speed, or not in words that NCCL knows.
  struct Pcie {
    WireFigures wire;
    bool is_assumed = false;
  };
  Pcie pcie(std::string_view speed, int width) const;
  /// The same from a rate in GB/s that hwloc worked out from speed and width; usable by NCCL's share of that generation's x16.
  WireFigures pcie_of_rate(double gbps) const;
  WireFigures nvlink(int sm) const;              ///< compute capability x10; 0: unknown
  WireFigures xgmi(std::string_view gfx) const;  ///< "942"
  WireFigures between_cpus(std::string_view arch, std::string_view vendor, int family, int model) const;
  WireFigures local() const;  ///< what is no wire: NCCL counts it as no limit
  double net_mbps() const { return net_mbps_; }
  const std::string& default_source() const { return default_source_; }
  /// "A100-SXM4-40GB" of "10de:20b0"; empty when unknown.
  std::string_view name_of(std::string_view pci_id) const;

 private:
  struct PlanRow {
    std::string text;
    double lane = 0;
    std::string source;
  };
  struct NvlinkRow {
    int from = 0;
    int to = 0;
    WireFigures wire;
  };
  struct XgmiRow {
    std::string gfx;
    WireFigures wire;
  };
  struct CpuRow {
    std::string arch;
    std::string vendor;
    int family = -1;
    int model_from = -1;
    WireFigures wire;
  };
  Status read_defaults(YamlFields& top, const std::string& name);
  const PlanRow& plan_of(std::string_view speed) const;

  std::vector<PlanRow> plan_;
  std::vector<NvlinkRow> nvlink_;
  std::vector<XgmiRow> xgmi_;
  std::vector<CpuRow> cpus_;
  std::unordered_map<std::string, std::string> names_;
  double local_gbps_ = 0;
  double net_mbps_ = 0;
  int pcie_width_ = 0;
  std::string default_source_;
};

}  // namespace peal::topology
