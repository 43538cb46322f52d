// What ibnetdiscover prints: nodes in blocks with their ports,
//
//   Switch  41 "S-b83fd20300aa0001"   # "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
//   [1]     "H-b83fd20300bb0001"[1](b83fd20300bb0001)   # "node1 mlx5_0" lid 5 4xNDR
//
//   Ca      1 "H-b83fd20300bb0001"    # "node1 mlx5_0"
//   [1](b83fd20300bb0001)  "S-b83fd20300aa0001"[1]   # lid 5 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xNDR
//
// or the ports report (-p), one line an end of a wire:
//
//   CA     5  1 0xb83fd20300bb0001 4x NDR - SW     1  1 0xb83fd20300aa0001 ( 'node1 mlx5_0' - 'leaf1' )
//   SW     1  2 0xb83fd20300aa0001 4x SDR                                    'leaf1'
//
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "text_lines.hpp"

namespace peal::topology {

/// Wires of one port.
inline constexpr int kMostLanes = 48;

struct IbNode {
  std::string guid;         ///< "S-...", "H-...", "R-..."
  std::string description;  ///< what people named it
  int line = 0;
  bool has_block = false;  ///< has a block of its own, not only a line at its neighbour
};

struct IbWire {
  int a = 0;  ///< node index
  int port_a = 0;
  int b = 0;
  int port_b = 0;
  std::string rate;  ///< "4xNDR"
  int line = 0;
};

class IbReader {
 public:
  explicit IbReader(Remarks& remarks) : remarks_(remarks) {}
  void read(std::string_view text);
  const std::vector<IbNode>& nodes() const { return nodes_; }
  const std::vector<IbWire>& wires() const { return wires_; }

 private:
  void read_line(const TextLine& line);
  void read_port(std::string_view text, int line);
  void read_report(std::string_view text, int line);
  void add_wire(IbWire wire, std::string_view peer, std::string_view description);
  /// Index, or -1 when there are too many nodes.
  int node(std::string_view guid, int line);

  Remarks& remarks_;
  std::vector<IbNode> nodes_;
  std::vector<IbWire> wires_;
  std::unordered_map<std::string, int> index_;
  int current_ = -1;
};

}  // namespace peal::topology
