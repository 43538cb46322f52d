// Words that Slurm's files share: machine names, lists of them, bus ids in order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

/// "0000:07:00.0" before "0000:0a:00.0" before "0001:01:00.0": by the hexadecimal fields.
bool is_bus_before(std::string_view a, std::string_view b);

/// NUMA domain of a CPU: its own, else the number at the end of its id, else `index`, its place among the machine's CPUs.
int numa_of_cpu(const Graph& graph, int cpu, int index);

/// What machines are called, by number: the attribute `host` of one of their devices, else what their devices' ids begin with ("n3" of
/// "n3/gpu0"), else "n" and the number. All different.
std::vector<std::string> machine_names(const Graph& graph);

/// fold_hostlist of sorted names: {"n2", "n0", "x", "n1"} -> "n[0-2],x".
std::string fold_names(std::vector<std::string> names);

/// A name that Slurm takes: letters, digits, - _ and .; others become '_'.
std::string slurm_name(std::string_view text);

/// Text for a comment: what would end the line becomes a blank, and at most 100 bytes are kept.
std::string one_line(std::string_view text);

}  // namespace peal::topology
