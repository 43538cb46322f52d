// Trace events in Chrome's JSON form, which Perfetto opens (https://ui.perfetto.dev).
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace peal {

/// One complete event ("ph":"X"). `process` is a rank, `thread` a strand or link.
struct TraceEvent {
  std::string name;
  std::string category;
  int process = 0;
  int thread = 0;
  double start_us = 0;
  double duration_us = 0;
};

/// Collects events and writes them as one JSON file. Not thread safe; one collector a thread or rank.
class Trace {
 public:
  void add(TraceEvent event) { events_.push_back(std::move(event)); }
  void name_process(int process, std::string name) { process_names_.emplace_back(process, std::move(name)); }
  const std::vector<TraceEvent>& events() const { return events_; }
  Status write(const std::string& path) const;

 private:
  std::vector<TraceEvent> events_;
  std::vector<std::pair<int, std::string>> process_names_;
};

}  // namespace peal
