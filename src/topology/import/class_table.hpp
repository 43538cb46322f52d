// Classes of paths between the devices of one machine, as `nvidia-smi topo -m` and its kin print them, and the smallest graph that
// explains them. A table names no wires, so the graph is one of many: PCIe switches stand where PIX and PXB ask for them, one host bridge
// where PHB does, one CPU device a NUMA domain, and NVLink runs through a switch where the counts cannot be met by wires from GPU to GPU.
#pragma once

#include <optional>
#include <string>
#include <topology/graph.hpp>
#include <vector>

#include "import_rates.hpp"
#include "text_lines.hpp"

namespace peal::topology {

inline constexpr std::size_t kMostTableDevices = 256;

/// From near to far; `direct` is a link of its own between GPUs (NVLink, xGMI, HCCS).
enum class CellClass : std::uint8_t { unknown, direct, pix, pxb, phb, node, sys, none };

struct Cell {
  CellClass path = CellClass::unknown;
  LinkKind kind = LinkKind::nvlink;  ///< of a direct link
  int wires = 1;                     ///< of a direct link
  bool is_switched = false;          ///< a direct link that runs through a switch for certain (HCCS_SW)
  std::string_view rate = "nvlink";  ///< of a direct link: which assumption of data/import gives its rate; a literal

  bool operator==(const Cell&) const = default;
};

struct TableDevice {
  std::string id;
  DeviceKind kind = DeviceKind::gpu;
  std::string name = {};
  std::string domain = {};  ///< devices with the same text sit on the same CPU; empty: not said
  int numa = -1;
  int line = 0;  ///< where the file describes it, 0 nowhere
  std::vector<Attribute> attributes = {};
};

/// Symmetric; at most kMostTableDevices devices.
class ClassTable {
 public:
  explicit ClassTable(std::vector<TableDevice> devices) : devices_(std::move(devices)), cells_(devices_.size() * devices_.size()) {}
  std::size_t size() const { return devices_.size(); }
  const TableDevice& device(std::size_t i) const { return devices_[i]; }
  const Cell& cell(std::size_t i, std::size_t j) const { return cells_[i * size() + j]; }
  void set(std::size_t i, std::size_t j, const Cell& cell) { cells_[i * size() + j] = cells_[j * size() + i] = cell; }

 private:
  std::vector<TableDevice> devices_;
  std::vector<Cell> cells_;
};

struct TableOptions {
  std::string source;        ///< who said what the table says: "nvidia-smi topo -m in FILE"
  std::string prefix = {};   ///< of the ids that are made here ("n3/")
  int node = 0;              ///< machine that the devices belong to
  bool is_one_host = false;  ///< devices of which nothing is said hang on a CPU all the same
};

/// Adds the devices of the table, in order, and what explains it.
Status add_class_table(const ClassTable& table, const TableOptions& options, const ImportRates& rates, Graph& graph, Remarks& remarks);

/// The whole way from a table that is all of a file to its graph: the above, with the rates of data/import and the warnings below.
Status draw_class_table(const ClassTable& table, const TableOptions& options, Graph& graph, Remarks& remarks);

/// The table that the graph gives, against `table`: one warning a pair that differs. Devices are found by their ids.
void compare_classes(const ClassTable& table, const Graph& graph, Remarks& remarks);

/// Says once that the rates are no part of the file.
void note_assumed_rates(const Graph& graph, Remarks& remarks);

/// Which direct links run through one switch: the members of the groups whose counts fit a switch and no set of wires between pairs.
/// Wires of each member of the group, 0 for everybody else. At most one group, since all NVSwitches of a machine act as one.
std::vector<int> wires_to_switch(const ClassTable& table, const ImportRates& rates, Remarks& remarks);

/// Most direct links that one GPU of the table has.
int most_wires(const ClassTable& table, const std::vector<int>& to_switch);

}  // namespace peal::topology
