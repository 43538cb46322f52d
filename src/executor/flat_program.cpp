#include <executor/plan.hpp>

namespace peal::executor {

using schedule::OpKind;

// Where one operand lies; false when it is not one run of memory.
bool Binding::flatten_ref(const schedule::Ref& ref, const schedule::BoundOp& bound, std::uint16_t& buffer, std::uint64_t& offset,
                          std::uint64_t& count) const {
  buffer = ref.buffer;
  if (ref.count == 0) {
    offset = count = 0;
    return true;
  }
  if (ref.count > 1 && !is_contiguous(ref.buffer)) return false;
  const std::int32_t first = bound.chunk(ref);
  const schedule::Extent begin = chunk(ref.buffer, first);
  const schedule::Extent last = ref.count == 1 ? begin : chunk(ref.buffer, first + ref.count - 1);
  offset = begin.offset * element_bytes_;
  count = last.offset + last.count - begin.offset;
  return true;
}

bool Binding::flatten_op(const schedule::BoundOp& bound, std::uint32_t position) {
  const schedule::Op& op = *bound.op;
  FlatOp flat;
  flat.kind = op.kind;
  flat.flags = op.flags;
  flat.channel = op.channel;
  flat.event = op.event;
  flat.peer = bound.peer;
  flat.op = position;
  flat.iteration[0] = bound.iteration[0];
  flat.iteration[1] = bound.iteration[1];
  std::uint64_t count = 0;
  switch (op.kind) {
    case OpKind::send:
      if (!flatten_ref(op.src, bound, flat.src_buffer, flat.src, flat.count)) return false;
      break;
    case OpKind::recv:
      if (!flatten_ref(op.dst, bound, flat.dst_buffer, flat.dst, flat.count)) return false;
      break;
    case OpKind::recv_reduce:
    case OpKind::copy:
      if ((op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0 || !flatten_ref(op.src, bound, flat.src_buffer, flat.src, count) ||
          !flatten_ref(op.dst, bound, flat.dst_buffer, flat.dst, flat.count) || count != flat.count)
        return false;
      break;
    case OpKind::signal:
    case OpKind::wait:
      if (bound.peer >= 0) return false;
      break;
    default: return false;
  }
  flat_.ops.push_back(flat);
  return flat_.ops.size() <= FlatProgram::kMostOps;
}

void Binding::flatten(const Plan& plan) {
  flat_.ops.clear();
  flat_.begin.clear();
  if (varied_ || !plan.pieced || pieces_.count != 1 || plan.protocol == schedule::Protocol::direct_read) return;
  std::vector<std::uint32_t> begin;
  for (std::size_t s = 0; s < plan.program.strands(); ++s) {
    begin.push_back(static_cast<std::uint32_t>(flat_.ops.size()));
    for (schedule::StrandCursor cursor(plan.program, s, 1); !cursor.done(); cursor.advance(plan.program)) {
      const schedule::BoundOp bound = cursor.current(plan.program);
      if (!flatten_op(bound, cursor.position())) return;
      if (bound.op->kind == OpKind::wait) flat_.ops.back().threshold = static_cast<std::int32_t>(bound.threshold(plan.program));
    }
  }
  begin.push_back(static_cast<std::uint32_t>(flat_.ops.size()));
  flat_.begin = std::move(begin);
}

}  // namespace peal::executor
