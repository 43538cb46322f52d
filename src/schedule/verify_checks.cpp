// What has to hold when the walk is over.
#include <fmt/format.h>

#include "verify_walk.hpp"

namespace peal::schedule {

namespace {

std::string ref_text(const BoundOp& bound, const Ref& ref) {
  const std::string name = ref.buffer == kInput     ? "input"
                           : ref.buffer == kOutput  ? "output"
                           : ref.buffer == kScratch ? "scratch"
                           : is_wide(ref.buffer)    ? (ref.buffer == kWideOutput ? "wide_output" : "wide_scratch")
                                                    : fmt::format("buffer{}", ref.buffer);
  const std::int32_t first = bound.chunk(ref);
  return ref.count == 1 ? fmt::format("{}[{}]", name, first) : fmt::format("{}[{}..{}]", name, first, first + ref.count - 1);
}

}  // namespace

std::string describe(const BoundOp& bound) {
  const Op& op = *bound.op;
  std::string out(name_of(op.kind));
  if (receives(op.kind)) out += fmt::format(" from {}", bound.peer);
  if (sends(op.kind)) out += fmt::format(" to {}", op.kind == OpKind::send ? bound.peer : bound.peer2);
  if (op.kind == OpKind::signal || op.kind == OpKind::wait) {
    out += fmt::format(" event {}", op.event);
    if (op.peer >= 0) out += fmt::format(" {} {}", op.kind == OpKind::wait ? "from" : "of", bound.peer);
    return out;
  }
  if (op.channel != 0) out += fmt::format(" (channel {})", op.channel);
  if (op.src.count != 0 && op.kind != OpKind::recv && op.kind != OpKind::recv_send) out += " of " + ref_text(bound, op.src);
  if (op.dst.count != 0 && op.kind != OpKind::send) out += " into " + ref_text(bound, op.dst);
  return out;
}

std::string Walk::blocked_why(const StrandState& strand, const BoundOp& bound) {
  const Op& op = *bound.op;
  const Program& program = programs_[static_cast<std::size_t>(strand.rank)];
  if (op.kind == OpKind::wait) {
    const Readiness state{*this, strand.rank};
    return fmt::format("waits for ever: {} of {} signals come", state.count(op.peer < 0 ? -1 : bound.peer, op.event),
                       bound.threshold(program));
  }
  if (is_switched(op.kind))
    return fmt::format("waits for ever: rank {} of its group does not come to it", missing_member(strand.rank, bound));
  const Readiness state{*this, strand.rank};
  if (receives(op.kind) && !strand.is_sending && !state.can_receive(bound.peer, op.channel))
    return fmt::format("waits for ever: no message from rank {} comes", bound.peer);
  const std::int32_t to = op.kind == OpKind::send ? bound.peer : bound.peer2;
  return rules_.slots == 0 ? fmt::format("waits for ever: rank {} does not come to its receive (no slots)", to)
                           : fmt::format("waits for ever: all {} slots to rank {} stay full", rules_.slots, to);
}

void Walk::check_blocked() {
  for (StrandId id = 0; id < strands_.size(); ++id) {
    const StrandState& strand = strands_[id];
    if (strand.cursor.done()) continue;
    const BoundOp bound = strand.cursor.current(programs_[static_cast<std::size_t>(strand.rank)]);
    report_at(id, bound, blocked_why(strand, bound));
  }
}

void Walk::check_unreceived() {
  for (const auto& [key, way] : channels_) {
    if (way.queue.empty()) continue;
    const StrandState& sender = strands_[way.writer];
    const auto to = static_cast<std::int32_t>(key >> 8 & 0xfffffff);
    report(way.queue.front().step, sender.rank,
           fmt::format("{}, step {}: its message to rank {} is never received", strand_text(way.writer), way.queue.front().step, to));
  }
}

// Where several strands signal one event, a wait orders its strand after particular signals only if no others can take their place.
void Walk::check_waits() {
  for (const Waited& wait : waits_) {
    const Event& event = events_[wait.event];
    if (!event.has_many_signallers) continue;
    std::int64_t possible = 0;
    for (const Stamp& signal : event.signals)
      if (!signal.includes(wait.strand, wait.time)) ++possible;
    if (possible == wait.threshold) continue;
    report(
        wait.step, strands_[wait.strand].rank,
        fmt::format("{}, step {}: waits for {} signals of event {}, but {} signals of several strands may come before it goes on, so it is "
                    "not known which ones it waited for",
                    strand_text(wait.strand), wait.step, wait.threshold, wait.event & 0xffff, possible));
  }
}

// A rank that returns hands its memory back to the caller: whoever touched it from afar must be done by then, and it must know.
void Walk::check_remote() {
  for (const RemoteAccess& access : remote_) {
    bool is_known = false;
    for (StrandId s = first_strand_[static_cast<std::size_t>(access.owner)]; s < first_strand_[static_cast<std::size_t>(access.owner) + 1];
         ++s)
      is_known = is_known || strands_[s].clock.of(access.strand) >= access.time;
    if (is_known) continue;
    report(access.time - 2, strands_[access.strand].rank,
           fmt::format("{}, step {}: touches memory of rank {}, which may have left the call by then", strand_text(access.strand),
                       access.time - 2, access.owner));
  }
}

void Walk::check_outputs() {
  const TreeId order = sums_ ? trees_.canonical() : 0;
  for (std::int32_t r = 0; r < request_.ranks; ++r) {
    if (!memory_.has_output(r)) continue;
    for (std::int32_t c = 0; c < memory_.chunks(kOutput); ++c) {
      const Memory::Promise promise = memory_.promise(r, c);
      for (std::int32_t p = 0; p < rules_.pieces; ++p) {
        const Cell& cell = memory_.cell(memory_.place(r, kOutput, c), p);
        const Value& value = cell.value;
        std::string why;
        if (!value.is_defined())
          why = "is never written";
        else if (value.chunk != promise.chunk || value.piece != p)
          why = fmt::format("holds chunk {} (piece {}) instead of chunk {} (piece {})", value.chunk, value.piece, promise.chunk, p);
        else if (!sums_ && value.tree != trees_.raw(promise.from))
          why = fmt::format("holds the data of {} instead of rank {}", trees_.text(value.tree), promise.from);
        else if (sums_ && !trees_.is_complete(value.tree))
          why = fmt::format("holds only the contribution of {}", trees_.text(value.tree));
        else if (sums_ && trees_.is_raw(value.tree))
          why = "holds the input, which premul_sum never scaled";
        else if (sums_ && !trees_.is_finished(value.tree) && request_.ranks > 1)
          why = "holds the sum, which avg never divided";
        if (why.empty()) {
          if (sums_) {
            const TreeId undivided = request_.ranks > 1 ? trees_.finish(order) : value.tree;
            canonical_ = canonical_ && value.tree == undivided;
          }
          continue;
        }
        const AccessLog::Access writer = cell.log.last_write();
        const std::int64_t step =
            writer.strand == kNoStrand ? static_cast<std::int64_t>(steps_) : static_cast<std::int64_t>(writer.time) - 2;
        const std::string by =
            writer.strand == kNoStrand ? "" : fmt::format(", written by strand {} at its step {},", strands_[writer.strand].index, step);
        report(step, r, fmt::format("rank {}: in the end output[{}]{} {}", r, c, by, why));
      }
    }
  }
}

void Walk::check_barrier() {
  const auto n = static_cast<std::size_t>(request_.ranks);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t q = 0; q < n; ++q) {
      bool knows = q == r;
      for (StrandId mine = first_strand_[r]; mine < first_strand_[r + 1] && !knows; ++mine)
        for (StrandId other = first_strand_[q]; other < first_strand_[q + 1] && !knows; ++other) knows = strands_[mine].clock.of(other) > 0;
      if (!knows)
        report(static_cast<std::int64_t>(steps_), static_cast<std::int32_t>(r),
               fmt::format("rank {} leaves the barrier although rank {} may not have come", r, q));
    }
  }
}

}  // namespace peal::schedule
