#include <algorithm>
#include <executor/plan.hpp>
#include <limits>

namespace peal::executor {

using schedule::OpKind;

namespace {

// Marks the messages that carry a tag. False when two strands of the rank share an edge: then only the call itself knows which
// message comes first (the verifier accepts no such plan).
bool mark_tagged(FlatFrame& flat, bool all_are) {
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
      if (schedule::receives(op.kind) && (use(op.from, false, s) || all_are)) op.flags |= kTaggedReceived;
      if (!schedule::sends(op.kind)) continue;
      const bool is_first = use(op.to, true, s);
      if (is_first) flat.first_sent.push_back(op.to);
      if (is_first || all_are) op.flags |= kTaggedSent;
    }
  }
  return is_unshared;
}

bool has_dst(OpKind kind) { return kind != OpKind::send && kind != OpKind::signal && kind != OpKind::wait; }
bool has_src(OpKind kind) {
  return kind == OpKind::send || kind == OpKind::copy || kind == OpKind::reduce || kind == OpKind::recv_reduce ||
         kind == OpKind::recv_reduce_send;
}

class Unroller {
 public:
  Unroller(const Plan& plan, std::int32_t pieces) : plan_(plan), pieces_(pieces) {
    const schedule::Layouts& layouts = plan.layouts;
    varied_ = layouts.input.partition == schedule::Partition::varied || layouts.output.partition == schedule::Partition::varied;
    outputs_ = static_cast<std::uint32_t>(layouts.input.chunks());
    nothing_ = outputs_ + static_cast<std::uint32_t>(layouts.output.chunks());
  }

  /// False when the program is too long, or an op of it cannot be looked up ahead.
  bool walk() {
    const schedule::Program& program = plan_.program;
    std::vector<std::uint32_t> begin;
    for (std::size_t s = 0; s < program.strands(); ++s) {
      begin.push_back(static_cast<std::uint32_t>(frame_.ops.size()));
      for (schedule::StrandCursor cursor(program, s, pieces_); !cursor.done(); cursor.advance(program))
        if (!add(cursor)) return false;
    }
    begin.push_back(static_cast<std::uint32_t>(frame_.ops.size()));
    frame_.begin = std::move(begin);
    return true;
  }
  FlatFrame& frame() { return frame_; }

 private:
  // Which chunks an operand takes; false when they may not be one run of memory.
  bool add_ref(const schedule::Ref& ref, const schedule::BoundOp& bound, std::uint8_t& buffer, FlatChunks& chunks) const {
    const bool is_contiguous = (ref.buffer != schedule::kScratch || !plan_.layouts.scratch_is_compact) && !varied_ && pieces_ == 1;
    if (ref.buffer > std::numeric_limits<std::uint8_t>::max() || (ref.count > 1 && !is_contiguous)) return false;
    buffer = static_cast<std::uint8_t>(ref.buffer);
    chunks = {ref.count == 0 ? 0 : bound.chunk(ref), ref.count};
    return true;
  }

  bool add(const schedule::StrandCursor& cursor);
  bool add_sources(const schedule::BoundOp& bound, FlatOp& flat);
  std::uint32_t table_index(std::uint8_t buffer, FlatChunks chunks) const;
  void find_extents(FlatRefs& refs, const FlatOp& op) const;

  const Plan& plan_;
  std::int32_t pieces_;
  bool varied_ = false;
  std::uint32_t outputs_ = 0;  // where the extents of output begin in the binding's table
  std::uint32_t nothing_ = 0;  // the one without elements
  FlatFrame frame_;
};

bool Unroller::add(const schedule::StrandCursor& cursor) {
  const schedule::BoundOp bound = cursor.current(plan_.program);
  const schedule::Op& op = *bound.op;
  FlatOp flat;
  FlatRefs refs;
  refs.has_dst = has_dst(op.kind);
  refs.has_src = has_src(op.kind);
  refs.piece = bound.piece;
  if (!plan_.pieced && (schedule::sends(op.kind) || schedule::receives(op.kind))) refs.most_bytes = plan_.longest_message();
  flat.kind = op.kind;
  flat.flags = op.flags;
  flat.event = op.event;
  if (op.kind == OpKind::send) {
    const schedule::SameSends same = cursor.same_sends(plan_.program);
    if (std::max(same.before, same.after) >= static_cast<std::int32_t>(FlatProgram::kMostOps)) return false;
    flat.same_before = static_cast<std::uint8_t>(same.before);
    flat.same_after = static_cast<std::uint8_t>(same.after);
  }
  const std::int32_t target = op.kind == OpKind::send ? bound.peer : bound.peer2;
  if (schedule::receives(op.kind)) flat.from = edge_index(bound.peer, op.channel, plan_.program.ranks);
  if (schedule::sends(op.kind)) flat.to = edge_index(target, op.channel, plan_.program.ranks);
  const bool waits = op.kind == OpKind::signal || op.kind == OpKind::wait;
  if (waits ? bound.peer >= 0 : !refs.has_dst && !refs.has_src) return false;
  if ((op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0) return false;
  if (refs.has_dst && !add_ref(op.dst, bound, flat.dst_buffer, refs.dst)) return false;
  if (refs.has_src && !add_ref(op.src, bound, flat.src_buffer, refs.src)) return false;
  if (op.kind == OpKind::wait) flat.threshold = static_cast<std::int32_t>(bound.threshold(plan_.program));
  if (op.kind == OpKind::reduce && !add_sources(bound, flat)) return false;
  find_extents(refs, flat);
  frame_.ops.push_back(flat);
  frame_.refs.push_back(refs);
  frame_.origins.push_back({cursor.position(), {bound.iteration[0], bound.iteration[1]}});
  return frame_.ops.size() <= FlatProgram::kMostOps;
}

bool Unroller::add_sources(const schedule::BoundOp& bound, FlatOp& flat) {
  const schedule::Op& op = *bound.op;
  flat.more = static_cast<std::uint32_t>(frame_.sources.size());
  flat.more_count = op.more_count;
  for (std::uint32_t i = 0; i < op.more_count; ++i) {
    const schedule::Source& source = plan_.program.sources[op.more + i];
    FlatSource place;
    if (source.peer >= 0 || !add_ref(source.ref, bound, place.buffer, place.chunks)) return false;
    frame_.sources.push_back(place);
  }
  return true;
}

// Where the table says what a plain operand takes.
std::uint32_t Unroller::table_index(std::uint8_t buffer, FlatChunks chunks) const {
  if (chunks.count == 0) return nothing_;
  return (buffer == schedule::kInput ? 0 : outputs_) + static_cast<std::uint32_t>(chunks.first);
}

void Unroller::find_extents(FlatRefs& refs, const FlatOp& op) const {
  const auto is_plain = [](std::uint8_t buffer, FlatChunks chunks) {
    return chunks.count == 0 || (chunks.count == 1 && (buffer == schedule::kInput || buffer == schedule::kOutput));
  };
  refs.is_plain = pieces_ == 1 && op.kind != OpKind::reduce && is_plain(op.dst_buffer, refs.dst) && is_plain(op.src_buffer, refs.src);
  if (!refs.is_plain) return;
  refs.dst_at = table_index(op.dst_buffer, refs.dst);
  refs.src_at = table_index(op.src_buffer, refs.src);
  refs.length_at = refs.has_dst ? refs.dst_at : refs.src_at;
  refs.same_at = refs.has_src ? refs.src_at : refs.length_at;
}

}  // namespace

