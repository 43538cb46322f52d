// Direct links between GPUs: which of them must run through a switch.
#include <algorithm>

#include "class_table.hpp"
#include "disjoint_sets.hpp"

namespace peal::topology {
namespace {

/// Wires of each member where every known pair has as many as the poorer of the two, and no pair is known to lack a direct link; else
/// empty.
std::vector<int> wires_behind_one_switch(const ClassTable& table, const std::vector<std::size_t>& group) {
  std::vector<int> wires(table.size(), 0);
  for (std::size_t i : group)
    for (std::size_t j : group)
      if (table.cell(i, j).path == CellClass::direct) wires[i] = std::max(wires[i], table.cell(i, j).wires);
  for (std::size_t i : group)
    for (std::size_t j : group) {
      const Cell& cell = table.cell(i, j);
      if (i == j || cell.path == CellClass::unknown) continue;
      if (cell.path != CellClass::direct || cell.wires != std::min(wires[i], wires[j])) return {};
    }
  return wires;
}

/// Wires from one GPU to all others of the group, if there were no switch.
int wires_without_switch(const std::vector<int>& wires, const std::vector<std::size_t>& group, std::size_t i) {
  int sum = 0;
  for (std::size_t j : group)
    if (j != i) sum += std::min(wires[i], wires[j]);
  return sum;
}

bool needs_switch(const std::vector<int>& wires, const std::vector<std::size_t>& group, const ImportRates& rates) {
  bool is_equal = true;
  int most = 0;
  for (std::size_t i : group) {
    is_equal = is_equal && wires[i] == wires[group.front()];
    most = std::max(most, wires_without_switch(wires, group, i));
  }
  if (most > rates.most_nvlinks()) return true;
  // Eight links to each of two others are sixteen, which no GPU has; eight to a switch are those of an H800.
  return is_equal && rates.is_whole_gpu(wires[group.front()]) && !rates.is_whole_gpu(most);
}

}  // namespace

std::vector<int> wires_to_switch(const ClassTable& table, const ImportRates& rates, Remarks& remarks) {
  std::vector<int> to_switch(table.size(), 0);
  DisjointSets sets(table.size());
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t j = i + 1; j < table.size(); ++j) {
      const Cell& cell = table.cell(i, j);
      if (cell.path != CellClass::direct) continue;
      if (cell.is_switched) to_switch[i] = to_switch[j] = std::max({to_switch[i], to_switch[j], cell.wires});
      if (cell.kind == LinkKind::nvlink && !cell.is_switched) sets.unite(i, j);
    }
  bool has_switch = std::any_of(to_switch.begin(), to_switch.end(), [](int wires) { return wires > 0; });
  for (const std::vector<std::size_t>& group : sets.groups()) {
    if (group.size() < 3) continue;
    const std::vector<int> wires = wires_behind_one_switch(table, group);
    if (wires.empty() || !needs_switch(wires, group, rates)) continue;
    if (has_switch) {
      remarks.add(
          table.device(group.front()).line,
          "{} and {} others must have an NVSwitch of their own: their links are drawn from GPU to GPU instead, so that their number "
          "at each GPU is too high",
          table.device(group.front()).id, group.size() - 1);
      continue;
    }
    has_switch = true;
    for (std::size_t i : group) to_switch[i] = wires[i];
  }
  return to_switch;
}

int most_wires(const ClassTable& table, const std::vector<int>& to_switch) {
  int most = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    int sum = to_switch[i];
    for (std::size_t j = 0; j < table.size(); ++j) {
      const Cell& cell = table.cell(i, j);
      const bool is_behind = cell.is_switched || (to_switch[i] > 0 && to_switch[j] > 0 && cell.kind == LinkKind::nvlink);
      if (cell.path == CellClass::direct && !is_behind) sum += cell.wires;
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace peal::topology
