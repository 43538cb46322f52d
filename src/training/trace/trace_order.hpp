// Nodes of a trace by number instead of id.
#pragma once

#include <training/execution_trace.hpp>

namespace peal::training {

/// Of each node, what it waits for and what waits for it; ids that are not there are left out.
struct TraceOrder {
  std::vector<std::vector<std::size_t>> after, before;
  std::vector<std::size_t> sequence;  ///< each after what it waits for; shorter than the trace where some wait in a circle
};
TraceOrder order_of(const RankTrace& trace);

}  // namespace peal::training
