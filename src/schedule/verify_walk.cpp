#include "verify_walk.hpp"

#include <fmt/format.h>

namespace peal::schedule {

Walk::Walk(const Request& request, const Layouts& layouts, const std::vector<Program>& programs, WalkRules rules)
    : request_(request),
      programs_(programs),
      rules_(rules),
      sums_(is_reduction(request.collective)),
      trees_(request.ranks),
      memory_(request, layouts, rules.pieces) {
  std::size_t strands = 0;
  for (const Program& program : programs) strands += program.strands();
  strands_.reserve(strands);
  for (std::int32_t r = 0; r < request.ranks; ++r) {
    first_strand_.push_back(static_cast<StrandId>(strands_.size()));
    const Program& program = programs[static_cast<std::size_t>(r)];
    for (std::size_t s = 0; s < program.strands(); ++s)
      strands_.push_back(
          {r, s, StrandCursor(program, s, rules.pieces), StrandClock(static_cast<StrandId>(strands_.size()), strands), 0, false});
  }
  first_strand_.push_back(static_cast<StrandId>(strands_.size()));
}

bool Walk::stands_at_receive(std::int32_t rank, std::int32_t from, std::uint8_t number) {
  const Program& program = programs_[static_cast<std::size_t>(rank)];
  const auto stands = [&](StrandId id) {
    const StrandState& strand = strands_[id];
    if (strand.is_sending || strand.cursor.done()) return false;
    const BoundOp bound = strand.cursor.current(program);
    return receives(bound.op->kind) && bound.peer == from && bound.op->channel == number;
  };
  const StrandId reader = channel(from, rank, number).reader;
  if (reader != kNoStrand) return stands(reader);
  for (StrandId id = first_strand_[static_cast<std::size_t>(rank)]; id < first_strand_[static_cast<std::size_t>(rank) + 1]; ++id)
    if (stands(id)) return true;
  return false;
}

Verdict Walk::run() {
  pass();
  if (!is_broken_) {
    check_blocked();
    check_unreceived();
    check_waits();
    check_remote();
  }
  if (!is_broken_ && verdict_.why.empty()) {
    if (request_.collective == Collective::barrier)
      check_barrier();
    else
      check_outputs();
  }
  verdict_.ok = verdict_.why.empty();
  verdict_.canonical = verdict_.ok && canonical_;
  verdict_.steps = steps_;
  return verdict_;
}

// Channels have one writer and one reader, so whoever goes first, the same ops run: walk each strand as far as it gets.
void Walk::pass() {
  bool has_moved = true;
  while (has_moved) {
    has_moved = false;
    for (StrandId id = 0; id < strands_.size(); ++id)
      while (try_step(id)) has_moved = true;
  }
}

bool Walk::try_step(StrandId id) {
  StrandState& strand = strands_[id];
  if (strand.is_sending || strand.cursor.done()) return false;
  const Program& program = programs_[static_cast<std::size_t>(strand.rank)];
  const BoundOp bound = strand.cursor.current(program);
  if (!is_well_bound(id, bound)) return false;
  if (!may_start(bound, program, Readiness{*this, strand.rank})) return false;
  strand.clock.tick();
  execute(id, bound);
  ++steps_;
  if (rules_.slots == 0 && sends(bound.op->kind))
    strand.is_sending = true;
  else
    finish_step(id);
  return true;
}

void Walk::finish_step(StrandId id) {
  StrandState& strand = strands_[id];
  strand.is_sending = false;
  ++strand.step;
  strand.cursor.advance(programs_[static_cast<std::size_t>(strand.rank)]);
}

bool Walk::is_well_bound(StrandId id, const BoundOp& bound) {
  const StrandState& strand = strands_[id];
  const Op& op = *bound.op;
  const auto wrong_peer = [&](std::int32_t peer) {
    if (peer >= 0 && peer < request_.ranks && peer != strand.rank) return false;
    report_at(id, bound, peer == strand.rank ? "names itself as its peer" : fmt::format("names rank {}, which does not exist", peer));
    is_broken_ = true;
    return true;
  };
  if (receives(op.kind) && wrong_peer(bound.peer)) return false;
  if (sends(op.kind) && wrong_peer(op.kind == OpKind::send ? bound.peer : bound.peer2)) return false;
  if ((op.kind == OpKind::signal || op.kind == OpKind::wait) && op.peer >= 0 && wrong_peer(bound.peer)) return false;
  if (is_switched(op.kind) && !is_good_group(id, bound)) return false;
  const bool is_remote = (op.flags & (kRemoteSrc | kRemoteDst)) != 0 && op.kind == OpKind::copy;
  if (is_remote && wrong_peer(bound.peer)) return false;
  const std::int32_t src_rank = is_remote && (op.flags & kRemoteSrc) != 0 ? bound.peer : strand.rank;
  const std::int32_t dst_rank = is_remote && (op.flags & kRemoteDst) != 0 ? bound.peer : strand.rank;
  if (op.kind == OpKind::signal || op.kind == OpKind::wait) return true;
  if (!refs_in_range(id, bound, op.src, src_rank, "reads") || !refs_in_range(id, bound, op.dst, dst_rank, "writes")) return false;
  if (op.kind != OpKind::reduce) return true;
  const Program& program = programs_[static_cast<std::size_t>(strand.rank)];
  for (std::uint32_t k = 0; k < op.more_count; ++k) {
    const Source& source = program.sources[op.more + k];
    if (source.peer >= 0 && wrong_peer(source.peer)) return false;
    if (!refs_in_range(id, bound, source.ref, source.peer >= 0 ? source.peer : strand.rank, "reads")) return false;
  }
  return true;
}

bool Walk::refs_in_range(StrandId id, const BoundOp& bound, const Ref& ref, std::int32_t rank, const char* what) {
  if (ref.count == 0) return true;
  const std::int64_t first = bound.chunk(ref);
  const std::int64_t chunks = memory_.chunks(ref.buffer);
  if (first >= 0 && first + ref.count <= chunks) return true;
  const std::string where = rank == strands_[id].rank ? "" : fmt::format(" of rank {}", rank);
  report_at(id, bound,
            ref.buffer >= kFirstUserBuffer ? fmt::format("{} buffer {}{}, which does not exist", what, ref.buffer, where)
                                           : fmt::format("{} chunk {}{}, but the buffer has {} chunks", what,
                                                         first < 0 ? first : first + ref.count - 1, where, chunks));
  is_broken_ = true;
  return false;
}

void Walk::report(std::int64_t step, std::int32_t rank, std::string why) {
  const bool is_earlier = verdict_.why.empty() || step < verdict_.step || (step == verdict_.step && rank < verdict_.rank);
  if (!is_earlier) return;
  verdict_.step = step;
  verdict_.rank = rank;
  verdict_.why = std::move(why);
}

std::string Walk::strand_text(StrandId id) const { return fmt::format("rank {} strand {}", strands_[id].rank, strands_[id].index); }

void Walk::report_at(StrandId id, const BoundOp& bound, std::string_view why) {
  const StrandState& strand = strands_[id];
  const std::string piece = rules_.pieces > 1 ? fmt::format(", piece {}", bound.piece) : "";
  report(static_cast<std::int64_t>(strand.step), strand.rank,
         fmt::format("{}, step {}{}: {} {}", strand_text(id), strand.step, piece, describe(bound), why));
}

}  // namespace peal::schedule
