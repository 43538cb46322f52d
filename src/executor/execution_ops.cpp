// What each op does when it may start: the general way, for programs of any length in any number of pieces.
#include <algorithm>
#include <base/copy.hpp>
#include <base/names.hpp>
#include <cstring>
#include <executor/execution.hpp>
#include <reduce/copy.hpp>
#include <reduce/scale.hpp>
#include <utility>

namespace peal::executor {

using schedule::OpKind;

namespace {
constexpr std::int64_t kLongestWaitForRoomNs = 200'000;  // in which ranks that share a core take their turns
}

bool Execution::perform(const BoundOp& bound, Strand& strand) {
  if (bound.op->wire == schedule::Wire::fp32) return perform_wide(bound, strand);
  switch (bound.op->kind) {
    case OpKind::send: return do_send(bound, strand);
    case OpKind::recv: return do_recv(bound, strand);
    case OpKind::recv_reduce: return do_recv_reduce(bound, strand);
    case OpKind::recv_send:
    case OpKind::recv_reduce_send: return do_recv_and_send(bound, strand);
    case OpKind::copy:
      if (!std::exchange(strand.is_copied, false)) do_copy(bound);
      return true;
    case OpKind::reduce: do_reduce(bound); return true;
    case OpKind::signal: ++signals_[bound.op->event]; return true;
    case OpKind::wait: return true;
    default:
      fail_call({ErrorCode::unsupported, fmt::format("the executor cannot do {}", schedule::name_of(bound.op->kind)), -1, -1, {}});
      return false;
  }
}

schedule::Extent Execution::part(const Ref& ref, std::int32_t chunk, const BoundOp& bound, const Strand& strand) const {
  const schedule::Extent whole = binding_->chunk(ref.buffer, chunk);
  if (plan_->pieced) return binding_->pieces().of(whole, bound.piece);
  const std::uint64_t most = plan_->message_bytes_of(whole.count * element_) / element_;
  const std::uint64_t begin = std::min(whole.count, strand.message * most);
  return {whole.offset + begin, std::min(most, whole.count - begin)};
}

std::uint64_t Execution::elements(const Ref& ref, const BoundOp& bound, const Strand& strand) const {
  const std::int32_t first = bound.chunk(ref);
  std::uint64_t sum = 0;
  for (std::int32_t i = 0; i < ref.count; ++i) sum += part(ref, first + i, bound, strand).count;
  return sum;
}

std::byte* Execution::base_of(std::uint16_t buffer) const {
  switch (buffer) {
    case schedule::kInput: return const_cast<std::byte*>(operands_->input);
    case schedule::kOutput: return operands_->output;
    case schedule::kScratch: return operands_->scratch;
    default: return user_buffer(buffer).data;
  }
}

template <class F>
void Execution::each_run(const Ref& ref, const BoundOp& bound, const Strand& strand, F&& f) const {
  if (ref.count == 0) {  // a message without data, as in a barrier
    f(nullptr, 0);
    return;
  }
  const std::int32_t first = bound.chunk(ref);
  if (ref.count == 1) {
    const schedule::Extent e = part(ref, first, bound, strand);
    f(at(ref, e.offset), e.count);
    return;
  }
  if (binding_->is_contiguous(ref.buffer)) {
    const schedule::Extent begin = binding_->chunk(ref.buffer, first);
    const schedule::Extent last = binding_->chunk(ref.buffer, first + ref.count - 1);
    f(at(ref, begin.offset), last.offset + last.count - begin.offset);
    return;
  }
  for (std::int32_t i = 0; i < ref.count; ++i) {
    const schedule::Extent e = part(ref, first + i, bound, strand);
    f(at(ref, e.offset), e.count);
  }
}

void Execution::find_runs(const Ref& ref, const BoundOp& bound, const Strand& strand) {
  runs_.clear();
  each_run(ref, bound, strand, [&](std::byte* p, std::uint64_t n) {
    if (n > 0) runs_.push_back({p, n * element_});  // else there need not be any memory
  });
}

// Collectives mark the first message of every edge in a call; point to point marks the first message of every send, because the
// other side may receive several sends of one group in several calls.
const transport::Tag* Execution::tag_to_send(Edge& e, const BoundOp& bound, const Strand& strand) {
  if (call_.collective != Collective::send_recv) {
    if (e.sent_in == call_id_) return nullptr;
    if (!is_counted(bound)) return &tag_;
    edge_tag_ = counted_tag(bound.op->src, bound);
    return &edge_tag_;
  }
  if (strand.message != 0) return nullptr;
  edge_tag_ = pair_tag(user_buffer(bound.op->src.buffer), e.sent_pairs + 1);
  return &edge_tag_;
}

// After the message with that tag has gone out, and not before: a send that fails is tried again.
bool Execution::note_sent(Edge& e, const Strand& strand) {
  if (e.sent_in != call_id_) {
    e.sent_in = call_id_;
    used_senders_.push_back(static_cast<std::uint32_t>(&e - edges_.data()));
  }
  if (call_.collective == Collective::send_recv && strand.message == 0) ++e.sent_pairs;
  return true;
}

// Where each transfer is cut by its own length, the ends of an edge may differ in the number of full messages: then only the count tells.
// Of transfers of one message the length does.
bool Execution::is_counted(const BoundOp& bound) const { return plan_->is_cut_by_transfer && messages_of(bound) > 1; }

transport::Tag Execution::counted_tag(const Ref& ref, const BoundOp& bound) const {
  transport::Tag tag = tag_;
  tag.words[0] = binding_->chunk(ref.buffer, bound.chunk(ref)).count;
  return tag;
}

// The first message of an edge in a call must carry the tag of this call; later ones none; and lengths must be as planned.
bool Execution::accept(const BoundOp& bound, const Strand& strand, std::size_t got, std::size_t expected, const transport::Tag* tag) {
  const int peer = bound.peer;
  Edge& e = edge(peer, bound.op->channel);
  const bool pair = call_.collective == Collective::send_recv;
  const bool marked = pair ? strand.message == 0 : e.received_in != call_id_;
  e.received_in = call_id_;
  CallSignature mine = call_;
  transport::Tag want = tag_;
  if (pair && marked) {
    want = pair_tag(user_buffer(bound.op->dst.buffer), ++e.received_pairs);
    mine = from_tag(want);
  } else if (marked && is_counted(bound)) {
    want = counted_tag(bound.op->dst, bound);
    mine = from_tag(want);
  }
  if (got == expected && (marked ? tag != nullptr && (*tag == want || accept_other_mark(*tag, want)) : tag == nullptr)) return true;

  reject(peer, marked, got, expected, tag, mine);
  return false;
}

void Execution::reject(int peer, bool is_marked, std::size_t got, std::size_t expected, const transport::Tag* tag,
                       const CallSignature& mine) {
  fail_call(mismatch_of_message(mine, peer, is_marked, got, expected, tag));
}

void Execution::fail_call(Failure failure) {
  failed_ = true;
  failure_ = std::move(failure);
}

bool Execution::send_large(std::uint32_t edge, const std::byte* data, std::size_t bytes, const transport::Tag* tag) {
  transport::Sender& to = *edges_[edge].sender;
  return to.fills_shared_memory() ? send_filled(fill_of(edge, bytes), to, data, bytes, tag, kept_) : to.send(data, bytes, tag);
}

// One of a row of sends of the same bytes, which are copied once where the channels allow it. A room that does not come free for long may
// depend on the sends after this one: then each copies for itself.
bool Execution::send_once(const void* row, bool is_last, std::uint32_t edge, const std::byte* data, std::size_t bytes,
                          const transport::Tag* tag) {
  transport::Sender& to = *edges_[edge].sender;
  auto copied = std::find_if(copied_.begin(), copied_.end(), [&](const Copied& each) { return each.row == row; });
  const void* const area = to.shared_area();
  if (copied == copied_.end()) {
    if (area == nullptr || is_last) return send_large(edge, data, bytes, tag);
    copied = copied_.insert(copied_.end(), {row});
  }
  if (copied->keeper == nullptr && !is_last && area != nullptr) {
    if (std::byte* const room = to.acquire_shared(); room != nullptr) {
      FillChoice* const fill = with_receives(fills_.find_shared(edge));
      begin_fill(fill, bytes, tag != nullptr, kept_.work());
      kept_.copy(room, data, bytes, stores_by(fill));
      copied->keeper = &to;
      copied->room = room;
    } else if (const std::int64_t now = now_ns(); copied->since_ns == 0 || now - copied->since_ns < kLongestWaitForRoomNs) {
      if (copied->since_ns == 0) copied->since_ns = now;
      return false;
    }
  }
  const bool is_shared = copied->keeper != nullptr && area == copied->keeper->shared_area();
  const bool went = is_shared ? to.send_shared(copied->room, bytes, tag) : send_large(edge, data, bytes, tag);
  if (went && is_shared && copied->keeper == &to) end_fill(fills_.find_shared(edge), bytes, to);
  if (went && is_last) end_row(row);
  return went;
}

// The next row copies anew.
void Execution::end_row(const void* row) {
  const auto copied = std::find_if(copied_.begin(), copied_.end(), [&](const Copied& each) { return each.row == row; });
  if (copied == copied_.end()) return;
  if (copied->keeper != nullptr) copied->keeper->end_shared(copied->room);
  copied_.erase(copied);
}

// One run of memory as one message. It may be the last of a row of which others went by send_once, though it goes another way itself.
bool Execution::send_run(const BoundOp& bound, const Strand& strand, const std::byte* data, std::size_t bytes, const transport::Tag* tag) {
  if (!send_some_way(bound, strand, data, bytes, tag)) return false;
  if (!copied_.empty() && strand.cursor.same_sends(plan_->program).after == 0) end_row(&strand);
  return true;
}

bool Execution::send_some_way(const BoundOp& bound, const Strand& strand, const std::byte* data, std::size_t bytes,
                              const transport::Tag* tag) {
  const std::uint32_t edge = edge_index(bound.peer, bound.op->channel, ranks_);
  transport::Sender& to = *edges_[edge].sender;
  if (shows_ && stays(bound, to, data, bytes)) return show(bound.peer, to, data, bytes, tag, place_for_answer(bound, strand, to));
  if (!refers(bound.op->src, edges_[edge], bytes)) return copy_some_way(bound, strand, edge, data, bytes, tag);
  LateReceiver& late = edges_[edge].late;
  const bool is_copied = late.is_spared();
  const bool went =
      is_copied ? copy_some_way(bound, strand, edge, data, bytes, tag) : to.send_reference(data, bytes, tag, has_time_to_help());
  if (went) is_copied ? late.note_copied() : late.note_referenced();
  has_offered_ |= went && !is_copied;
  return went;
}

bool Execution::copy_some_way(const BoundOp& bound, const Strand& strand, std::uint32_t edge, const std::byte* data, std::size_t bytes,
                              const transport::Tag* tag) {
  if (bytes < fills_.least_bytes()) return edges_[edge].sender->send(data, bytes, tag);
  const schedule::SameSends same = strand.cursor.same_sends(plan_->program);
  if (bytes < schedule::kLeastSharedBytes || !same.has_others() || (!plan_->pieced && messages_of(bound) > 1))
    return send_large(edge, data, bytes, tag);
  return send_once(&strand, same.after == 0, edge, data, bytes, tag);
}

// Where a copy keeps what this op sends, if it follows in the same strand, with nothing but sends of the same in between. Both may be done
// in one pass: the copy writes what its own strand does not read until then, and no other strand may.
std::byte* Execution::place_beside(const BoundOp& bound, const Strand& strand, const std::byte* data, std::size_t bytes) const {
  constexpr std::size_t kWorthIt = 32 * 1024;
  if (strand.is_copied || bytes < kWorthIt || !plan_->pieced) return nullptr;
  const std::vector<schedule::Op>& ops = plan_->program.ops;
  const std::uint32_t at_hand = strand.cursor.position();
  std::uint32_t next = strand.cursor.after(at_hand);
  if (next > at_hand && ops[next].kind == OpKind::end_loop) next = strand.cursor.after(next);
  const schedule::Op& copy = ops[next];
  const Ref& sent = bound.op->src;
  if (next <= at_hand || copy.kind != OpKind::copy || (copy.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0) return nullptr;
  const auto is_fixed = [](const Ref& ref) { return ref.count == 1 && ref.step[0] == 0 && ref.step[1] == 0; };
  if (copy.src != sent || !is_fixed(sent) || !is_fixed(copy.dst)) return nullptr;
  const schedule::Extent d = part(copy.dst, copy.dst.first, bound, strand);
  std::byte* const place = at(copy.dst, d.offset);
  return d.count * element_ == bytes && place != data ? place : nullptr;
}

bool Execution::do_send(const BoundOp& bound, Strand& strand) {
  const schedule::Op& op = *bound.op;
  Edge& e = edge(bound.peer, op.channel);
  transport::Sender& to = *e.sender;
  if (e.sent_ahead > 0) {
    --e.sent_ahead;
    return true;
  }
  const bool raw = is_raw(op.src);
  if (op.src.count <= 1 || binding_->is_contiguous(op.src.buffer)) {
    std::byte* data = nullptr;
    std::uint64_t count = 0;
    each_run(op.src, bound, strand, [&](std::byte* p, std::uint64_t n) {
      data = p;
      count = n;
    });
    const std::size_t bytes = count * element_;
    if (!raw) {
      std::byte* const beside = place_beside(bound, strand, data, bytes);
      kept_ = {beside, operands_->stores, bytes < least_in_blocks_ ? reduce::Both::at_once : reduce::Both::in_blocks};
      const bool went = send_run(bound, strand, data, bytes, tag_to_send(e, bound, strand)) && note_sent(e, strand);
      strand.is_copied |= kept_.place != beside;
      kept_ = {};
      if (went && refers_ && plan_->pieced) offer_ahead(bound, strand, e);
      return went;
    }
    std::byte* room = to.acquire(bytes);
    if (room == nullptr) return false;
    reduce::scale(operands_->type, room, data, count, operands_->premul);
    to.publish(bytes, tag_to_send(e, bound, strand));
    return note_sent(e, strand);
  }
  const std::size_t bytes = elements(op.src, bound, strand) * element_;
  std::byte* room = to.acquire(bytes);
  if (room == nullptr) return false;
  if (raw) {
    each_run(op.src, bound, strand, [&](const std::byte* p, std::uint64_t n) {
      reduce::scale(operands_->type, room, p, n, operands_->premul);
      room += n * element_;
    });
    to.publish(bytes, tag_to_send(e, bound, strand));
  } else {
    find_runs(op.src, bound, strand);
    to.publish_runs(room, runs_, bytes, tag_to_send(e, bound, strand));
  }
  return note_sent(e, strand);
}

// A long message in a slot, past the caches or in lanes; other messages the receiver stores where they belong.
bool Execution::is_taken_out_here(const BoundOp& bound, const Strand& strand, const transport::Receiver& from) const {
  const bool is_streamed = operands_->stores == reduce::Stores::streaming;
  if (!is_streamed && operands_->reads != reduce::Reads::in_lanes) return false;
  const Ref& dst = bound.op->dst;
  if (dst.buffer == schedule::kScratch || !from.reads_shared_memory() || plan_->protocol == schedule::Protocol::direct_read) return false;
  return is_streamed || (!plan_->is_cut_by_transfer && elements(dst, bound, strand) * element_ >= reduce::kLeastInLanes);
}

bool Execution::do_recv(const BoundOp& bound, const Strand& strand) {
  const schedule::Op& op = *bound.op;
  transport::Receiver* from = receiver(edge_index(bound.peer, op.channel, ranks_));
  if (from == nullptr) return false;
  if (const schedule::Extent place = may_hold(op.flags, *from) ? part(op.dst, bound.chunk(op.dst), bound, strand) : schedule::Extent{};
      place.count > 0) {
    const transport::Message* message = from->peek();
    if (message == nullptr) return false;
    if (!accept(bound, strand, message->bytes, place.count * element_, message->tag)) return false;
    held_.push_back({at(op.dst, place.offset), message->data, from});
    return true;
  }
  if (!is_taken_out_here(bound, strand, *from) && (op.dst.count <= 1 || binding_->is_contiguous(op.dst.buffer))) {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    each_run(op.dst, bound, strand, [&](std::byte* p, std::uint64_t n) {
      data = p;
      bytes = n * element_;
    });
    if ((plan_->least_referenced > 0 || operands_->least_referenced > 0) && from->has_message()) from->expect(bytes_behind(bound, strand));
    if (!from->receive(data, bytes, &arrived_.bytes, &arrived_.tag, &arrived_.has_tag)) return false;
    return accept(bound, strand, arrived_.bytes, bytes, arrived_.has_tag ? &arrived_.tag : nullptr);
  }
  if (!from->reads_shared_memory()) {
    find_runs(op.dst, bound, strand);
    if (!from->receive_runs(runs_, &arrived_.bytes, &arrived_.tag, &arrived_.has_tag)) return false;
    return accept(bound, strand, arrived_.bytes, transport::bytes_of(runs_), arrived_.has_tag ? &arrived_.tag : nullptr);
  }
  const transport::Message* message = from->peek();
  if (message == nullptr) return false;
  if (!accept(bound, strand, message->bytes, elements(op.dst, bound, strand) * element_, message->tag)) return false;
  std::size_t offset = 0;
  each_run(op.dst, bound, strand, [&](std::byte* p, std::uint64_t n) {
    const std::size_t bytes = n * element_;
    if (p != message->data + offset) reduce::copy(p, message->data + offset, bytes, operands_->stores, operands_->reads);
    offset += bytes;
  });
  from->release();
  return !failed_;
}

// dst = src (+) incoming, with the scaling before and after that the operator asks for. dst may equal src.
void Execution::combine(std::byte* dst, const std::byte* src, const std::byte* incoming, std::uint64_t count, bool raw, bool finish,
                        reduce::CombineFn how) const {
  if (raw) {
    reduce::scale(operands_->type, dst, src, count, operands_->premul);
    src = dst;
  }
  how(dst, src, incoming, count);
  if (finish) reduce::divide(operands_->type, dst, dst, count, ranks_);
}

// Where a reduction that reads a reference may have it copied to: over the place of its result, unless what is added lies there. One buffer
// less passes through the caches. Null: nowhere.
std::byte* Execution::place_of_sum(const BoundOp& bound, const Strand& strand) const {
  const schedule::Op& op = *bound.op;
  if (op.dst.count != 1 || is_raw(op.src)) return nullptr;
  std::byte* const dst = at(op.dst, part(op.dst, bound.chunk(op.dst), bound, strand).offset);
  return dst == at(op.src, part(op.src, bound.chunk(op.src), bound, strand).offset) ? nullptr : dst;
}

bool Execution::do_recv_reduce(const BoundOp& bound, const Strand& strand) {
  const schedule::Op& op = *bound.op;
  transport::Receiver& from = *edge(bound.peer, op.channel).receiver;
  std::byte* const place = refers_ ? place_of_sum(bound, strand) : nullptr;
  const transport::Message* message = place == nullptr ? from.peek() : from.peek_into(place, elements(op.dst, bound, strand) * element_);
  if (message == nullptr) return false;
  if (!accept(bound, strand, message->bytes, elements(op.dst, bound, strand) * element_, message->tag)) return false;
  const bool raw = is_raw(op.src);
  const bool finish = operands_->averaged && (op.flags & schedule::kFinish) != 0;
  const bool is_last = (op.flags & schedule::kFinish) != 0 && !finish && message->data != place;
  const reduce::CombineFn how = is_last ? operands_->combine_last : operands_->combine_cached;
  const std::int32_t dst_chunk = bound.chunk(op.dst);
  const std::int32_t src_chunk = bound.chunk(op.src);
  std::size_t offset = 0;
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    const schedule::Extent d = part(op.dst, dst_chunk + i, bound, strand);
    const schedule::Extent s = part(op.src, src_chunk + i, bound, strand);
    std::byte* dst = at(op.dst, d.offset);
    const std::byte* src = at(op.src, s.offset);
    if (message->answer != nullptr && may_answer(op))
      combine_and_answer(bound, dst, src, *message, d.count, raw, finish);
    else if (d.count > 0)
      combine(dst, src, message->data + offset, d.count, raw, finish, how);
    offset += d.count * element_;
  }
  from.release();
  return !failed_;
}

// One run of memory of a fused op: `room` gets what goes on, and `dst` the same; one of them may be null. `src` null: nothing is reduced.
void Execution::pass_on(std::byte* room, std::byte* dst, const std::byte* src, const std::byte* incoming, std::uint64_t count, bool raw,
                        bool finish, reduce::Stores slot) const {
  const std::size_t bytes = count * element_;
  if (room == nullptr) {  // it is read again at once
    if (src == nullptr)
      reduce::copy(dst, incoming, bytes, reduce::Stores::cached, operands_->reads);
    else
      combine(dst, src, incoming, count, raw, finish, operands_->combine_cached);
  } else if (src == nullptr) {
    reduce::copy(room, incoming, bytes, slot, operands_->reads);
    if (dst != nullptr && dst != incoming) reduce::copy(dst, incoming, bytes, operands_->stores);
  } else if (dst != nullptr) {  // copies store faster into what others read than sums do; and past the caches nothing need be fetched back
    combine(dst, src, incoming, count, raw, finish, operands_->combine_cached);
    reduce::copy(room, dst, bytes, slot);
  } else {
    combine(room, src, incoming, count, raw, finish, operands_->combine_cached);
  }
}

bool Execution::do_recv_and_send(const BoundOp& bound, const Strand& strand) {
  if (can_show_result(bound, strand)) return recv_and_show(bound, strand);
  const schedule::Op& op = *bound.op;
  Edge& in = edge(bound.peer, op.channel);
  const std::uint32_t out_index = edge_index(bound.peer2, op.channel, ranks_);
  Edge& out = edges_[out_index];
  const std::size_t bytes = elements(op.dst, bound, strand) * element_;
  if (op.dst.count == 1 && is_received_in_memory(*in.receiver, *out.sender, op.kind, op.flags, bytes)) {
    std::byte* const place = at(op.dst, part(op.dst, bound.chunk(op.dst), bound, strand).offset);
    const auto take = [&](std::size_t got, const transport::Tag* tag) { return accept(bound, strand, got, bytes, tag); };
    if (!receive_to_send(in, *out.sender, place, bytes, take)) return false;
    out.sender->publish_from(place, bytes, tag_to_send(out, bound, strand));
    return note_sent(out, strand);
  }
  const transport::Message* message = in.receiver->peek();
  std::byte* room = message == nullptr ? nullptr : out.sender->acquire(bytes);
  if (room == nullptr) return false;
  if (!accept(bound, strand, message->bytes, bytes, message->tag)) return false;
  const transport::Tag* const tag = tag_to_send(out, bound, strand);
  const bool store = (op.flags & schedule::kStore) != 0;
  const bool reduce_it = op.kind == OpKind::recv_reduce_send;
  FillChoice* const fill = fill_of(out_index, bytes);
  begin_fill(fill, bytes, tag != nullptr, reduce_it ? FillChoice::Work::does_more : FillChoice::Work::copies);
  const reduce::Stores slot = stores_by(fill);
  const bool raw = reduce_it && is_raw(op.src);
  const bool finish = operands_->averaged && (op.flags & schedule::kFinish) != 0;
  const std::int32_t dst_chunk = bound.chunk(op.dst);
  const std::int32_t src_chunk = bound.chunk(op.src);
  const bool is_sent_from_dst = store && op.dst.count == 1 && is_sent_from_memory(*out.sender, bytes);
  std::size_t offset = 0;
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    const schedule::Extent d = part(op.dst, dst_chunk + i, bound, strand);
    if (d.count == 0) continue;
    const std::size_t run = d.count * element_;
    const std::byte* incoming = message->data + offset;
    const std::byte* src = reduce_it ? at(op.src, part(op.src, src_chunk + i, bound, strand).offset) : nullptr;
    pass_on(is_sent_from_dst ? nullptr : room + offset, store ? at(op.dst, d.offset) : nullptr, src, incoming, d.count, raw, finish, slot);
    offset += run;
  }
  if (is_sent_from_dst)
    out.sender->publish_from(at(op.dst, part(op.dst, dst_chunk, bound, strand).offset), bytes, tag);
  else
    out.sender->publish(bytes, tag);
  end_fill(fill, bytes, *out.sender);
  note_sent(out, strand);
  if (fill != nullptr) in.receiver->forgo_timing();
  in.receiver->release();
  return true;
}

