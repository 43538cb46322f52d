// A schedule: one collective for n ranks, as a pure function from a rank to its strands of ops; and its flat form, the program.
#pragma once

#include <algorithm>
#include <base/result.hpp>
#include <functional>
#include <memory>
#include <peal/types.hpp>
#include <schedule/layout.hpp>
#include <schedule/op.hpp>
#include <schedule/placement.hpp>
#include <span>
#include <string>
#include <vector>

namespace peal::schedule {

struct GroupMap;

/// What builders work out of a placement once and share; all are equal, because it says nothing that the placement does not.
struct KnownOfPlacement {
  std::shared_ptr<const GroupMap> groups;
  std::shared_ptr<const std::vector<std::uint8_t>> ring_channels;  ///< of each ring; multi_ring's
  bool operator==(const KnownOfPlacement&) const { return true; }
};

/// What is asked of an algorithm.
struct Request {
  Collective collective = Collective::all_reduce;
  std::int32_t ranks = 1;
  std::int32_t root = 0;  ///< of broadcast, reduce, gather(_v), scatter(_v); send_recv: the sender, `peer` the receiver
  std::int32_t peer = 0;
  bool in_place = false;   ///< buffers overlap as NCCL has it: see alias_of()
  std::int32_t radix = 2;  ///< of k-nomial trees
  /// Sums of floats of 16 and 8 bits travel and are held as fp32 until they are finished: rounded once, by any algorithm.
  bool wide_partials = false;
  Placement placement;
  KnownOfPlacement known = {};  ///< set by make_schedule for its builders alone
  bool operator==(const Request&) const = default;
};

/// One ordered sequence of ops. The name is for people ("send", "receive", "reduce").
struct Strand {
  std::string name;
  std::vector<Op> ops;
};

/// One rank's part of a schedule, as its builder wrote it.
struct RankSchedule {
  std::vector<Strand> strands;
  std::vector<Source> sources;
};

/// One rank's flat program: all strands' ops behind one another, fused where that saves a pass over the data.
struct Program {
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::vector<Op> ops;
  std::vector<std::uint32_t> strand_begin;  ///< strands + 1 entries: strand s is ops [strand_begin[s], strand_begin[s + 1])
  std::vector<Source> sources;
  /// For each event, by how much its count grows in one walk through the program; thresholds of piece p are raised by p times it.
  std::vector<std::int32_t> event_quota;
  std::int32_t chunks_a_message = 1;  ///< the most chunks that one of this rank's messages carries
  std::int32_t channels = 1;          ///< between two ranks that it may name: 0 to channels - 1
  bool keeps_wide_output = false;     ///< memory that it needs for fp32 partial sums
  bool keeps_wide_scratch = false;

  std::size_t strands() const { return strand_begin.empty() ? 0 : strand_begin.size() - 1; }
  // What a cursor walks by; whoever keeps ops otherwise has these too.
  const Op& op(std::uint32_t i) const { return ops[i]; }
  std::int32_t peer(std::uint32_t i) const { return ops[i].peer; }
  std::int32_t peer2(std::uint32_t i) const { return ops[i].peer2; }
};

/// Calls f(op, times) for every op but loops and their ends: `times` is how often one walk through the program does it.
template <class F>
void each_counted(const Program& program, F&& f) {
  std::int64_t times[3] = {1, 1, 1};  // loops are two deep at most
  int depth = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::loop) {
      times[depth + 1] = times[depth] * std::max(0, op.operand);
      ++depth;
    } else if (op.kind == OpKind::end_loop) {
      --depth;
    } else {
      f(op, times[depth]);
    }
  }
}

/// A collective's schedule for n ranks. Cheap to hold: ranks are built on demand, nobody materialises O(n^2) ops.
struct Schedule {
  std::string name;  ///< of the algorithm, or of the imported file
  Request request;
  Layouts layouts;
  bool pieced = true;  ///< the plan walks the program once a piece; false: every op streams its whole extent (needs no slots)
  std::function<RankSchedule(std::int32_t rank)> build;  ///< pure
};

/// Lowers one rank: drops empty ops, says what travels, fuses recv + send and recv_reduce + send of the same chunks where `fuse`, flattens.
Program lower(const RankSchedule& strands, std::int32_t rank, std::int32_t ranks, bool fuse, bool wide_partials = false);

/// program_for(schedule, rank) = lower(schedule.build(rank)); pure.
Program program_for(const Schedule& schedule, std::int32_t rank, bool fuse = true);

/// The most chunks that one message of any rank carries: what pieces are cut by, the same on all ranks. Builds every rank up to a
/// thousand; of more, evenly spread ones.
std::int32_t widest_message(const Schedule& schedule);
/// True where fp32 partial sums travel between any of these ranks; the same on all.
bool sends_wide_partials(const Schedule& schedule);

/// In place, chunk `index` of one buffer is the same memory as a chunk of another: all_reduce, broadcast and reduce: input = output;
/// all_gather and gather: input = output block `rank`; reduce_scatter and scatter: output = input block `rank`.
/// Maps an input or output reference to the buffer that is named canonically (the larger one); identity when not in place.
Ref alias_of(const Request& request, const Layouts& layouts, std::int32_t rank, Ref ref);

/// One op as a line for people: "recv_reduce 3 -> output[2] = input[2] + .".
std::string to_text(const Op& op, std::span<const Source> sources);
std::string to_text(const Program& program);

}  // namespace peal::schedule
