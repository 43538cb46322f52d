// Ops that carry fp32 partial sums of narrow floats: a contribution is widened where it is read, a sum is rounded where it is finished.
// Only plans in pieces have them, and only through slots (the verifier refuses others).
#include <cstring>
#include <executor/execution.hpp>
#include <reduce/partial_sum.hpp>

namespace peal::executor {

using schedule::OpKind;

bool Execution::perform_wide(const BoundOp& bound, const Strand& strand) {
  return bound.op->kind == OpKind::send ? send_wide(bound, strand) : receive_wide(bound, strand);
}

std::byte* Execution::wide_at(const Ref& ref, std::uint64_t offset) const {
  if (!schedule::is_wide(ref.buffer)) return at(ref, offset);
  return operands_->scratch + binding_->wide_offset(ref.buffer) + offset * sizeof(float);
}

bool Execution::send_wide(const BoundOp& bound, const Strand& strand) {
  const schedule::Op& op = *bound.op;
  const std::uint32_t index = edge_index(bound.peer, op.channel, ranks_);
  Edge& e = edges_[index];
  const std::size_t bytes = elements(op.src, bound, strand) * sizeof(float);
  std::byte* room = e.sender->acquire(bytes);
  if (room == nullptr) return false;
  const std::int32_t chunk = bound.chunk(op.src);
  for (std::int32_t i = 0; i < op.src.count; ++i) {
    const schedule::Extent run = part(op.src, chunk + i, bound, strand);
    if (run.count == 0) continue;
    const std::byte* from = wide_at(op.src, run.offset);
    if (schedule::is_wide(op.src.buffer))
      std::memcpy(room, from, run.count * sizeof(float));
    else
      reduce::widen(operands_->type, room, {from, false, is_raw(op.src) ? &operands_->premul : nullptr}, run.count);
    room += run.count * sizeof(float);
  }
  e.sender->publish(bytes, tag_to_send(e, bound, strand));
  return note_sent(e, strand);
}

// recv_reduce and recv_reduce_send.
bool Execution::receive_wide(const BoundOp& bound, const Strand& strand) {
  const schedule::Op& op = *bound.op;
  Edge& in = edge(bound.peer, op.channel);
  const transport::Message* message = in.receiver->peek();
  if (message == nullptr) return false;
  const std::uint64_t count = elements(op.dst, bound, strand);
  const bool is_finished = !schedule::is_wide(op.dst.buffer);
  const std::size_t result = is_finished ? element_ : sizeof(float);
  const bool goes_on = schedule::sends(op.kind);
  const std::uint32_t out = goes_on ? edge_index(bound.peer2, op.channel, ranks_) : 0;
  std::byte* room = goes_on ? edges_[out].sender->acquire(count * result) : nullptr;
  if (goes_on && room == nullptr) return false;
  if (!accept(bound, strand, message->bytes, count * sizeof(float), message->tag)) return false;
  const bool stores = !goes_on || (op.flags & schedule::kStore) != 0;
  const int divisor = is_finished && operands_->averaged ? ranks_ : 1;
  const double* const factor = is_raw(op.src) ? &operands_->premul : nullptr;
  const std::int32_t dst_chunk = bound.chunk(op.dst);
  const std::int32_t src_chunk = bound.chunk(op.src);
  const std::byte* incoming = message->data;
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    const schedule::Extent d = part(op.dst, dst_chunk + i, bound, strand);
    if (d.count == 0) continue;
    const std::byte* src = wide_at(op.src, part(op.src, src_chunk + i, bound, strand).offset);
    std::byte* dst = stores ? wide_at(op.dst, d.offset) : nullptr;
    reduce::add_partial(operands_->type, operands_->op, goes_on ? room : dst, is_finished, {src, schedule::is_wide(op.src.buffer), factor},
                        incoming, d.count, divisor);
    if (goes_on && stores) std::memcpy(dst, room, d.count * result);
    incoming += d.count * sizeof(float);
    if (goes_on) room += d.count * result;
  }
  if (goes_on) {
    edges_[out].sender->publish(count * result, tag_to_send(edges_[out], bound, strand));
    in.receiver->forgo_timing();
    note_sent(edges_[out], strand);
  }
  in.receiver->release();
  return true;
}

}  // namespace peal::executor