std::shared_ptr<const FlatFrame> unroll(const Plan& plan, bool are_pairs, std::int32_t pieces) {
  Unroller unroller(plan, pieces);
  if (!unroller.walk() || !mark_tagged(unroller.frame(), are_pairs)) return std::make_shared<const FlatFrame>();
  return std::make_shared<const FlatFrame>(unroller.frame());  // a copy, without the room that growing leaves
}

// In bytes from the base of the buffer, and in elements.
schedule::Extent Binding::place_of(std::uint8_t buffer, FlatChunks chunks, std::int32_t piece) const {
  if (chunks.count == 0) return {};
  const schedule::Extent begin = pieces_.of(chunk(buffer, chunks.first), piece);
  const schedule::Extent last = chunks.count == 1 ? begin : chunk(buffer, chunks.first + chunks.count - 1);
  return {begin.offset * element_bytes_, last.offset + last.count - begin.offset};
}

[[gnu::always_inline]] inline bool Binding::place_plain(FlatOp& op, const FlatRefs& refs) const {
  const schedule::Extent* const table = chunks_.data();
  op.dst = table[refs.dst_at].offset * element_bytes_;
  op.src = table[refs.src_at].offset * element_bytes_;
  op.count = table[refs.length_at].count;
  op.bytes = op.count * element_bytes_;
  return op.bytes <= refs.most_bytes && table[refs.same_at].count == op.count;
}

bool Binding::place_general(FlatOp& op, const FlatRefs& refs, std::span<FlatSource> sources) const {
  const schedule::Extent src = place_of(op.src_buffer, refs.src, refs.piece);
  const schedule::Extent dst = place_of(op.dst_buffer, refs.dst, refs.piece);
  op.src = src.offset;
  op.dst = dst.offset;
  op.count = refs.has_dst ? dst.count : src.count;
  op.bytes = op.count * element_bytes_;
  if (op.bytes > refs.most_bytes || (refs.has_dst && refs.has_src && src.count != dst.count)) return false;
  for (FlatSource& source : sources.subspan(op.more, op.more_count)) {
    const schedule::Extent place = place_of(source.buffer, source.chunks, refs.piece);
    if (place.count != op.count) return false;
    source.offset = place.offset;
  }
  return true;
}

// False when an op of this shape is more than one message, or takes operands of different lengths.
bool Binding::place(FlatProgram& flat) const {
  const std::size_t ops = flat.ops.size();
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < ops; ++i) {
    FlatOp& op = flat.ops[i];
    const FlatRefs& refs = flat.frame->refs[i];
    if (refs.is_plain ? !place_plain(op, refs) : !place_general(op, refs, flat.sources)) return false;
    most = std::max(most, op.bytes);
  }
  flat.most_bytes = most;
  return true;
}

void FlatProgram::adopt(std::shared_ptr<const FlatFrame> unrolled) {
  ops = unrolled->ops;
  sources = unrolled->sources;
  origins = unrolled->origins;
  begin = unrolled->begin;
  first_sent = unrolled->first_sent;
  frame = std::move(unrolled);
}

void Binding::flatten(const Plan& plan) {
  flat_.is_placed = false;
  if (pieces_.count != 1 || plan.wide_partials) return;
  if (flat_.frame == nullptr) flat_.adopt(plan.frame != nullptr ? plan.frame : unroll(plan, false));
  flat_.is_placed = !flat_.begin.empty() && place(flat_);
}

FlatProgram Binding::flat_in_pieces(const Plan& plan) const {
  if (pieces_.count == 1) return flat_;
  FlatProgram flat;
  if (plan.wide_partials) return flat;
  flat.adopt(unroll(plan, false, pieces_.count));
  flat.is_placed = !flat.begin.empty() && place(flat);
  return flat;
}

}  // namespace peal::executor
