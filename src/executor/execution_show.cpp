// Messages that stay where they lie: in memory that both ends map.
#include <algorithm>
#include <executor/execution.hpp>
#include <reduce/copy.hpp>

namespace peal::executor {

using schedule::OpKind;

namespace {
constexpr std::size_t kAnswerTileBytes = 2 * 1024;  // of a sum that takes more than one pass: near in the caches for the second
}

bool Execution::may_answer(const schedule::Op& op) const {
  return operands_->answers && (op.flags & schedule::kFinish) != 0 && op.dst.count == 1;
}

// dst = src (+) the message, and the same where its sender wants the answer.
void Execution::combine_and_answer(const BoundOp& bound, std::byte* dst, const std::byte* src, const transport::Message& message,
                                   std::uint64_t count, bool raw, bool finish) {
  if (!raw && !finish) {  // one pass
    operands_->combine_twice(dst, message.answer, src, message.data, count);
  } else {
    const std::uint64_t tile = kAnswerTileBytes / element_;
    for (std::uint64_t done = 0; done < count; done += tile) {
      const std::uint64_t n = std::min(tile, count - done);
      const std::size_t at = done * element_;
      combine(dst + at, src + at, message.data + at, n, raw, finish, operands_->combine_cached);
      reduce::copy(message.answer + at, dst + at, n * element_, reduce::Stores::cached);
    }
  }
  answers_.push_back({bound.peer, dst, message.answer, count * element_});
}

// Where in the peer's memory the same bytes lie already; null: nowhere. Answers go back in the order in which they were made; one that was
// passed by is shown from here.
std::byte* Execution::take_answer(int peer, const std::byte* data, std::size_t bytes) {
  const auto is_it = [&](const Answer& each) { return each.peer == peer && each.mine == data && each.bytes == bytes; };
  const auto found = std::find_if(answers_.begin() + static_cast<std::ptrdiff_t>(next_answer_), answers_.end(), is_it);
  if (found == answers_.end()) return nullptr;
  next_answer_ = static_cast<std::size_t>(found - answers_.begin()) + 1;
  return found->place;
}

// True where the message need not be copied to be sent.
bool Execution::stays(const BoundOp& bound, transport::Sender& to, const std::byte* data, std::size_t bytes) const {
  const std::uint16_t buffer = bound.op->src.buffer;
  const std::uint64_t whole = buffer >= schedule::kFirstUserBuffer ? user_buffer(buffer).bytes : bytes;
  return whole >= operands_->least_shown && to.can_show(data, bytes);
}

// Where the sum that a send goes into is wanted, if the peer can write there; else null.
std::byte* Execution::place_for_answer(const BoundOp& bound, const Strand& strand, transport::Sender& to) {
  const schedule::Op& op = *bound.op;
  if (!operands_->answers || op.kind != OpKind::send || op.dst.count != 1) return nullptr;
  const schedule::Extent d = part(op.dst, bound.chunk(op.dst), bound, strand);
  std::byte* const place = at(op.dst, d.offset);
  return to.can_show(place, d.count * element_) ? place : nullptr;
}

// What the peer holds already is shown to it there.
bool Execution::show(int peer, transport::Sender& to, const std::byte* data, std::size_t bytes, const transport::Tag* tag,
                     std::byte* answer) {
  if (!to.is_ready()) return false;  // to be tried again, with its answer
  if (const std::byte* place = take_answer(peer, data, bytes)) return to.show_theirs(place, bytes, tag);
  return to.show(data, bytes, tag, answer);
}

// True where a message may go as a reference.
bool Execution::refers(const Ref& ref, const Edge& e, std::size_t bytes) const {
  if (!refers_ || bytes < operands_->least_referenced || !e.sender->has_references()) return false;
  return ref.buffer < schedule::kFirstUserBuffer || user_buffer(ref.buffer).bytes <= operands_->most_referenced;
}

// A fused op whose result is stored where the next rank can read it.
bool Execution::can_show_result(const BoundOp& bound, const Strand& strand) {
  const schedule::Op& op = *bound.op;
  if ((!shows_ && !refers_) || (op.flags & schedule::kStore) == 0 || op.dst.count != 1) return false;
  const schedule::Extent d = part(op.dst, bound.chunk(op.dst), bound, strand);
  const std::size_t bytes = d.count * element_;
  Edge& out = edge(bound.peer2, op.channel);
  return (shows_ && bytes >= operands_->least_shown && out.sender->can_show(at(op.dst, d.offset), bytes)) || refers(op.dst, out, bytes);
}

// Such an op needs no slot: it receives, and shows what it has stored.
bool Execution::recv_and_show(const BoundOp& bound, const Strand& strand) {
  const schedule::Op& op = *bound.op;
  if (op.kind == OpKind::recv_reduce_send ? !do_recv_reduce(bound, strand) : !do_recv(bound, strand)) return false;
  Edge& out = edge(bound.peer2, op.channel);
  const schedule::Extent d = part(op.dst, bound.chunk(op.dst), bound, strand);
  std::byte* const data = at(op.dst, d.offset);
  const std::size_t bytes = d.count * element_;
  const transport::Tag* const tag = tag_to_send(out, bound, strand);
  const bool is_shown = shows_ && out.sender->can_show(data, bytes);
  if (is_shown ? !show(bound.peer2, *out.sender, data, bytes, tag) : !out.sender->send_reference(data, bytes, tag))
    fail_call({ErrorCode::internal, "a channel that was ready has no room for a message", -1, bound.peer2, {}});
  return !failed_ && note_sent(out, strand);
}

}  // namespace peal::executor
