// What each op does to symbolic memory.
#include <fmt/format.h>

#include "verify_walk.hpp"

namespace peal::schedule {

void Walk::execute(StrandId id, const BoundOp& bound) {
  const Op& op = *bound.op;
  switch (op.kind) {
    case OpKind::send: return do_send(id, bound, op.src, nullptr);
    case OpKind::recv:
    case OpKind::recv_reduce:
    case OpKind::recv_send:
    case OpKind::recv_reduce_send: return do_receive(id, bound);
    case OpKind::copy: return do_copy(id, bound);
    case OpKind::reduce: return do_reduce(id, bound);
    case OpKind::switch_reduce:
    case OpKind::switch_multicast: return do_switch(id, bound);
    case OpKind::signal: return do_signal(id, bound);
    case OpKind::wait: return do_wait(id, bound);
    default: return report_at(id, bound, "is not something that the verifier can prove");
  }
}

// A peer's memory may be touched only once the peer is known to be in the call.
bool Walk::touch(StrandId id, const BoundOp& bound, std::int32_t owner) {
  const StrandState& strand = strands_[id];
  if (owner == strand.rank) return true;
  bool has_come = false;
  for (StrandId s = first_strand_[static_cast<std::size_t>(owner)]; s < first_strand_[static_cast<std::size_t>(owner) + 1] && !has_come;
       ++s)
    has_come = strand.clock.of(s) > 0;
  if (!has_come) report_at(id, bound, fmt::format("touches memory of rank {}, which may not have entered the call yet", owner));
  remote_.push_back({owner, id, strand.clock.time()});
  return has_come;
}

Value Walk::read(StrandId id, const BoundOp& bound, const Place& place, bool is_raw, std::int32_t rank) {
  Cell& cell = memory_.cell(place, bound.piece);
  const AccessLog::Access other = cell.log.read(id, strands_[id].clock);
  Value value = cell.value;
  if (value.is_poison()) return value;
  const std::string whose = rank == strands_[id].rank ? "" : fmt::format(" of rank {}", rank);
  if (other.strand != kNoStrand) {
    report_at(id, bound,
              fmt::format("reads a chunk{} that {} writes at its step {} with nothing to order the two (a race)", whose,
                          strand_text(other.strand), other.time - 2));
    return {kPoison, -1, 0};
  }
  if (!value.is_defined()) {
    report_at(id, bound, fmt::format("reads a chunk{} that nobody has written", whose));
    return {kPoison, -1, 0};
  }
  if (place.is_compact && cell.held_as != place.shape) {
    report_at(id, bound, "reads scratch as another chunk than the one that was written there");
    return {kPoison, -1, 0};
  }
  if (is_raw) {
    if (!trees_.is_raw(value.tree)) {
      report_at(id, bound,
                fmt::format("reads as raw input what holds the contribution of {} already (premul_sum would scale it again)",
                            trees_.text(value.tree)));
      return {kPoison, -1, 0};
    }
    value.tree = trees_.scaled(static_cast<std::int32_t>(value.tree));
  }
  return value;
}

void Walk::write_to(StrandId id, const BoundOp& bound, std::int32_t rank, BufferId buffer, std::int32_t chunk, Value value) {
  if (!memory_.may_write(rank, buffer, chunk)) {
    report_at(id, bound, buffer == kInput ? "writes the caller's input" : "writes an output that only other ranks have");
    value.tree = kPoison;
  }
  if (!is_wide(buffer) && is_unfinished_sum(value)) {
    report_at(id, bound, fmt::format("rounds the sum of {}, which is not finished: it would be rounded again", trees_.text(value.tree)));
    value.tree = kPoison;
  }
  const Place place = memory_.place(rank, buffer, chunk);
  Cell& cell = memory_.cell(place, bound.piece);
  const AccessLog::Access other = cell.log.write(id, strands_[id].clock);
  if (other.strand != kNoStrand && !value.is_poison()) {
    report_at(id, bound,
              fmt::format("writes chunk {} that {} uses at its step {} with nothing to order the two (a race)", chunk,
                          strand_text(other.strand), other.time - 2));
    value.tree = kPoison;
  }
  cell.value = value;
  cell.held_as = place.shape;
}

// Where partial sums are wide, none of them may lie or travel in its own type.
bool Walk::is_unfinished_sum(const Value& value) const {
  return request_.wide_partials && sums_ && request_.ranks > 2 && value.is_defined() && !value.is_poison() && trees_.is_sum(value.tree) &&
         !trees_.is_finished(value.tree);
}

Value Walk::combine(StrandId id, const BoundOp& bound, Value a, Value b) {
  if (a.is_poison() || b.is_poison()) return {kPoison, -1, 0};
  std::string why;
  if (!sums_)
    why = "sums, but this collective only moves data";
  else if (a.chunk != b.chunk || a.piece != b.piece)
    why = fmt::format("sums chunk {} and chunk {}", a.chunk, b.chunk);
  else if (trees_.is_raw(a.tree) || trees_.is_raw(b.tree))
    why = fmt::format("sums the contribution of {} that premul_sum never scaled", trees_.text(trees_.is_raw(a.tree) ? a.tree : b.tree));
  else if (trees_.is_finished(a.tree) || trees_.is_finished(b.tree))
    why = "sums what avg has divided already";
  else if (trees_.overlap(a.tree, b.tree))
    why = fmt::format("adds a contribution twice: {} and {}", trees_.text(a.tree), trees_.text(b.tree));
  else
    return {trees_.sum(a.tree, b.tree), a.chunk, a.piece};
  report_at(id, bound, why);
  return {kPoison, -1, 0};
}

Value Walk::finished(StrandId id, const BoundOp& bound, Value value) {
  if ((bound.op->flags & kFinish) == 0 || !sums_ || value.is_poison()) return value;
  if (trees_.is_finished(value.tree) || !trees_.is_complete(value.tree) || (trees_.is_raw(value.tree) && request_.ranks == 1)) {
    report_at(id, bound,
              trees_.is_finished(value.tree) ? std::string("divides for avg a second time")
                                             : fmt::format("divides for avg what holds only {}", trees_.text(value.tree)));
    return {kPoison, -1, 0};
  }
  value.tree = trees_.finish(value.tree);
  return value;
}

void Walk::do_send(StrandId id, const BoundOp& bound, const Ref& ref, std::vector<Value>* results) {
  StrandState& strand = strands_[id];
  const Op& op = *bound.op;
  const std::int32_t to = op.kind == OpKind::send ? bound.peer : bound.peer2;
  Channel& way = channel(strand.rank, to, op.channel);
  if (way.writer != kNoStrand && way.writer != id)
    report_at(id, bound, fmt::format("writes a channel that {} writes too", strand_text(way.writer)));
  way.writer = id;
  Message message;
  message.wire = sent_wire(op);
  message.piece = bound.piece;
  message.step = static_cast<std::int64_t>(strand.step);
  message.in_memory = !rules_.snapshots && (results == nullptr || (op.flags & kStore) != 0);
  if (!rules_.snapshots && !rules_.shows && !message.in_memory)
    report_at(id, bound, "passes on a result that lies in no memory, so a receiver cannot read it directly");
  for (std::int32_t i = 0; i < ref.count; ++i) {
    Item item;
    item.place = place_of(bound, strand.rank, ref, i);
    item.shape = item.place.shape;
    if (rules_.answers && message.in_memory && op.kind == OpKind::send && op.dst.count == ref.count) {
      item.answer_buffer = op.dst.buffer;
      item.answer_chunk = bound.chunk(op.dst) + i;
    }
    item.is_raw = results == nullptr && reads_raw(ref);
    if (!message.in_memory)
      item.value = results != nullptr ? (*results)[static_cast<std::size_t>(i)] : read(id, bound, item.place, item.is_raw, strand.rank);
    if (!message.in_memory && message.wire == Wire::element && is_unfinished_sum(item.value))
      report_at(id, bound, fmt::format("sends the sum of {}, which is not finished, rounded", trees_.text(item.value.tree)));
    if (const auto there = answered_.find({item.place.cell + static_cast<std::size_t>(bound.piece), to}); there != answered_.end())
      item.place = there->second;
    message.items.push_back(item);
  }
  message.stamp = strand.clock.stamp();
  way.queue.push_back(std::move(message));
}

void Walk::do_receive(StrandId id, const BoundOp& bound) {
  StrandState& strand = strands_[id];
  const Op& op = *bound.op;
  Channel& way = channel(bound.peer, strand.rank, op.channel);
  if (way.reader != kNoStrand && way.reader != id)
    report_at(id, bound, fmt::format("reads a channel that {} reads too", strand_text(way.reader)));
  way.reader = id;
  const Message message = std::move(way.queue.front());
  way.queue.pop_front();
  strand.clock.learn(message.stamp);
  const bool adds = reduces(op.kind);
  const bool stores = !sends(op.kind) || (op.flags & kStore) != 0;
  const Ref& like = adds && !stores ? op.src : op.dst;
  bool is_whole = true;
  if (message.items.size() != like.count) {
    report_at(
        id, bound,
        fmt::format("takes {} chunks, but rank {} sent {} at its step {}", like.count, bound.peer, message.items.size(), message.step));
    is_whole = false;
  } else if (message.wire != op.wire || message.piece != bound.piece) {
    report_at(id, bound, message.wire != op.wire ? "expects another wire type than was sent" : "takes a message of another piece");
  }
  std::vector<Value> results;
  for (std::int32_t i = 0; i < like.count; ++i) {
    Value value{kPoison, -1, 0};
    if (is_whole) {
      const Item& item = message.items[static_cast<std::size_t>(i)];
      value = message.in_memory ? read(id, bound, item.place, item.is_raw, bound.peer) : item.value;
      if (item.shape != place_of(bound, strand.rank, like, i).shape)
        report_at(id, bound, fmt::format("takes chunk {} in place of one of another length", bound.chunk(like) + i));
    }
    if (adds) value = combine(id, bound, read(id, bound, place_of(bound, strand.rank, op.src, i), reads_raw(op.src), strand.rank), value);
    value = finished(id, bound, value);
    if (stores) write(id, bound, strand.rank, op.dst, i, value);
    if (adds && stores && is_whole && (op.flags & kFinish) != 0 && op.dst.count == 1 && message.items.front().answer_chunk >= 0)
      answer(id, bound, message.items.front(), value);
    results.push_back(value);
  }
  if (sends(op.kind)) do_send(id, bound, like, &results);
  if (rules_.slots == 0) {
    // The rendezvous is over for the sender too, and it knows that.
    strands_[message.stamp.strand].clock.learn(strand.clock.stamp());
    finish_step(message.stamp.strand);
  }
}

// A finished sum goes into the memory of the message's sender, too, where it is wanted.
void Walk::answer(StrandId id, const BoundOp& bound, const Item& item, Value value) {
  const Place there = memory_.place(bound.peer, item.answer_buffer, item.answer_chunk);
  const Place own = place_of(bound, strands_[id].rank, bound.op->dst, 0);
  if (there.shape != own.shape) report_at(id, bound, "answers with a chunk of another length");
  write_to(id, bound, bound.peer, item.answer_buffer, item.answer_chunk, value);
  answered_[{own.cell + static_cast<std::size_t>(bound.piece), bound.peer}] = there;
}

void Walk::do_copy(StrandId id, const BoundOp& bound) {
  const Op& op = *bound.op;
  const std::int32_t own = strands_[id].rank;
  const std::int32_t from = (op.flags & kRemoteSrc) != 0 ? bound.peer : own;
  const std::int32_t to = (op.flags & kRemoteDst) != 0 ? bound.peer : own;
  touch(id, bound, from);
  touch(id, bound, to);
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    const Place src = place_of(bound, from, op.src, i);
    if (src.shape != place_of(bound, to, op.dst, i).shape) report_at(id, bound, "copies to a chunk of another length");
    write(id, bound, to, op.dst, i, finished(id, bound, read(id, bound, src, reads_raw(op.src), from)));
  }
}

