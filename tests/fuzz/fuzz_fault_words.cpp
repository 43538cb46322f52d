// Faults, and what holds senders back, as people type them: no crash, and what is accepted means something.
#include <cmath>
#include <cstdlib>
#include <set>
#include <sim/congestion.hpp>
#include <sim/fault_words.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto time = peal::sim::parse_time(text))
    if (!(time->value >= 0) || !std::isfinite(time->value)) std::abort();
  if (const auto link = peal::sim::parse_slow_link(text))
    if (link->name.empty() || !(link->factor > 0) || !std::isfinite(link->factor)) std::abort();
  if (const auto straggler = peal::sim::parse_straggler(text))
    if (straggler->rank < 0 || !(straggler->factor > 0) || !(straggler->delay >= 0)) std::abort();
  if (const auto failure = peal::sim::parse_failure(text))
    if (failure->rank < 0 || !(failure->time >= 0)) std::abort();
  if (const auto message = peal::sim::parse_message(text))
    if (message->from < 0 || message->to < 0 || message->from == message->to) std::abort();
  if (const auto beside = peal::sim::parse_beside(text))
    if (beside->group_ranks < 0 || beside->stride < 0 || !(beside->start.value >= 0)) std::abort();
  if (const auto places = peal::sim::parse_places(text))
    if (places->empty() || std::set<int>(places->begin(), places->end()).size() != places->size() || *places->begin() < 0) std::abort();
  if (const auto compute = peal::sim::parse_compute(text))
    if (!(compute->compute.value >= 0) || compute->parts < 1) std::abort();
  static const peal::topology::Cluster nothing{peal::topology::Graph{}};
  if (const auto congestion = peal::sim::parse_congestion(text, nothing))
    if (!(congestion->queue(4, 10) >= 0) || !(congestion->holds_up_for(4) >= 0)) std::abort();
  return 0;
}
