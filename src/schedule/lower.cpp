#include <algorithm>
#include <cstdlib>
#include <schedule/schedule.hpp>

namespace peal::schedule {

namespace {

// What travels, and where sums that are not finished lie. Contributions are read where they are; only a finished sum is rounded.
void settle_wire(Op& op, bool wide_partials) {
  if (op.wire != Wire::addend) return;
  op.wire = wide_partials ? Wire::fp32 : Wire::element;
  if (!wide_partials) return;
  const auto widen = [](Ref& ref) {
    if (ref.buffer == kOutput) ref.buffer = kWideOutput;
    if (ref.buffer == kScratch) ref.buffer = kWideScratch;
  };
  widen(op.src);
  if ((op.flags & kFinish) == 0) widen(op.dst);
}

Op fused(const Op& first, const Op& second) {
  Op op = first;
  op.kind = first.kind == OpKind::recv ? OpKind::recv_send : OpKind::recv_reduce_send;
  op.peer2 = second.peer;
  op.flags |= kStore;
  return op;
}

// A receive followed by a send of what it produced, over the same channel number and with peers that advance alike.
bool can_fuse(const Op& first, const Op& second) {
  if (second.kind != OpKind::send) return false;
  if (first.kind != OpKind::recv && first.kind != OpKind::recv_reduce) return false;
  return first.dst == second.src && first.channel == second.channel && first.peer_step == second.peer_step &&
         first.modulus == second.modulus && sent_wire(fused(first, second)) == second.wire;
}

std::vector<Op> fuse_strand(const std::vector<Op>& ops) {
  std::vector<Op> out;
  out.reserve(ops.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i + 1 < ops.size() && can_fuse(ops[i], ops[i + 1])) {
      out.push_back(fused(ops[i], ops[i + 1]));
      ++i;
      continue;
    }
    if (ops[i].kind == OpKind::loop) open.push_back(out.size());
    out.push_back(ops[i]);
    if (ops[i].kind == OpKind::end_loop) {
      const auto distance = static_cast<std::uint32_t>(out.size() - 1 - open.back());
      out.back().more = distance;
      out[open.back()].more = distance;
      open.pop_back();
    }
  }
  return out;
}

bool reads_scratch(const Op& op) { return op.kind != OpKind::reduce && op.src.count > 0 && op.src.buffer == kScratch; }

// Calls f(ref) for every source of a reduction.
template <class F>
void each_source(const Program& program, const Op& reduce, F&& f) {
  f(reduce.src);
  for (std::uint32_t i = 0; i < reduce.more_count; ++i) f(program.sources[reduce.more + i].ref);
}

// True when `reduce` reads each chunk that the round of receives brings, and no other reduction does.
bool reads_all_alone(const Program& program, const Op& round, const Op& receive, const Op& reduce) {
  const std::int32_t first = receive.dst.first;
  const std::int32_t step = receive.dst.step[0];
  std::vector<bool> is_read(static_cast<std::size_t>(round.operand), false);
  bool is_alone = receive.modulus == 0 && step > 0 && receive.dst.step[1] == 0;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::reduce) continue;
    each_source(program, op, [&](const Ref& ref) {
      if (ref.buffer != kScratch) return;
      if (ref.count != 1 || ref.step[0] != 0 || ref.step[1] != 0) is_alone = false;
      const std::int32_t steps = is_alone ? (ref.first - first) / step : 0;
      if (!is_alone || ref.first < first || (ref.first - first) % step != 0 || steps >= round.operand) return;
      if (&op != &reduce || is_read[static_cast<std::size_t>(steps)]) is_alone = false;
      is_read[static_cast<std::size_t>(steps)] = true;
    });
  }
  return is_alone && std::find(is_read.begin(), is_read.end(), false) == is_read.end();
}

// A round of receives, one from each of several ranks, into scratch that nobody reads but the reduction behind it.
void hold_addends(Program& program) {
  if (std::any_of(program.ops.begin(), program.ops.end(), reads_scratch)) return;
  for (std::size_t s = 0; s < program.strands(); ++s) {
    const std::uint32_t end = program.strand_begin[s + 1];
    for (std::uint32_t i = program.strand_begin[s]; i + 2 < end; ++i) {
      const Op& round = program.ops[i];
      Op& op = program.ops[i + 1];
      const bool is_round = round.kind == OpKind::loop && round.operand < program.ranks && op.kind == OpKind::recv &&
                            std::abs(op.peer_step) == 1 && program.ops[i + 2].kind == OpKind::end_loop;
      if (!is_round || op.wire != Wire::element || op.dst.buffer != kScratch || op.dst.count != 1) continue;
      std::uint32_t next = i + 3;
      while (next < end && program.ops[next].kind == OpKind::wait) ++next;
      if (next == end || program.ops[next].kind != OpKind::reduce || program.ops[next].dst.count != 1) continue;
      if (reads_all_alone(program, round, op, program.ops[next])) op.flags |= kHeld;
    }
  }
}

