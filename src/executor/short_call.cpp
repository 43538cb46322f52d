#include <executor/execution.hpp>
#include <executor/short_call.hpp>
#include <executor/waiting.hpp>

namespace peal::executor {

using schedule::OpKind;

namespace {

constexpr std::uint16_t kMostEvents = 32;

}  // namespace

std::unique_ptr<ShortCall> Execution::shorten() {
  if (flat_ == nullptr || !done_ || failed_ || log_ != nullptr || operands_->scaled || operands_->averaged) return nullptr;
  if (call_.collective == Collective::send_recv || flat_->ops.size() > ShortCall::kMostOps) return nullptr;
  const std::size_t strands = flat_->begin.size() - 1;
  if (strands > ShortCall::kMostOps) return nullptr;
  auto made = std::make_unique<ShortCall>();
  for (std::size_t s = 0; s < strands; ++s) {
    const ShortCall::Step* const begin = made->steps_.data() + flat_->begin[s];
    made->strands_[s] = {begin, made->steps_.data() + flat_->begin[s + 1], begin};
  }
  made->strand_count_ = strands;
  for (std::size_t i = 0; i < flat_->ops.size(); ++i) {
    const FlatOp& op = flat_->ops[i];
    const bool sends = op.kind == OpKind::send;
    const bool takes = op.kind == OpKind::recv || op.kind == OpKind::recv_reduce;
    const bool is_local = op.kind == OpKind::signal || op.kind == OpKind::wait;
    if (!sends && !takes && !is_local && op.kind != OpKind::copy) return nullptr;
    if (is_local && (op.event >= kMostEvents || op.threshold > 1)) return nullptr;
    if (op.bytes >= FillChoice::kLeastBytes || op.dst_buffer > schedule::kOutput || op.src_buffer > schedule::kOutput) return nullptr;
    if ((op.flags & schedule::kHeld) != 0) return nullptr;
    ShortCall::Step& step = made->steps_[i];
    step.kind = op.kind;
    step.event = is_local ? std::uint32_t{1} << op.event : 0;
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
  }
  made->find_exchange();
  return made;
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
    flat_at_[s] += static_cast<std::uint32_t>(strand.at - strand.begin);
    if (strand.begin != strand.end && strand.at == strand.end) --open_strands_;
    for (const ShortCall::Step* step = strand.begin; step != strand.at; ++step)
      if (step->kind == OpKind::signal) ++signals_[flat_->ops[static_cast<std::size_t>(step - begun.steps_.data())].event];
  }
}

[[gnu::always_inline]] inline bool ShortCall::take(const Step& step, const Operands& operands, const transport::Tag* tag) {
  const std::byte* data = nullptr;
  if (step.is_inline) {
    data = step.from->find_inline(step.bytes, tag);
    if (data == nullptr) return false;
  } else {
    const transport::Message* const message = step.from->peek();
    if (message == nullptr || message->bytes != step.bytes || (message->tag != nullptr) != (tag != nullptr)) return false;
    if (tag != nullptr && *message->tag != *tag) return false;
    data = message->data;
  }
  std::byte* const dst = (step.dst_buffer == schedule::kOutput ? operands.output : const_cast<std::byte*>(operands.input)) + step.dst;
  if (step.kind == OpKind::recv) {
    transport::shm::copy_message(dst, data, step.bytes);
  } else if (step.count > 0) {
    const std::byte* const own = (step.src_buffer == schedule::kOutput ? operands.output : operands.input) + step.src;
    (step.is_last_sum ? operands.combine_last : operands.combine_cached)(dst, own, data, step.count);
  }
  if (step.is_inline)
    step.from->release_inline();
  else
    step.from->release();
  return true;
}

[[gnu::always_inline]] inline bool ShortCall::perform(const Step& step, const Operands& operands, const transport::Tag& call) {
  const transport::Tag* const tag = step.is_tagged ? &call : nullptr;
  if (step.kind != OpKind::send && step.kind != OpKind::copy) return take(step, operands, tag);
  const std::byte* const src = (step.src_buffer == schedule::kOutput ? operands.output : operands.input) + step.src;
  if (step.kind == OpKind::send) return step.is_inline ? step.to->send_inline(src, step.bytes, tag) : step.to->send(src, step.bytes, tag);
  std::byte* const dst = (step.dst_buffer == schedule::kOutput ? operands.output : const_cast<std::byte*>(operands.input)) + step.dst;
  if (dst != src) transport::shm::copy_message(dst, src, step.bytes);
  return true;
}

void ShortCall::start() {
  for (std::size_t s = 0; s < strand_count_; ++s) strands_[s].at = strands_[s].begin;
  signalled_ = 0;
}

[[gnu::always_inline]] inline bool ShortCall::tell(const Operands& operands, const transport::Tag& tag) {
  const Step& told = *told_;
  const std::byte* const src = (told.src_buffer == schedule::kOutput ? operands.output : operands.input) + told.src;
  if (told.to->send_inline(src, told.bytes, told.is_tagged ? &tag : nullptr)) [[likely]]
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
bool ShortCall::advance(const Operands& operands, const transport::Tag& tag) {
  bool is_done = true;
  for (std::size_t s = 0; s < strand_count_; ++s) {
    const Step* at = strands_[s].at;
    const Step* const end = strands_[s].end;
    for (; at != end; ++at) {
      if (at->kind == OpKind::wait) {
        if ((signalled_ & at->event) == 0) break;
      } else if (at->kind == OpKind::signal) {
        signalled_ |= at->event;
      } else if (!perform(*at, operands, tag)) {
        break;
      }
    }
    strands_[s].at = at;
    is_done = is_done && at == end;
  }
  return is_done;
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
