// The short way through a flat program: the same ops, in the same order, with nothing left to look up.
#include <base/names.hpp>
#include <cstring>
#include <executor/execution.hpp>
#include <reduce/copy.hpp>
#include <reduce/scale.hpp>

namespace peal::executor {

using schedule::OpKind;

void Execution::start_flat() {
  bases_[schedule::kInput] = const_cast<std::byte*>(operands_->input);
  bases_[schedule::kOutput] = operands_->output;
  bases_[schedule::kScratch] = operands_->scratch;
  const std::size_t strands = flat_->begin.size() - 1;
  if (flat_at_.size() != strands) flat_at_.resize(strands);
  for (std::size_t s = 0; s < strands; ++s) {
    flat_at_[s] = flat_->begin[s];
    if (flat_->begin[s] != flat_->begin[s + 1]) ++open_strands_;
  }
}

bool Execution::flush_flat() {
  bool settled = true;
  for (const std::uint32_t edge : flat_->first_sent)
    if (!edges_[edge].sender->flush()) settled = false;
  return settled;
}

bool Execution::progress_flat() {
  if (call_.collective == Collective::send_recv) return advance_flat<Flat::pairs>();
  return operands_->scaled || operands_->averaged ? advance_flat<Flat::scaled>() : advance_flat<Flat::plain>();
}

template <Execution::Flat kKind>
bool Execution::advance_flat() {
  bool moved = false;
  const FlatOp* const ops = flat_->ops.data();
  const std::size_t strands = flat_at_.size();
  for (std::size_t s = 0; s < strands; ++s) {
    const std::uint32_t end = flat_->begin[s + 1];
    const std::uint32_t before = flat_at_[s];
    if (before == end) continue;
    const auto at = static_cast<std::uint32_t>(run_flat<kKind>(ops + before, ops + end) - ops);
    flat_at_[s] = at;
    if (log_ != nullptr) [[unlikely]] {
      for (std::uint32_t i = before; i < at; ++i) {
        const FlatOrigin& origin = flat_->origins[i];
        log_->push_back({static_cast<std::uint32_t>(s), origin.op, {origin.iteration[0], origin.iteration[1]}, 0});
      }
    }
    moved = moved || at != before;
    if (at == end) --open_strands_;
    if (failed_) return moved;
  }
  return moved;
}

// Ops of one kind often stand in a row: each kind has its own loop, so that a row costs one dispatch.
template <class F>
[[gnu::always_inline]] inline bool run_row(const FlatOp*& op, const FlatOp* last, OpKind kind, F&& perform) {
  do {
    if (!perform(*op)) return false;
    ++op;
  } while (op != last && op->kind == kind);
  return true;
}

/// The first op that could not be done; `last` when none is left.
template <Execution::Flat kKind>
const FlatOp* Execution::run_flat(const FlatOp* op, const FlatOp* last) {
  bool went = true;
  while (went && op != last) {
    switch (op->kind) {
      case OpKind::send: went = run_row(op, last, OpKind::send, [this](const FlatOp& o) { return flat_send<kKind>(o); }); break;
      case OpKind::recv: went = run_row(op, last, OpKind::recv, [this](const FlatOp& o) { return flat_recv<kKind>(o); }); break;
      case OpKind::recv_reduce:
        went = run_row(op, last, OpKind::recv_reduce, [this](const FlatOp& o) { return flat_recv_reduce<kKind>(o); });
        break;
      case OpKind::copy: went = run_row(op, last, OpKind::copy, [this](const FlatOp& o) { return flat_copy<kKind>(o), true; }); break;
      case OpKind::recv_send:
      case OpKind::recv_reduce_send:
        went = run_row(op, last, op->kind, [this](const FlatOp& o) { return flat_recv_and_send<kKind>(o); });
        break;
      case OpKind::reduce: flat_reduce(*op++); break;
      case OpKind::signal: ++signals_[op++->event]; break;
      case OpKind::wait:
        went = signals_[op->event] >= op->threshold;
        op += went ? 1 : 0;
        break;
      default: __builtin_unreachable();  // flatten_op makes no others
    }
  }
  return op;
}

template <Execution::Flat kKind>
[[gnu::always_inline]] inline bool Execution::flat_send(const FlatOp& op) {
  transport::Sender* const to = sender(op.to);
  if (to == nullptr) [[unlikely]]
    return false;
  if constexpr (kKind == Flat::pairs) return flat_send_pair(op, *to);
  if (kKind == Flat::scaled && is_flat_raw(op)) return flat_send_scaled(op, *to);
  if (op.bytes >= fills_.least_bytes()) {
    if (op.bytes < schedule::kLeastSharedBytes || op.same_before + op.same_after == 0)
      return send_large(op.to, flat_src(op), op.bytes, flat_tag(op));
    return send_once(&op - op.same_before, op.same_after == 0, op.to, flat_src(op), op.bytes, flat_tag(op));
  }
  return to->send(flat_src(op), op.bytes, flat_tag(op));
}

[[gnu::always_inline]] inline bool Execution::flat_send_pair(const FlatOp& op, transport::Sender& to) {
  std::uint32_t& sent = edges_[op.to].sent_pairs;
  const UserBuffer& user = user_buffer(op.src_buffer);
  const transport::Tag tag = pair_tag(user, sent + 1);
  const bool went =
      user.bytes >= fills_.least_bytes() ? send_large(op.to, user.data, user.bytes, &tag) : to.send(user.data, user.bytes, &tag);
  sent += went ? 1 : 0;
  return went;
}

template <Execution::Flat kKind>
[[gnu::always_inline]] inline bool Execution::flat_recv(const FlatOp& op) {
  transport::Receiver* const from = receiver(op.from);
  if (from == nullptr) [[unlikely]]
    return false;
  if constexpr (kKind == Flat::pairs) return flat_recv_pair(op, *from);
  if (may_hold(op.flags, *from) && op.bytes > 0) return flat_hold(op, *from);
  if (!from->receive(flat_dst(op), op.bytes, &arrived_.bytes, &arrived_.tag, &arrived_.has_tag)) return false;
  return accept_flat(op, arrived_.bytes, arrived_.has_tag ? &arrived_.tag : nullptr);
}

bool Execution::flat_hold(const FlatOp& op, transport::Receiver& from) {
  const transport::Message* message = from.peek();
  if (message == nullptr || !accept_flat(op, message->bytes, message->tag)) return false;
  held_.push_back({flat_dst(op), message->data, &from});
  return true;
}

// The first message of a collective's edge carries the tag of the call, the others none.
[[gnu::always_inline]] inline bool Execution::accept_flat(const FlatOp& op, std::size_t got, const transport::Tag* tag) {
  const bool is_tagged = (op.flags & kTaggedReceived) != 0;
  if (got == op.bytes && is_tagged == (tag != nullptr) && (!is_tagged || *tag == tag_)) [[likely]]
    return true;
  return refuse_flat(op, got, tag);
}

bool Execution::refuse_flat(const FlatOp& op, std::size_t got, const transport::Tag* tag) {
  if (got == op.bytes && (op.flags & kTaggedReceived) != 0 && tag != nullptr && accept_other_mark(*tag, tag_)) return true;
  reject(peer_of(op.from), (op.flags & kTaggedReceived) != 0, got, op.bytes, tag, call_);
  return false;
}

[[gnu::always_inline]] inline bool Execution::flat_recv_pair(const FlatOp& op, transport::Receiver& from) {
  const UserBuffer& user = user_buffer(op.dst_buffer);
  if (!from.receive(user.data, user.bytes, &arrived_.bytes, &arrived_.tag, &arrived_.has_tag)) return false;
  const transport::Tag mine = pair_tag(user, ++edges_[op.from].received_pairs);
  if (arrived_.bytes == user.bytes && arrived_.has_tag && arrived_.tag == mine) [[likely]]
    return true;
  reject(peer_of(op.from), true, arrived_.bytes, user.bytes, arrived_.has_tag ? &arrived_.tag : nullptr, from_tag(mine));
  return false;
}

bool Execution::flat_send_scaled(const FlatOp& op, transport::Sender& to) {
  std::byte* room = to.acquire(op.bytes);
  if (room == nullptr) return false;
  reduce::scale(operands_->type, room, flat_src(op), op.count, operands_->premul);
  to.publish(op.bytes, flat_tag(op));
  return true;
}

template <Execution::Flat kKind>
[[gnu::always_inline]] inline bool Execution::flat_recv_reduce(const FlatOp& op) {
  transport::Receiver* const from = receiver(op.from);
  const transport::Message* message = from == nullptr ? nullptr : from->peek();
  if (message == nullptr) return false;
  if (!accept_flat(op, message->bytes, message->tag)) return false;
  if (op.count > 0) {
    const bool last = (op.flags & schedule::kFinish) != 0;
    if constexpr (kKind == Flat::plain) {
      (last ? operands_->combine_last : operands_->combine_cached)(flat_dst(op), flat_src(op), message->data, op.count);
    } else {
      const bool finish = last && operands_->averaged;
      combine(flat_dst(op), flat_src(op), message->data, op.count, is_flat_raw(op), finish,
              last && !finish ? operands_->combine_last : operands_->combine_cached);
    }
  }
  from->release();
  return true;
}

bool Execution::flat_send_on(const FlatOp& op, transport::Sender& to) {
  const auto take = [&](std::size_t got, const transport::Tag* tag) { return accept_flat(op, got, tag); };
  if (!receive_to_send(edges_[op.from], to, flat_dst(op), op.bytes, take)) return false;
  to.publish_from(flat_dst(op), op.bytes, flat_tag(op));
  return true;
}

template <Execution::Flat kKind>
[[gnu::always_inline]] inline bool Execution::flat_recv_and_send(const FlatOp& op) {
  transport::Receiver* const from = receiver(op.from);
  transport::Sender* const to = sender(op.to);
  if (from == nullptr || to == nullptr) [[unlikely]]
    return false;
  if (is_received_in_memory(*from, *to, op.kind, op.flags, op.bytes)) return flat_send_on(op, *to);
  const transport::Message* message = from->peek();
  if (message == nullptr) return false;
  std::byte* room = to->acquire(op.bytes);
  if (room == nullptr) return false;
  if (!accept_flat(op, message->bytes, message->tag)) return false;
  std::byte* const stored = (op.flags & schedule::kStore) != 0 ? flat_dst(op) : nullptr;
  const bool is_sent_from_there = stored != nullptr && is_sent_from_memory(*to, op.bytes);
  const transport::Tag* const tag = flat_tag(op);
  FillChoice* const fill = fill_of(op.to, op.bytes);
  begin_fill(fill, op.bytes, tag != nullptr, op.kind == OpKind::recv_send ? FillChoice::Work::copies : FillChoice::Work::does_more);
  if (op.count > 0) {
    const bool is_finished = operands_->averaged && (op.flags & schedule::kFinish) != 0;
    pass_on(is_sent_from_there ? nullptr : room, stored, op.kind == OpKind::recv_send ? nullptr : flat_src(op), message->data, op.count,
            kKind == Flat::scaled && is_flat_raw(op), kKind == Flat::scaled && is_finished, stores_by(fill));
  }
  if (is_sent_from_there)
    to->publish_from(stored, op.bytes, tag);
  else
    to->publish(op.bytes, tag);
  end_fill(fill, op.bytes, *to);
  if (fill != nullptr) from->forgo_timing();
  from->release();
  return true;
}

template <Execution::Flat kKind>
inline void Execution::flat_copy(const FlatOp& op) {
  if (op.count == 0) return;
  std::byte* dst = flat_dst(op);
  const std::byte* src = flat_src(op);
  if constexpr (kKind == Flat::plain) {
    if (dst != src) reduce::copy(dst, src, op.bytes, operands_->stores);
  } else {
    copy_run(dst, src, op.count, is_flat_raw(op), operands_->averaged && (op.flags & schedule::kFinish) != 0);
  }
}

void Execution::flat_reduce(const FlatOp& op) {
  if (op.count == 0) return;
  std::byte* dst = flat_dst(op);
  const std::size_t k = op.more_count + std::size_t{1};
  sources_.resize(k);
  for (std::size_t i = 0; i < k; ++i) {
    const FlatSource place = i == 0 ? FlatSource{op.src_buffer, op.src, {}} : flat_->sources[op.more + i - 1];
    const std::byte* from = bases_[place.buffer] + place.offset;
    if (operands_->scaled && place.buffer == schedule::kInput) {
      // Its own contribution is scaled where the result will lie; combine_many allows dst to be one of its sources.
      reduce::scale(operands_->type, dst, from, op.count, operands_->premul);
      from = dst;
    } else if (!held_.empty()) {
      from = find_held(from);
    }
    sources_[i] = from;
  }
  const auto order = (op.flags & schedule::kCanonical) != 0 ? reduce::Order::canonical : reduce::Order::left_to_right;
  const int divisor = operands_->averaged && (op.flags & schedule::kFinish) != 0 ? ranks_ : 1;
  reduce::combine_many(operands_->type, operands_->op, dst, sources_.data(), static_cast<int>(k), op.count, order, operands_->stores,
                       divisor);
  if (!held_.empty()) release_held();
}

}  // namespace peal::executor
