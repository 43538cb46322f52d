// Which operators a pipeline stage holds.
#pragma once

#include <training/cut_graph.hpp>

namespace peal::training {

/// Stage by operator; -1: an input or parameter. Fails where the options ask for what is not there.
Result<std::vector<int>> split_stages(const Graph& graph, const CutOptions& options);

}  // namespace peal::training
