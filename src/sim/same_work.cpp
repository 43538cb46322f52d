#include "same_work.hpp"

#include <algorithm>
#include <cstring>

namespace peal::sim {

namespace {

bool is_same(const schedule::ExtentTable& a, const schedule::ExtentTable& b) {
  const auto cut = [](const schedule::ExtentTable& t) {
    return std::tuple(t.layout().partition, t.layout().blocks, t.layout().chunks_per_block);
  };
  return cut(a) == cut(b) && a.layout().partition != schedule::Partition::varied && a.total() == b.total();
}

bool is_same(const schedule::Op& a, const schedule::Op& b) {
  static_assert(std::has_unique_object_representations_v<schedule::Op>);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool is_same(const schedule::Source& a, const schedule::Source& b) { return a.ref == b.ref && a.peer == b.peer; }

template <class T>
bool are_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return is_same(x, y); });
}

bool is_same(const schedule::Program& a, const schedule::Program& b) {
  return a.strand_begin == b.strand_begin && a.event_quota == b.event_quota && are_same(a.ops, b.ops) && are_same(a.sources, b.sources);
}

bool is_same(const schedule::RankSchedule& a, const schedule::RankSchedule& b) {
  return are_same(a.sources, b.sources) && std::equal(a.strands.begin(), a.strands.end(), b.strands.begin(), b.strands.end(),
                                                      [](const auto& x, const auto& y) { return are_same(x.ops, y.ops); });
}

/// Of one rank. What is built alike is lowered alike; what is not may be.
bool is_same_program(const schedule::Schedule& a, const schedule::Schedule& b, std::int32_t rank) {
  return is_same(a.build(rank), b.build(rank)) || is_same(schedule::program_for(a, rank), schedule::program_for(b, rank));
}

/// Everything but the programs.
bool are_bound_alike(const tuning::Plan& a, const tuning::Plan& b) {
  const auto terms = [](const tuning::Plan& p) {
    return std::tuple(p.protocol, p.message_bytes, p.slots, p.element_bytes, p.pieces.count, p.pieces.elements, p.schedule.pieced,
                      p.extents.layouts.scratch_like_input, p.schedule.request.ranks, p.schedule.request.wide_partials, p.call.collective);
  };
  return terms(a) == terms(b) && is_same(a.extents.input, b.extents.input) && is_same(a.extents.output, b.extents.output);
}

}  // namespace

bool is_same_work(const tuning::Plan& a, const tuning::Plan& b) {
  if (!are_bound_alike(a, b)) return false;
  for (std::int32_t r = 0; r < a.schedule.request.ranks; ++r)
    if (!is_same_program(a.schedule, b.schedule, r)) return false;
  return true;
}

}  // namespace peal::sim