void Execution::copy_run(std::byte* dst, const std::byte* src, std::uint64_t count, bool raw, bool finish) const {
  if (raw)
    reduce::scale(operands_->type, dst, src, count, operands_->premul);
  else if (dst != src)
    reduce::copy(dst, src, count * element_, operands_->stores);
  if (finish) reduce::divide(operands_->type, dst, dst, count, ranks_);
}

void Execution::do_copy(const BoundOp& bound) {
  const schedule::Op& op = *bound.op;
  const Strand whole;
  const bool raw = is_raw(op.src);
  const std::int32_t dst_chunk = bound.chunk(op.dst);
  const std::int32_t src_chunk = bound.chunk(op.src);
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    // A streamed plan copies whole chunks; a plan in pieces copies this piece of each.
    const schedule::Extent d = binding_->pieces().of(binding_->chunk(op.dst.buffer, dst_chunk + i), bound.piece);
    const schedule::Extent s = binding_->pieces().of(binding_->chunk(op.src.buffer, src_chunk + i), bound.piece);
    std::byte* dst = at(op.dst, d.offset);
    const std::byte* src = at(op.src, s.offset);
    if (d.count == 0) continue;
    copy_run(dst, src, d.count, raw, operands_->averaged && (op.flags & schedule::kFinish) != 0);
  }
}

