// What communications of a trace take on a cluster.
#pragma once

#include <sim/library.hpp>
#include <training/execution_trace.hpp>

namespace peal::training {

/// By a library's formula (not `peal`'s), rank r on the cluster's r-th compute device; comm_size is taken as nccl-tests counts bytes.
/// Groups are priced alone, as if nobody else used the network. The cluster outlives the answer.
CommunicationTime library_times(const topology::Cluster& cluster, sim::Library library);

/// What a simulation of traces gave, as a table.
std::string trace_study_text(const std::vector<RankTrace>& traces, const TraceStudy& study);
/// Schema peal.trace_study/1.
std::string trace_study_json(const std::vector<RankTrace>& traces, const TraceStudy& study);

}  // namespace peal::training
