// Pieces of messages that stay in their sender's memory, ahead of their turn: where nothing else in the program has to do with the memory
// and the way, they are offered at once, and the receiver takes several with one system call.
#include <executor/execution.hpp>

namespace peal::executor {

using schedule::Op;
using schedule::OpKind;

namespace {

constexpr std::uint32_t kMostAhead = transport::kMostReadAtOnce - 1;  // beside the one at hand

/// Always the same chunks, of memory that is not laid out in elements of another size.
bool is_plain(const schedule::Ref& ref) { return ref.step[0] == 0 && ref.step[1] == 0 && !schedule::is_wide(ref.buffer); }

}  // namespace

bool Execution::is_apart(const Ref& ref, const Ref& other) const {
  if (other.count == 0) return true;
  const auto span_of = [&](const Ref& of) {
    const schedule::Extent first = binding_->chunk(of.buffer, of.first);
    const schedule::Extent last = binding_->chunk(of.buffer, of.first + of.count - 1);
    return std::pair(at(of, first.offset), at(of, last.offset + last.count));
  };
  const auto [begin, end] = span_of(ref);
  const auto [other_begin, other_end] = span_of(other);
  return end <= other_begin || other_end <= begin;
}

bool Execution::may_go_ahead(const Op& op, const Ref& ref) const {
  const schedule::Program& program = plan_->program;
  const bool is_send = op.kind == OpKind::send;
  if (ref.count != 1) return false;
  for (const Op& other : program.ops) {
    if (other.kind == OpKind::loop || other.more_count > 0 || !is_plain(other.src) || !is_plain(other.dst)) return false;
    if (&other == &op) continue;
    const bool is_same_way = other.channel == op.channel && (is_send ? schedule::sends(other.kind) && schedule::target(other) == op.peer
                                                                     : schedule::receives(other.kind) && other.peer == op.peer);
    if (is_same_way || !is_apart(ref, other.dst) || (!is_send && !is_apart(ref, other.src))) return false;
  }
  return true;
}

void Execution::offer_ahead(const BoundOp& bound, const Strand& strand, Edge& e) {
  if (!has_offered_ || e.late.is_spared() || bound.op->src.buffer != schedule::kInput || !receives() ||
      !may_go_ahead(*bound.op, bound.op->src))
    return;
  BoundOp later = bound;
  while (e.sent_ahead < kMostAhead && ++later.piece < binding_->pieces().count) {
    const schedule::Extent piece = part(bound.op->src, bound.op->src.first, later, strand);
    const std::size_t bytes = piece.count * element_;
    if (!refers(bound.op->src, e, bytes) || !send_some_way(later, strand, at(bound.op->src, piece.offset), bytes, nullptr)) return;
    ++e.sent_ahead;
  }
}

std::uint64_t Execution::bytes_behind(const BoundOp& bound, const Strand& strand) const {
  const Ref& dst = bound.op->dst;
  if (dst.count != 1 || (plan_->pieced && (bound.op->kind != OpKind::recv || !may_go_ahead(*bound.op, dst)))) return 0;
  const schedule::Extent whole = binding_->chunk(dst.buffer, bound.chunk(dst));
  const schedule::Extent here = part(dst, bound.chunk(dst), bound, strand);
  return (whole.offset + whole.count - here.offset - here.count) * element_;
}

}  // namespace peal::executor
