// A machine of the catalogue with what a published run did not use taken away, or another network in place of its own.
#pragma once

#include <sim/case_words.hpp>
#include <span>

namespace peal::sim {

/// Without the links that join GPUs to each other and to switches; they then talk over PCIe. Fails where no other way is left.
Result<topology::Graph> without_nvlink(const topology::Graph& machine);

/// With the network that was said: so many NICs (those nearest to `gpus`, local device indices, stay), of that technology and rate. A
/// machine whose catalogue entry is the same in sum stays as it is; one without NICs gets them at its first CPU. Fails where it has fewer
/// NICs.
Result<topology::Graph> with_network(const topology::Graph& machine, const NetworkWords& network, std::span<const int> gpus);

/// One of the NICs that collectives use is on InfiniBand.
bool is_on_infiniband(const topology::Graph& machine);

}  // namespace peal::sim