Value Walk::tree_over(StrandId id, const BoundOp& bound, const std::vector<Value>& values, std::size_t first, std::size_t count) {
  if (count == 1) return values[first];
  std::size_t half = count - 1;  // left to right
  if ((bound.op->flags & kCanonical) != 0)
    for (half = 1; half * 2 < count;) half *= 2;
  const Value left = tree_over(id, bound, values, first, half);
  return combine(id, bound, left, tree_over(id, bound, values, first + half, count - half));
}

void Walk::do_reduce(StrandId id, const BoundOp& bound) {
  const Op& op = *bound.op;
  const std::int32_t own = strands_[id].rank;
  const Program& program = programs_[static_cast<std::size_t>(own)];
  for (std::int32_t i = 0; i < op.dst.count; ++i) {
    const std::int64_t shape = place_of(bound, own, op.dst, i).shape;
    std::vector<Value> values;
    const auto take = [&](const Ref& ref, std::int32_t peer) {
      const std::int32_t rank = peer >= 0 ? peer : own;
      const Place place = place_of(bound, rank, ref, i);
      touch(id, bound, rank);
      if (place.shape != shape) report_at(id, bound, "sums chunks of different lengths");
      values.push_back(read(id, bound, place, reads_raw(ref), rank));
    };
    take(op.src, -1);
    for (std::uint32_t k = 0; k < op.more_count; ++k) take(program.sources[op.more + k].ref, program.sources[op.more + k].peer);
    write(id, bound, own, op.dst, i, finished(id, bound, tree_over(id, bound, values, 0, values.size())));
  }
}