// By how much each event grows in one walk: local signals counted through loops; signals of peers by the highest threshold waited for.
void count_events(Program& program) {
  std::int32_t events = 0;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::signal || op.kind == OpKind::wait) events = std::max(events, op.event + 1);
  program.event_quota.assign(static_cast<std::size_t>(events), 0);
  each_counted(program, [&](const Op& op, std::int64_t times) {
    if (op.kind == OpKind::signal && op.peer < 0)
      program.event_quota[op.event] += static_cast<std::int32_t>(times);
    else if (op.kind == OpKind::wait && op.peer >= 0)
      program.event_quota[op.event] = std::max(program.event_quota[op.event], op.operand);
  });
}

// A partial sum that goes on at once needs no memory where nobody reads it again.
void drop_unread_partials(Program& program) {
  bool is_read[kFirstUserBuffer] = {};
  for (const Op& op : program.ops)
    if (is_wide(op.src.buffer)) is_read[op.src.buffer] = true;
  for (Op& op : program.ops) {
    if (!is_wide(op.dst.buffer)) continue;
    if (op.kind == OpKind::recv_reduce_send && !is_read[op.dst.buffer]) op.flags &= static_cast<std::uint8_t>(~kStore);
    if (op.kind == OpKind::recv_reduce_send && (op.flags & kStore) == 0) continue;
    (op.dst.buffer == kWideOutput ? program.keeps_wide_output : program.keeps_wide_scratch) = true;
  }
}

}  // namespace

Program lower(const RankSchedule& strands, std::int32_t rank, std::int32_t ranks, bool fuse, bool wide_partials) {
  Program program;
  program.rank = rank;
  program.ranks = ranks;
  program.sources = strands.sources;
  program.strand_begin.reserve(strands.strands.size() + 1);
  program.strand_begin.push_back(0);
  std::size_t ops_in_all = 0;
  for (const Strand& strand : strands.strands) ops_in_all += strand.ops.size();
  program.ops.reserve(ops_in_all);
  for (const Strand& strand : strands.strands) {
    if (strand.ops.empty()) continue;
    std::vector<Op> ops = strand.ops;
    for (Op& op : ops) settle_wire(op, wide_partials);
    if (fuse) ops = fuse_strand(ops);
    program.ops.insert(program.ops.end(), ops.begin(), ops.end());
    program.strand_begin.push_back(static_cast<std::uint32_t>(program.ops.size()));
  }
  for (const Op& op : program.ops) {
    if (!sends(op.kind) && !receives(op.kind) && !is_switched(op.kind)) continue;
    program.chunks_a_message = std::max<std::int32_t>(program.chunks_a_message, std::max(op.src.count, op.dst.count));
    program.channels = std::max<std::int32_t>(program.channels, op.channel + 1);
  }
  count_events(program);
  if (fuse) hold_addends(program);
  if (wide_partials) drop_unread_partials(program);
  return program;
}

Program program_for(const Schedule& schedule, std::int32_t rank, bool fuse) {
  // Two ranks have one sum to round, wherever it travels.
  const bool wide_partials = schedule.request.wide_partials && schedule.request.ranks > 2;
  return lower(schedule.build(rank), rank, schedule.request.ranks, fuse, wide_partials);
}

std::int32_t widest_message(const Schedule& schedule) {
  constexpr std::int32_t kMostRanksBuilt = 1000;
  const std::int32_t stride = std::max(1, schedule.request.ranks / kMostRanksBuilt);
  std::int32_t widest = 1;
  for (std::int32_t rank = 0; rank < schedule.request.ranks; rank += stride)
    widest = std::max(widest, program_for(schedule, rank).chunks_a_message);
  return widest;
}

bool sends_wide_partials(const Schedule& schedule) {
  for (std::int32_t rank = 0; schedule.request.wide_partials && rank < schedule.request.ranks; ++rank)
    for (const Op& op : program_for(schedule, rank).ops)
      if (op.wire == Wire::fp32) return true;
  return false;
}

Ref alias_of(const Request& request, const Layouts& layouts, std::int32_t rank, Ref ref) {
  if (!request.in_place) return ref;
  switch (request.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
      if (ref.buffer == kInput) ref.buffer = kOutput;
      break;
    case Collective::all_gather:
    case Collective::all_gather_v:
    case Collective::gather:
    case Collective::gather_v:
      if (ref.buffer == kInput) {
        ref.buffer = kOutput;
        ref.first += rank * layouts.output.chunks_per_block;
      }
      break;
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v:
    case Collective::scatter:
    case Collective::scatter_v:
      if (ref.buffer == kOutput) {
        ref.buffer = kInput;
        ref.first += rank * layouts.input.chunks_per_block;
      }
      break;
    default: break;
  }
  return ref;
}

}  // namespace peal::schedule
