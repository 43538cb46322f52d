// Programs as people read them.
#include <fmt/format.h>

#include <schedule/schedule.hpp>

namespace peal::schedule {

std::string_view name_of(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::send: return "send";
    case OpKind::recv: return "recv";
    case OpKind::recv_reduce: return "recv_reduce";
    case OpKind::copy: return "copy";
    case OpKind::reduce: return "reduce";
    case OpKind::signal: return "signal";
    case OpKind::wait: return "wait";
    case OpKind::switch_reduce: return "switch_reduce";
    case OpKind::switch_multicast: return "switch_multicast";
    case OpKind::loop: return "loop";
    case OpKind::end_loop: return "end";
    case OpKind::recv_send: return "recv_send";
    case OpKind::recv_reduce_send: return "recv_reduce_send";
  }
  return "?";
}

namespace {

std::string steps(std::int32_t inner, std::int32_t outer) {
  std::string text;
  if (inner != 0) text += fmt::format("{:+}i", inner);
  if (outer != 0) text += fmt::format("{:+}j", outer);
  return text;
}

// output[2], output[4-i mod 8], scratch[3..5].
std::string text_of(const Ref& ref, std::int32_t modulus) {
  if (ref.count == 0) return "nothing";
  std::string buffer = ref.buffer == kInput ? "input" : ref.buffer == kOutput ? "output" : ref.buffer == kScratch ? "scratch" : "";
  if (is_wide(ref.buffer)) buffer = ref.buffer == kWideOutput ? "wide_output" : "wide_scratch";
  if (buffer.empty()) buffer = fmt::format("user{}", ref.buffer - kFirstUserBuffer);
  const std::string moving = steps(ref.step[0], ref.step[1]);
  std::string index = fmt::format("{}{}", ref.first, moving);
  if (ref.count > 1) index += fmt::format(" and {} more", ref.count - 1);
  if (modulus != 0 && !moving.empty()) index += fmt::format(" mod {}", modulus);
  return fmt::format("{}[{}]", buffer, index);
}

std::string peer_text(std::int32_t peer, std::int32_t step) { return fmt::format("{}{}", peer, steps(step, 0)); }

std::string flags_of(const Op& op) {
  std::string text;
  if ((op.flags & kFinish) != 0) text += ", finish";
  if (op.kind == OpKind::reduce && (op.flags & kCanonical) != 0) text += ", canonical";
  if (op.wire == Wire::fp32) text += sends(op.kind) && sent_wire(op) == Wire::element ? ", from fp32" : ", as fp32";
  if (op.channel != 0) text += fmt::format(", channel {}", op.channel);
  return text;
}

// Named by its first and last member: groups may be long.
std::string switch_text(const Op& op, const std::string& dst, const std::string& src, std::span<const Source> members) {
  std::string text = op.dst.count > 0 ? dst : "nothing";
  text += op.kind == OpKind::switch_reduce ? " = sum of " : " = ";
  text += op.src.count > 0 ? src : "what others bring";
  if (op.kind == OpKind::switch_reduce && op.dst.count > 0 && op.dst.count < op.src.count) text += fmt::format(", from {} on", op.operand);
  if (!members.empty()) text += fmt::format(" of {} ranks, {} to {}", members.size(), members.front().peer, members.back().peer);
  return text;
}

std::string body_of(const Op& op, std::span<const Source> sources) {
  const std::string dst = text_of(op.dst, op.modulus);
  const std::string src = text_of(op.src, op.modulus);
  const std::string peer = peer_text(op.peer, op.peer_step);
  const std::string peer2 = peer_text(op.peer2, op.peer_step);
  switch (op.kind) {
    case OpKind::send: return fmt::format("{} -> {}", src, peer);
    case OpKind::recv: return fmt::format("{} -> {}", peer, dst);
    case OpKind::recv_reduce: return fmt::format("{} -> {} = {} + .", peer, dst, src);
    case OpKind::recv_send: return fmt::format("{} -> {} -> {}", peer, dst, peer2);
    case OpKind::recv_reduce_send:
      if (is_wide(op.dst.buffer) && (op.flags & kStore) == 0) return fmt::format("{} -> {} + . -> {}", peer, src, peer2);
      return fmt::format("{} -> {} = {} + . -> {}", peer, dst, src, peer2);
    case OpKind::copy: {
      const std::string at = fmt::format(" of {}", peer);
      return fmt::format("{}{} = {}{}", dst, (op.flags & kRemoteDst) != 0 ? at : "", src, (op.flags & kRemoteSrc) != 0 ? at : "");
    }
    case OpKind::reduce: {
      std::string text = fmt::format("{} = {}", dst, src);
      for (const Source& source : sources.subspan(op.more, op.more_count)) {
        text += fmt::format(" + {}", text_of(source.ref, op.modulus));
        if (source.peer >= 0) text += fmt::format(" of {}", source.peer);
      }
      return text;
    }
    case OpKind::signal: return op.peer < 0 ? fmt::format("event {}", op.event) : fmt::format("event {} of {}", op.event, peer);
    case OpKind::wait: {
      const std::string from = op.peer < 0 ? "" : fmt::format(" from {}", peer);
      return fmt::format("event {}{} >= {}{}", op.event, from, op.operand, steps(op.src.step[0], op.src.step[1]));
    }
    case OpKind::loop: return fmt::format("{} times", op.operand);
    case OpKind::switch_reduce:
    case OpKind::switch_multicast: return switch_text(op, dst, src, sources.subspan(op.more, op.more_count));
    case OpKind::end_loop: return "";
  }
  return "";
}

}  // namespace

std::string to_text(const Op& op, std::span<const Source> sources) {
  const std::string body = body_of(op, sources);
  return fmt::format("{}{}{}{}", name_of(op.kind), body.empty() ? "" : " ", body, flags_of(op));
}

std::string to_text(const Program& program) {
  std::string text = fmt::format("rank {} of {}\n", program.rank, program.ranks);
  for (std::size_t s = 0; s < program.strands(); ++s) {
    text += fmt::format("  strand {}\n", s);
    std::size_t depth = 2;
    for (std::uint32_t i = program.strand_begin[s]; i < program.strand_begin[s + 1]; ++i) {
      const Op& op = program.ops[i];
      if (op.kind == OpKind::end_loop) --depth;
      text += fmt::format("{}{}\n", std::string(2 * depth, ' '), to_text(op, program.sources));
      if (op.kind == OpKind::loop) ++depth;
    }
  }
  return text;
}

}  // namespace peal::schedule