// Where what was to be received at `place` in scratch is to be read.
const std::byte* Execution::find_held(const std::byte* place) {
  for (Held& each : held_) {
    if (each.place != place) continue;
    each.is_read = true;
    each.from->peek();  // it was not being taken out before
    return each.data;
  }
  return place;
}

void Execution::release_held() {
  std::erase_if(held_, [](const Held& each) {
    if (each.is_read) each.from->release();
    return each.is_read;
  });
}

void Execution::do_reduce(const BoundOp& bound) {
  const schedule::Op& op = *bound.op;
  const std::size_t k = op.more_count + 1u;
  const auto order = (op.flags & schedule::kCanonical) != 0 ? reduce::Order::canonical : reduce::Order::left_to_right;
  const int divisor = operands_->averaged && (op.flags & schedule::kFinish) != 0 ? ranks_ : 1;
  const std::int32_t dst_chunk = bound.chunk(op.dst);
  sources_.resize(k);
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    const schedule::Extent d = binding_->pieces().of(binding_->chunk(op.dst.buffer, dst_chunk + i), bound.piece);
    std::byte* dst = at(op.dst, d.offset);
    for (std::size_t j = 0; j < k; ++j) {
      const Ref& ref = j == 0 ? op.src : plan_->program.sources[op.more + j - 1].ref;
      const schedule::Extent s = binding_->pieces().of(binding_->chunk(ref.buffer, bound.chunk(ref) + i), bound.piece);
      const std::byte* from = at(ref, s.offset);
      if (is_raw(ref)) {
        // Its own contribution is scaled where the result will lie; combine_many allows dst to be one of its sources.
        reduce::scale(operands_->type, dst, from, d.count, operands_->premul);
        from = dst;
      } else if (!held_.empty()) {
        from = find_held(from);
      }
      sources_[j] = from;
    }
    if (d.count > 0)
      reduce::combine_many(operands_->type, operands_->op, dst, sources_.data(), static_cast<int>(k), d.count, order, operands_->stores,
                           divisor);
  }
  if (!held_.empty()) release_held();
}

}  // namespace peal::executor
