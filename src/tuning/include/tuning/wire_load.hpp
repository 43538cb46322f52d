// What the wires of a cluster carry of rings and trees, for reports.
#pragma once

#include <map>
#include <span>
#include <string>
#include <topology/resources.hpp>
#include <vector>

namespace peal::tuning {

struct WireLoad {
  std::string wire;     ///< "gpu0 > gpu3 (nvlink x2)"
  int crossings = 0;    ///< of all rings or trees
  double carried = 0;   ///< GB/s
  double capacity = 0;  ///< GB/s
  double share() const { return carried / capacity; }
};

class WireLoads {
 public:
  WireLoads(const topology::Resources& resources, std::span<const int> device_of_rank)
      : resources_(resources), device_of_rank_(device_of_rank) {}

  /// Fails where the two ranks have no way to each other.
  Status add(std::int32_t from, std::int32_t to, double amount);
  /// By what all amounts can be multiplied until the first wire is full; 0: no wire was crossed.
  double room() const;
  /// Of every wire that was crossed, the fullest first; each amount times `rate`.
  std::vector<WireLoad> list(double rate) const;

 private:
  struct Load {
    int crossings = 0;
    double amount = 0;
  };
  const topology::Resources& resources_;
  std::span<const int> device_of_rank_;
  std::map<topology::ResourceId, Load> loads_;
  topology::Route route_;
};

/// The fullest of a list, a line each.
std::string describe_loads(const std::vector<WireLoad>& loads);
/// [{"wire","crossings","GBps","capacity_GBps","share"}]
std::string loads_json(const std::vector<WireLoad>& loads);

}  // namespace peal::tuning
