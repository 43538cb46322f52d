#include <algorithm>
#include <executor/plan.hpp>

namespace peal::executor {

using schedule::OpKind;

namespace {

// Marks the first message of every edge. False when two strands of the rank share an edge: then only the call itself knows which
// comes first (the verifier accepts no such plan).
bool mark_first_messages(FlatProgram& flat) {
  struct Use {
    std::uint32_t edge;
    bool sends;
    std::size_t strand;
  };
  std::vector<Use> uses;
  bool is_unshared = true;
  // True when this is the edge's first message.
  const auto use = [&](std::uint32_t edge, bool sends, std::size_t strand) {
    const auto known = std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.edge == edge && u.sends == sends; });
    if (known == uses.end()) {
      uses.push_back({edge, sends, strand});
      return true;
    }
    if (known->strand != strand) is_unshared = false;
    return false;
  };
  for (std::size_t s = 0; s + 1 < flat.begin.size(); ++s) {
    for (std::uint32_t at = flat.begin[s]; at < flat.begin[s + 1]; ++at) {
      FlatOp& op = flat.ops[at];
      if (schedule::receives(op.kind) && use(op.from, false, s)) op.flags |= kFirstReceived;
      if (schedule::sends(op.kind) && use(op.to, true, s)) {
        op.flags |= kFirstSent;
        flat.first_sent.push_back(op.to);
      }
    }
  }
  return is_unshared;
}

}  // namespace

// Where one operand lies; false when it is not one run of memory.
bool Binding::flatten_ref(const schedule::Ref& ref, const schedule::BoundOp& bound, std::uint8_t& buffer, std::uint64_t& offset,
                          std::uint64_t& count) const {
  if (ref.buffer >= schedule::kFirstUserBuffer) return false;
  buffer = static_cast<std::uint8_t>(ref.buffer);
  offset = count = 0;
  if (ref.count == 0) return true;
  if (ref.count > 1 && !is_contiguous(ref.buffer)) return false;
  const std::int32_t first = bound.chunk(ref);
  const schedule::Extent begin = chunk(ref.buffer, first);
  const schedule::Extent last = ref.count == 1 ? begin : chunk(ref.buffer, first + ref.count - 1);
  offset = begin.offset * element_bytes_;
  count = last.offset + last.count - begin.offset;
  return true;
}

bool Binding::flatten_op(const Plan& plan, const schedule::BoundOp& bound, std::uint32_t position) {
  const schedule::Op& op = *bound.op;
  FlatOp flat;
  flat.kind = op.kind;
  flat.flags = op.flags;
  flat.event = op.event;
  const std::int32_t target = op.kind == OpKind::send ? bound.peer : bound.peer2;
  if (schedule::receives(op.kind)) flat.from = edge_index(bound.peer, op.channel, plan.program.ranks);
  if (schedule::sends(op.kind)) flat.to = edge_index(target, op.channel, plan.program.ranks);
  std::uint64_t read = 0;  // elements of src, where there is a dst too
  switch (op.kind) {
    case OpKind::send:
      if (!flatten_ref(op.src, bound, flat.src_buffer, flat.src, flat.count)) return false;
      break;
    case OpKind::recv:
    case OpKind::recv_send:
      if (!flatten_ref(op.dst, bound, flat.dst_buffer, flat.dst, flat.count)) return false;
      break;
    case OpKind::copy:
    case OpKind::recv_reduce:
    case OpKind::recv_reduce_send:
    case OpKind::reduce:
      if ((op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0 || !flatten_ref(op.src, bound, flat.src_buffer, flat.src, read) ||
          !flatten_ref(op.dst, bound, flat.dst_buffer, flat.dst, flat.count) || read != flat.count)
        return false;
      break;
    case OpKind::signal:
    case OpKind::wait:
      if (bound.peer >= 0) return false;
      break;
    default: return false;
  }
  flat.bytes = flat.count * element_bytes_;
  if (op.kind == OpKind::reduce) {
    flat.more = static_cast<std::uint32_t>(flat_.sources.size());
    flat.more_count = op.more_count;
    for (std::uint32_t i = 0; i < op.more_count; ++i) {
      const schedule::Source& source = plan.program.sources[op.more + i];
      FlatSource place;
      if (source.peer >= 0 || !flatten_ref(source.ref, bound, place.buffer, place.offset, read) || read != flat.count) return false;
      flat_.sources.push_back(place);
    }
  } else if (op.kind == OpKind::wait) {
    flat.threshold = static_cast<std::int32_t>(bound.threshold(plan.program));
  } else if (!plan.pieced && (schedule::sends(op.kind) || schedule::receives(op.kind)) && flat.bytes > plan.message_bytes) {
    return false;  // a stream of several messages
  }
  flat_.ops.push_back(flat);
  flat_.origins.push_back({position, {bound.iteration[0], bound.iteration[1]}});
  return flat_.ops.size() <= FlatProgram::kMostOps;
}

void Binding::flatten(const Plan& plan) {
  flat_.ops.clear();
  flat_.origins.clear();
  flat_.sources.clear();
  flat_.first_sent.clear();
  flat_.begin.clear();
  if (pieces_.count != 1 || plan.protocol == schedule::Protocol::direct_read) return;
  std::vector<std::uint32_t> begin;
  for (std::size_t s = 0; s < plan.program.strands(); ++s) {
    begin.push_back(static_cast<std::uint32_t>(flat_.ops.size()));
    for (schedule::StrandCursor cursor(plan.program, s, 1); !cursor.done(); cursor.advance(plan.program))
      if (!flatten_op(plan, cursor.current(plan.program), cursor.position())) return;
  }
  begin.push_back(static_cast<std::uint32_t>(flat_.ops.size()));
  flat_.begin = std::move(begin);
  if (!mark_first_messages(flat_)) flat_.begin.clear();
}

}  // namespace peal::executor
