#include <algorithm>
#include <executor/execution.hpp>
#include <executor/short_call.hpp>
#include <executor/waiting.hpp>
#include <span>

namespace peal::executor {

using schedule::OpKind;

namespace {

/// A bit for every signal: of one, or of the one that a wait needs. 0: it needs none, or one of several strands gives it.
std::uint32_t event_bit(const FlatProgram& flat, std::size_t at) {
  static_assert(ShortCall::kMostOps <= 32);
  const FlatOp& op = flat.ops[at];
  if (op.kind == OpKind::signal) return std::uint32_t{1} << at;
  std::int32_t signals = 0;
  std::uint32_t bit = 0;
  std::size_t strand = 0;
  for (std::size_t s = 0; s + 1 < flat.begin.size(); ++s) {
    for (std::uint32_t i = flat.begin[s]; i < flat.begin[s + 1]; ++i) {
      if (flat.ops[i].kind != OpKind::signal || flat.ops[i].event != op.event) continue;
      if (signals > 0 && strand != s) return 0;
      strand = s;
      if (++signals == op.threshold) bit = std::uint32_t{1} << i;
    }
  }
  return bit;
}

}  // namespace

std::unique_ptr<ShortCall> Execution::shorten() {
  if (!done_ || failed_ || log_ != nullptr || operands_->scaled || operands_->averaged) return nullptr;
  if (flat_ == nullptr && (!shows_ || refers_ || operands_->stores != reduce::Stores::cached)) return nullptr;
  const FlatProgram flat = binding_->flat_in_pieces(*plan_);
  if (!flat.is_flat()) return nullptr;
  if (call_.collective == Collective::send_recv || flat.ops.size() > ShortCall::kMostOps) return nullptr;
  const std::size_t strands = flat.begin.size() - 1;
  if (strands > ShortCall::kMostOps) return nullptr;
  auto made = std::make_unique<ShortCall>();
  for (std::size_t s = 0; s < strands; ++s) {
    const ShortCall::Step* const begin = made->steps_.data() + flat.begin[s];
    made->strands_[s] = {begin, made->steps_.data() + flat.begin[s + 1], begin};
  }
  made->strand_count_ = strands;
  // Of longer ones several sends of the same bytes may share one copy.
  const std::uint64_t too_long = shows_ ? schedule::kSlotMessageBytes + 1 : schedule::kLeastSharedBytes;
  for (std::size_t i = 0; i < flat.ops.size(); ++i) {
    const FlatOp& op = flat.ops[i];
    const bool sends = op.kind == OpKind::send;
    const bool takes = op.kind == OpKind::recv || op.kind == OpKind::recv_reduce;
    const bool is_local = op.kind == OpKind::signal || op.kind == OpKind::wait;
    if (!sends && !takes && !is_local && op.kind != OpKind::copy) return nullptr;
    if (op.bytes >= too_long || op.dst_buffer > schedule::kOutput || op.src_buffer > schedule::kOutput) return nullptr;
    if ((op.flags & schedule::kHeld) != 0) return nullptr;
    ShortCall::Step& step = made->steps_[i];
    step.kind = op.kind;
    step.event = is_local ? event_bit(flat, i) : 0;
    if (is_local && step.event == 0) return nullptr;
    step.is_tagged = (op.flags & (sends ? kTaggedSent : kTaggedReceived)) != 0;
    step.is_inline = op.bytes <= transport::kInlineBytes;
    step.is_last_sum = (op.flags & schedule::kFinish) != 0;
    step.dst_buffer = op.dst_buffer;
    step.src_buffer = op.src_buffer;
    step.bytes = static_cast<std::uint32_t>(op.bytes);
    step.count = static_cast<std::uint32_t>(op.count);
    step.dst = op.dst;
    step.src = op.src;
    step.to = sends ? dynamic_cast<transport::ShmSender*>(sender(op.to)) : nullptr;
    step.from = takes ? dynamic_cast<transport::ShmReceiver*>(receiver(op.from)) : nullptr;
    if ((sends && step.to == nullptr) || (takes && step.from == nullptr)) return nullptr;
    step.fill = sends && !shows_ ? fill_of(op.to, op.bytes) : nullptr;
  }
  made->most_bytes_ = flat.most_bytes;
  if (!shows_) {
    made->find_exchange();
    return made;
  }
  add_shown_steps(*made, flat);
  return made->place(*operands_, 0) ? std::move(made) : nullptr;
}

void Execution::add_shown_steps(ShortCall& made, const FlatProgram& flat) const {
  made.shown_ = std::make_unique<ShortCall::Shown>();
  const auto steps = std::span(made.steps_).first(flat.ops.size());
  // What was summed up for the peer at the place from where it is sent back.
  const auto sum_of = [&](const ShortCall::Step& sent, int peer) -> ShortCall::ShownStep* {
    const auto is_it = [&](const ShortCall::Step& step) {
      return step.kind == OpKind::recv_reduce && peer_of(flat.ops[static_cast<std::size_t>(&step - steps.data())].from) == peer &&
             step.dst_buffer == sent.src_buffer && step.dst == sent.src && step.bytes == sent.bytes;
    };
    const auto found = std::find_if(steps.begin(), steps.end(), is_it);
    return found == steps.end() ? nullptr : &made.shown_of(*found);
  };
  for (std::size_t s = 0; s < made.strand_count_; ++s) {
    schedule::StrandCursor cursor(plan_->program, s, binding_->pieces().count);
    for (const ShortCall::Step* step = made.strands_[s].begin; step != made.strands_[s].end; ++step, cursor.advance(plan_->program)) {
      const BoundOp bound = cursor.current(plan_->program);
      const schedule::Op& op = *bound.op;
      ShortCall::ShownStep& shown = made.shown_of(*step);
      shown.may_answer = op.kind == OpKind::recv_reduce && may_answer(op);
      shown.is_shown = op.kind == OpKind::send && step->bytes >= operands_->least_shown;
      if (!shown.is_shown) continue;
      shown.sum = sum_of(*step, bound.peer);
      if (!operands_->answers || op.dst.count != 1 || op.dst.buffer > schedule::kOutput) continue;
      const schedule::Extent wanted = binding_->pieces().of(binding_->chunk(op.dst.buffer, bound.chunk(op.dst)), bound.piece);
      shown.has_answer = wanted.count * element_ == step->bytes;
      shown.answer_buffer = static_cast<std::uint8_t>(op.dst.buffer);
      shown.answer = wanted.offset * element_;
    }
  }
}

// What is signalled is waited for by this rank alone, and what tells comes before what hears.
void ShortCall::find_exchange() {
  std::size_t others = 0;
  for (std::size_t s = 0; s < strand_count_; ++s) {
    for (const Step* step = strands_[s].begin; step != strands_[s].end; ++step) {
      if (step->kind == OpKind::signal || step->kind == OpKind::wait) continue;
      if (step->is_inline && step->kind == OpKind::send && told_ == nullptr && step == strands_[s].begin)
        told_ = step;
      else if (step->is_inline && step->from != nullptr && told_ != nullptr && heard_ == nullptr)
        heard_ = step;
      else
        ++others;
    }
  }
  if (others > 0 || heard_ == nullptr) told_ = heard_ = nullptr;
}

void Execution::go_on(const ShortCall& begun) {
  for (std::size_t s = 0; s < begun.strand_count_; ++s) {
    const ShortCall::Strand& strand = begun.strands_[s];
    if (flat_ == nullptr) {
      for (const ShortCall::Step* step = strand.begin; step != strand.at; ++step) skip(begun, *step, s);
      continue;
    }
    flat_at_[s] += static_cast<std::uint32_t>(strand.at - strand.begin);
    if (strand.begin != strand.end && strand.at == strand.end) --open_strands_;
    for (const ShortCall::Step* step = strand.begin; step != strand.at; ++step)
      if (step->kind == OpKind::signal) ++signals_[flat_->ops[static_cast<std::size_t>(step - begun.steps_.data())].event];
  }
}

// One op that has been done: everything but what it does.
void Execution::skip(const ShortCall& begun, const ShortCall::Step& step, std::size_t index) {
  Strand& strand = strands_[index];
  const BoundOp bound = strand.cursor.current(plan_->program);
  if (step.kind == OpKind::signal) ++signals_[bound.op->event];
  if (step.to != nullptr) {
    const std::uint32_t to = edge_index(bound.peer, bound.op->channel, ranks_);
    sender(to);
    note_sent(edges_[to], strand);
  }
  if (step.from != nullptr) {
    const std::uint32_t from = edge_index(bound.peer, bound.op->channel, ranks_);
    receiver(from);
    edges_[from].received_in = call_id_;
    if (std::byte* const answered = begun.shown_of(step).answered)
      answers_.push_back({bound.peer, ShortCall::target_of(step, *operands_), answered, step.bytes});
  }
  finish_op(index, strand, bound);
}

inline const std::byte* ShortCall::source_of(const Step& step, const Operands& operands) {
  return (step.src_buffer == schedule::kOutput ? operands.output : operands.input) + step.src;
}

inline std::byte* ShortCall::target_of(const Step& step, const Operands& operands) {
  return (step.dst_buffer == schedule::kOutput ? operands.output : const_cast<std::byte*>(operands.input)) + step.dst;
}

// Null: it is not there, or not as it should be.
[[gnu::always_inline]] inline const transport::Message* ShortCall::peek(const Step& step, const transport::Tag* tag) {
  const transport::Message* const message = step.from->peek();
  if (message == nullptr || message->bytes != step.bytes || (message->tag != nullptr) != (tag != nullptr)) return nullptr;
  return tag == nullptr || *message->tag == *tag ? message : nullptr;
}

[[gnu::always_inline]] inline bool ShortCall::take(const Step& step, const Operands& operands, const transport::Tag* tag) {
  const std::byte* data = nullptr;
  if (step.is_inline) {
    data = step.from->find_inline(step.bytes, tag);
    if (data == nullptr) return false;
  } else {
    const transport::Message* const message = peek(step, tag);
    if (message == nullptr) return false;
    data = message->data;
  }
  std::byte* const dst = target_of(step, operands);
  if (step.kind == OpKind::recv) {
    step.from->take_out(dst, data, step.bytes);
  } else if (step.count > 0) {
    const std::byte* const own = source_of(step, operands);
    (step.is_last_sum ? operands.combine_last : operands.combine_cached)(dst, own, data, step.count);
  }
  if (step.is_inline)
    step.from->release_inline();
  else
    step.from->release();
  return true;
}

[[gnu::always_inline]] inline bool ShortCall::give(const Step& step, const Operands& operands, const transport::Tag* tag) {
  const std::byte* const src = source_of(step, operands);
  if (step.kind == OpKind::send) {
    if (step.is_inline) return step.to->send_inline(src, step.bytes, tag);
    if (step.fill == nullptr) return step.to->send(src, step.bytes, tag);
    KeptBeside nowhere;
    return send_filled(step.fill, *step.to, src, step.bytes, tag, nowhere);
  }
  std::byte* const dst = target_of(step, operands);
  if (dst != src) transport::shm::copy_message(dst, src, step.bytes);
  return true;
}

[[gnu::always_inline]] inline bool ShortCall::perform(const Step& step, const Operands& operands, const transport::Tag& call) {
  const transport::Tag* const tag = step.is_tagged ? &call : nullptr;
  const bool gives = step.kind == OpKind::send || step.kind == OpKind::copy;
  return gives ? give(step, operands, tag) : take(step, operands, tag);
}

void ShortCall::start() {
  for (std::size_t s = 0; s < strand_count_; ++s) strands_[s].at = strands_[s].begin;
  signalled_ = 0;
  if (shown_ == nullptr) [[likely]]
    return;
  for (ShownStep& each : shown_->steps) each.answered = nullptr;
}

// Signals and waits are between the strands of this rank; `perform` does the rest.
template <class F>
[[gnu::always_inline]] inline bool ShortCall::try_step(const Step& step, F&& perform) {
  if (step.kind == OpKind::wait) return (signalled_ & step.event) != 0;
  if (step.kind != OpKind::signal) return perform(step);
  signalled_ |= step.event;
  return true;
}

[[gnu::always_inline]] inline bool ShortCall::tell(const Operands& operands, const transport::Tag& tag) {
  const Step& told = *told_;
  if (told.to->send_inline(source_of(told, operands), told.bytes, told.is_tagged ? &tag : nullptr)) [[likely]]
    return true;
  start();
  return false;
}

// It pauses between looks: what is looked at without a break reaches its writer, and so its reader, later.
[[gnu::always_inline]] inline bool ShortCall::hear(const Operands& operands, const transport::Tag& tag, std::uint32_t polls) {
  for (std::uint32_t polled = 0; polled <= polls; ++polled) {
    if (take(*heard_, operands, heard_->is_tagged ? &tag : nullptr)) return true;
    pause_cpu();
  }
  start();
  for (std::size_t s = 0; s < strand_count_; ++s)
    if (strands_[s].begin == told_) ++strands_[s].at;
  return false;
}

/// Every strand as far as it goes; true when that is to its end.
bool ShortCall::advance_short(const Operands& operands, const transport::Tag& tag) {
  const auto perform_one = [&](const Step& step) { return perform(step, operands, tag); };
  bool is_done = true;
  for (std::size_t s = 0; s < strand_count_; ++s) {
    const Step* at = strands_[s].at;
    const Step* const end = strands_[s].end;
    while (at != end && try_step(*at, perform_one)) ++at;
    strands_[s].at = at;
    is_done = is_done && at == end;
  }
  return is_done;
}

bool ShortCall::place(const Operands& operands, std::uint64_t version) {
  Shown& shown = *shown_;
  if (version != 0 && shown.version == version && shown.input == operands.input && shown.output == operands.output) return true;
  shown.version = 0;
  for (const Step& step : steps_) {
    ShownStep& at = shown_of(step);
    if (!at.is_shown) continue;
    if (!step.to->locate(source_of(step, operands), step.bytes, at.places.message)) return false;
    const std::byte* const wanted = (at.answer_buffer == schedule::kOutput ? operands.output : operands.input) + at.answer;
    at.is_answer_wanted = at.has_answer && step.to->locate(wanted, step.bytes, at.places.answer);
  }
  shown.version = version;
  shown.input = operands.input;
  shown.output = operands.output;
  return true;
}

// A sum that the peer has already is shown to it there.
inline bool ShortCall::show(const Step& step, ShownStep& shown, const transport::Tag* tag) {
  if (shown.sum != nullptr && shown.sum->answered != nullptr) return step.to->show_theirs(shown.sum->answered, step.bytes, tag);
  return step.to->show_located(shown.places, shown.is_answer_wanted, tag);
}

inline bool ShortCall::take_shown(const Step& step, ShownStep& shown, const Operands& operands, const transport::Tag* tag) {
  const transport::Message* const message = peek(step, tag);
  if (message == nullptr) return false;
  std::byte* const dst = target_of(step, operands);
  if (step.kind == OpKind::recv) {
    if (dst != message->data) transport::shm::copy_message(dst, message->data, step.bytes);
  } else if (message->answer != nullptr && shown.may_answer) {
    operands.combine_twice(dst, message->answer, source_of(step, operands), message->data, step.count);
    shown.answered = message->answer;
  } else if (step.count > 0) {
    (step.is_last_sum ? operands.combine_last : operands.combine_cached)(dst, source_of(step, operands), message->data, step.count);
  }
  step.from->release();
  return true;
}

inline bool ShortCall::perform_shown(const Step& step, const Operands& operands, const transport::Tag& call) {
  ShownStep& shown = shown_of(step);
  const transport::Tag* const tag = step.is_tagged ? &call : nullptr;
  if (shown.is_shown) return show(step, shown, tag);
  return step.from != nullptr ? take_shown(step, shown, operands, tag) : give(step, operands, tag);
}

bool ShortCall::is_drained() const {
  bool is_read = true;
  for (const Step& step : steps_)
    if (step.to != nullptr && !step.to->is_drained()) is_read = false;
  return is_read;
}

// As advance_short(), but after an op that takes long the others' turns come: peers wait for what they say. Done when peers have read it.
bool ShortCall::advance_shown(const Operands& operands, const transport::Tag& tag) {
  const auto perform_one = [&](const Step& step) { return perform_shown(step, operands, tag); };
  for (bool moved = true; moved;) {
    moved = false;
    bool is_done = true;
    for (Strand& strand : std::span(strands_).first(strand_count_)) {
      for (bool is_light = true; is_light && strand.at != strand.end && try_step(*strand.at, perform_one); ++strand.at) {
        moved = true;
        is_light = strand.at->from == nullptr;
      }
      is_done = is_done && strand.at == strand.end;
    }
    if (is_done) return is_drained();
  }
  return false;
}

inline bool ShortCall::advance(const Operands& operands, const transport::Tag& tag) {
  return shown_ == nullptr ? advance_short(operands, tag) : advance_shown(operands, tag);
}

bool ShortCall::go_round(const Operands& operands, const transport::Tag& tag, std::uint32_t polls) {
  for (; polls > 0; --polls) {
    pause_cpu();
    if (advance(operands, tag)) return true;
  }
  return false;
}

bool ShortCall::run(const Operands& operands, const transport::Tag& tag, std::uint32_t polls, FaultBoard& board, int rank) {
  if (told_ != nullptr) {
    const bool is_told = tell(operands, tag);
    board.enter(rank, tag);
    return is_told && hear(operands, tag, polls);
  }
  start();
  const bool is_done = advance(operands, tag);
  board.enter(rank, tag);
  return is_done || go_round(operands, tag, polls);
}

}  // namespace peal::executor
