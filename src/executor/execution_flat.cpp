// The short way through a flat program: the same ops, in the same order, with nothing left to look up.
#include <base/names.hpp>
#include <cstring>
#include <executor/execution.hpp>
#include <reduce/copy.hpp>
#include <reduce/scale.hpp>

namespace peal::executor {

using schedule::OpKind;

bool Execution::progress_flat() {
  bool moved = false;
  const FlatOp* ops = flat_->ops.data();
  for (std::size_t s = 0; s < flat_at_.size(); ++s) {
    const std::uint32_t end = flat_->begin[s + 1];
    std::uint32_t at = flat_at_[s];
    if (at == end) continue;
    const std::uint32_t before = at;
    while (at != end && do_flat(ops[at])) {
      if (log_ != nullptr) [[unlikely]]
        log_->push_back({static_cast<std::uint32_t>(s), ops[at].op, {ops[at].iteration[0], ops[at].iteration[1]}, 0});
      ++at;
    }
    flat_at_[s] = at;
    moved = moved || at != before;
    if (at == end) --open_strands_;
    if (failed_) return moved;
  }
  return moved;
}

bool Execution::do_flat(const FlatOp& op) {
  switch (op.kind) {
    case OpKind::send: return flat_send(op);
    case OpKind::recv: return flat_recv(op);
    case OpKind::recv_reduce: return flat_recv_reduce(op);
    case OpKind::copy: flat_copy(op); return true;
    case OpKind::signal: ++signals_[op.event]; return true;
    default: return signals_[op.event] >= op.threshold;  // wait
  }
}

bool Execution::flat_send(const FlatOp& op) {
  Edge& e = edge(op.peer, op.channel);
  if (e.sender == nullptr && sender(op.peer, op.channel) == nullptr) return false;
  const bool first = e.sent_in != call_id_;
  const transport::Tag* tag = first ? &tag_ : nullptr;
  const std::size_t bytes = op.count * element_;
  const std::byte* data = op.count == 0 ? nullptr : base_of(op.src_buffer) + op.src;
  if (operands_->scaled && op.src_buffer == schedule::kInput) {
    std::byte* room = e.sender->acquire(bytes);
    if (room == nullptr) return false;
    reduce::scale(operands_->type, room, data, op.count, operands_->premul);
    e.sender->publish(bytes, tag);
  } else if (!e.sender->send(data, bytes, tag)) {
    return false;
  }
  if (first) {
    e.sent_in = call_id_;
    used_senders_.push_back(static_cast<std::uint32_t>(&e - edges_.data()));
  }
  return true;
}

// A flat program is a collective's: the first message of an edge carries the tag of the call, the others none.
bool Execution::accept_flat(const FlatOp& op, Edge& e, std::size_t got, const transport::Tag* tag) {
  const bool marked = e.received_in != call_id_;
  e.received_in = call_id_;
  if (got == op.count * element_ && (marked ? tag != nullptr && *tag == tag_ : tag == nullptr)) [[likely]]
    return true;
  reject(op.peer, marked, got, op.count * element_, tag, call_);
  return false;
}

bool Execution::flat_recv(const FlatOp& op) {
  Edge& e = edge(op.peer, op.channel);
  if (e.receiver == nullptr && receiver(op.peer, op.channel) == nullptr) return false;
  std::size_t got = 0;
  transport::Tag tag;
  bool has_tag = false;
  std::byte* data = op.count == 0 ? nullptr : base_of(op.dst_buffer) + op.dst;
  if (!e.receiver->receive(data, op.count * element_, &got, &tag, &has_tag)) return false;
  return accept_flat(op, e, got, has_tag ? &tag : nullptr);
}

bool Execution::flat_recv_reduce(const FlatOp& op) {
  Edge& e = edge(op.peer, op.channel);
  if (e.receiver == nullptr && receiver(op.peer, op.channel) == nullptr) return false;
  const transport::Message* message = e.receiver->peek();
  if (message == nullptr) return false;
  if (!accept_flat(op, e, message->bytes, message->tag)) return false;
  const bool last = (op.flags & schedule::kFinish) != 0;
  const bool finish = last && operands_->averaged;
  if (op.count > 0)
    combine(base_of(op.dst_buffer) + op.dst, base_of(op.src_buffer) + op.src, message->data, op.count,
            operands_->scaled && op.src_buffer == schedule::kInput, finish, last && !finish ? operands_->combine_last : operands_->combine_cached);
  e.receiver->release();
  return true;
}

void Execution::flat_copy(const FlatOp& op) {
  if (op.count == 0) return;
  std::byte* dst = base_of(op.dst_buffer) + op.dst;
  const std::byte* src = base_of(op.src_buffer) + op.src;
  if (operands_->scaled && op.src_buffer == schedule::kInput) reduce::scale(operands_->type, dst, src, op.count, operands_->premul);
  else if (dst != src) reduce::copy(dst, src, op.count * element_, operands_->stores);
  if (operands_->averaged && (op.flags & schedule::kFinish) != 0) reduce::divide(operands_->type, dst, dst, op.count, ranks_);
}

}  // namespace peal::executor