void Walk::do_signal(StrandId id, const BoundOp& bound) {
  const Op& op = *bound.op;
  const std::int32_t own = strands_[id].rank;
  const std::uint64_t key = op.peer < 0 ? event_key(own, -1, op.event) : event_key(bound.peer, own, op.event);
  Event& event = events_[key];
  if (!event.signals.empty() && event.signals.front().strand != id) event.has_many_signallers = true;
  event.signals.push_back(strands_[id].clock.stamp());
  event.signal_steps.push_back(static_cast<std::int64_t>(strands_[id].step));
}

void Walk::do_wait(StrandId id, const BoundOp& bound) {
  const Op& op = *bound.op;
  StrandState& strand = strands_[id];
  const std::int64_t threshold = bound.threshold(programs_[static_cast<std::size_t>(strand.rank)]);
  if (threshold <= 0) return;
  const std::uint64_t key = event_key(strand.rank, op.peer < 0 ? -1 : bound.peer, op.event);
  const Event& event = events_[key];
  if (!event.has_many_signallers) {
    strand.clock.learn(event.signals[static_cast<std::size_t>(threshold) - 1]);
  } else {
    for (std::int64_t k = 0; k < threshold; ++k) strand.clock.learn(event.signals[static_cast<std::size_t>(k)]);
  }
  waits_.push_back({key, id, strand.clock.time(), threshold, static_cast<std::int64_t>(strand.step)});
}

}  // namespace peal::schedule
