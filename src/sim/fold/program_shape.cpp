#include "program_shape.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace peal::sim {

using schedule::Op;
using schedule::OpKind;
using schedule::Program;

std::optional<NamedChannel> only_channel(const Program& program, std::size_t strand) {
  std::optional<NamedChannel> only;
  for (std::uint32_t i = program.strand_begin[strand]; i < program.strand_begin[strand + 1]; ++i) {
    const Op& op = program.ops[i];
    if (op.kind == OpKind::loop) return {};
    const bool receives = schedule::receives(op.kind);
    const bool sends = schedule::sends(op.kind);
    if (!receives && !sends) continue;
    if (only || (receives && sends)) return {};
    only = receives ? NamedChannel{op.peer, program.rank, op.channel} : NamedChannel{program.rank, op.peer, op.channel};
  }
  return only;
}

namespace {

std::span<const Op> ops_of(const Program& program, std::size_t strand) {
  return std::span(program.ops).subspan(program.strand_begin[strand], program.strand_begin[strand + 1] - program.strand_begin[strand]);
}

bool is_local_signal(const Op& op) { return op.kind == OpKind::signal && op.peer < 0; }

/// Where an event is waited for: the row of waits, and for how many signals. Sorted.
using Waits = std::vector<std::tuple<std::uint32_t, std::int32_t, std::int32_t, std::int32_t>>;

Waits waits_for(const Program& program, std::uint16_t event) {
  Waits waits;
  std::uint32_t row = 0;
  for (std::size_t s = 0; s < program.strands(); ++s) {
    ++row;
    for (const Op& op : ops_of(program, s)) {
      if (op.kind != OpKind::wait)
        ++row;
      else if (op.event == event)
        waits.emplace_back(row, op.operand, op.src.step[0], op.src.step[1]);
    }
  }
  std::sort(waits.begin(), waits.end());
  return waits;
}

/// Nobody else signals it, and it is no event of theirs.
bool is_signalled_by_one_op(const Program& program, std::uint16_t event) {
  return std::count_if(program.ops.begin(), program.ops.end(),
                       [&](const Op& op) { return op.kind == OpKind::signal && op.event == event; }) == 1;
}

bool are_alike(const Program& program, std::size_t a, std::size_t b, std::span<const std::uint64_t> shapes) {
  const std::uint32_t length = program.strand_begin[a + 1] - program.strand_begin[a];
  if (length != program.strand_begin[b + 1] - program.strand_begin[b]) return false;
  for (std::uint32_t i = 0; i < length; ++i) {
    const std::uint32_t at_a = program.strand_begin[a] + i;
    const std::uint32_t at_b = program.strand_begin[b] + i;
    const Op& x = program.ops[at_a];
    const Op& y = program.ops[at_b];
    const bool can_be_told_apart = is_local_signal(x) && is_local_signal(y)
                                       ? x.event == y.event || !is_signalled_by_one_op(program, x.event) ||
                                             !is_signalled_by_one_op(program, y.event) ||
                                             waits_for(program, x.event) != waits_for(program, y.event)
                                       : shapes[at_a] != shapes[at_b];
    if (can_be_told_apart) return false;
  }
  return true;
}

}  // namespace

std::vector<std::uint64_t> shapes_of(const Program& program, const MessageSizes& sizes) {
  std::vector<std::uint64_t> shapes;
  shapes.reserve(program.ops.size());
  for (const Op& op : program.ops) shapes.push_back(shape_of(op, sizes));
  return shapes;
}

std::vector<std::uint32_t> first_alike(const Program& program, std::span<const std::uint64_t> shapes) {
  std::vector<std::uint32_t> first(program.strands());
  std::vector<bool> has_one_channel(program.strands());
  for (std::uint32_t s = 0; s < program.strands(); ++s) {
    first[s] = s;
    has_one_channel[s] = only_channel(program, s).has_value();
    for (std::uint32_t t = 0; t < s && first[s] == s && has_one_channel[s]; ++t)
      if (first[t] == t && has_one_channel[t] && are_alike(program, t, s, shapes)) first[s] = t;
  }
  return first;
}

bool JoinedRanks::are_all_told_apart(std::vector<std::uint64_t> shapes) {
  std::sort(shapes.begin(), shapes.end());
  bool has_single = false;
  for (std::size_t i = 0; i < shapes.size() && !has_single; ++i)
    has_single = (i == 0 || shapes[i] != shapes[i - 1]) && (i + 1 == shapes.size() || shapes[i] != shapes[i + 1]);
  if (!has_single) return false;
  const std::int32_t whole = group_of(0);
  for (std::int32_t r = 1; r < static_cast<std::int32_t>(joined_.size()); ++r)
    if (group_of(r) != whole) return false;
  return true;
}

void drop_strands(Program& program, std::span<const std::uint32_t> first) {
  std::vector<Op> ops;
  std::vector<std::uint32_t> begin;
  std::map<std::uint16_t, std::uint16_t> event_of;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const std::span<const Op> own = ops_of(program, s);
    if (first[s] == s) {
      begin.push_back(static_cast<std::uint32_t>(ops.size()));
      ops.insert(ops.end(), own.begin(), own.end());
      continue;
    }
    const std::span<const Op> kept = ops_of(program, first[s]);
    for (std::size_t i = 0; i < own.size(); ++i)
      if (is_local_signal(own[i])) event_of[own[i].event] = kept[i].event;
  }
  if (begin.size() == first.size()) return;
  begin.push_back(static_cast<std::uint32_t>(ops.size()));
  for (Op& op : ops)
    if (const auto known = event_of.find(op.event); op.kind == OpKind::wait && known != event_of.end()) op.event = known->second;
  program.ops = std::move(ops);
  program.strand_begin = std::move(begin);
}

}  // namespace peal::sim
