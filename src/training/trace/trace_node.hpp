// What fields of a trace mean, for both of its forms.
#pragma once

#include <training/execution_trace.hpp>

namespace peal::training {

void set_kind(TraceNode& node, double number);
void set_number(TraceNode& node, std::string_view attribute, double number);
void set_text(TraceNode& node, std::string_view attribute, const std::string& text);

/// Fills `trace` from the JSON of Chakra's tests: {"workload_graph": [{"Id": 216, ...}]}.
Result<RankTrace> read_trace_json(std::string_view text, RankTrace trace);

}  // namespace peal::training
