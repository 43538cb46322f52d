#include <algorithm>
#include <base/names.hpp>
#include <executor/execution.hpp>

namespace peal::executor {

using schedule::OpKind;

namespace {
constexpr std::int64_t kLongestStayNs = 200'000;  // of a point-to-point message in its sender's memory, nobody coming for it
}  // namespace

/// Answers the rule of readiness (schedule/cursor.hpp) for this rank.
struct Execution::Readiness {
  Execution& execution;
  bool can_send(int peer, int channel) {
    const std::uint32_t edge = edge_index(peer, channel, execution.ranks_);
    transport::Sender* to = execution.sender(edge);
    return to != nullptr && (execution.edges_[edge].sent_ahead > 0 || to->is_ready());
  }
  bool can_receive(int peer, int channel) {
    const std::uint32_t edge = edge_index(peer, channel, execution.ranks_);
    transport::Receiver* from = execution.receiver(edge);
    return from != nullptr && (execution.edges_[edge].is_stored || from->has_begun());
  }
  std::int64_t signals(int event) const { return execution.signals_[static_cast<std::size_t>(event)]; }
  std::int64_t signals_from(int, int) const { return 0; }
};

Execution::Execution(transport::Transport& transport, int rank, int ranks) : transport_(&transport), rank_(rank), ranks_(ranks) {}

// Most plans name one channel, and a communicator may be one of hundreds.
void Execution::open_channels(std::size_t edges) {
  edges_.reserve(edges);
  edges_.resize(edges);
  fills_.resize(edges);
}

void Operands::resolve(Collective collective) {
  const bool reduces = has_reduction(collective);
  scaled = reduces && op == ReduceOp::premul_sum;
  averaged = reduces && op == ReduceOp::avg;
  const reduce::Kernels cached = reduces ? reduce::kernels_for(type, op, reduce::Stores::cached, reads) : reduce::Kernels{};
  combine_cached = cached.once;
  combine_twice = cached.twice;
  combine_last = reduces ? reduce::combine_for(type, op, stores, reads) : nullptr;
}

void Execution::start(const Plan& plan, const Binding& binding, const Operands& operands, const CallSignature& call,
                      const transport::Tag& tag) {
  const std::size_t edges = static_cast<std::size_t>(plan.program.channels) * static_cast<std::size_t>(ranks_);
  if (edges > edges_.size()) [[unlikely]]
    open_channels(edges);
  plan_ = &plan;
  binding_ = &binding;
  operands_ = &operands;
  users_ = operands.user.data();
  call_ = call;
  tag_ = tag;
  element_ = size_of(operands.type);
  shows_ = operands.least_shown > 0;
  receives_.reset();
  has_offered_ = false;
  marks_differ_ = false;
  learns_ = nullptr;
  refers_ = operands.least_referenced > 0 && (operands.bytes_learnt_by == 0 || has_learnt_to_refer());
  if (refers_ && operands.slow_read_ns > 0 && is_read_slowly()) refers_ = false;
  if (refers_ && has_sockets_ && !has_references()) refers_ = false;
  ends_since_ns_ = 0;
  answers_.clear();
  next_answer_ = 0;
  ++call_id_;
  used_senders_.clear();
  unsettled_.clear();
  if (!plan.program.event_quota.empty()) signals_.assign(plan.program.event_quota.size(), 0);
  const std::size_t strands = plan.program.strands();
  open_strands_ = 0;
  flat_ = !shows_ && !refers_ && binding.flat().is_flat() ? &binding.flat() : nullptr;
  done_ = false;
  failed_ = false;
  if (flat_ != nullptr) {
    start_flat();
    return;
  }
  if (strands_.size() != strands) strands_.resize(strands);
  for (std::size_t s = 0; s < strands; ++s) {
    strands_[s] = {schedule::StrandCursor(plan.program, s, binding.pieces().count), 0};
    if (!strands_[s].cursor.done()) ++open_strands_;
  }
}

bool Execution::receives() {
  const std::vector<schedule::Op>& ops = plan_->program.ops;
  if (!receives_) receives_ = std::any_of(ops.begin(), ops.end(), [](const schedule::Op& op) { return schedule::receives(op.kind); });
  return *receives_;
}

bool Execution::copies() const {
  const auto place = [&](const schedule::Ref& ref) { return at(ref, binding_->chunk(ref.buffer, ref.first).offset); };
  const std::vector<schedule::Op>& ops = plan_->program.ops;
  return std::any_of(ops.begin(), ops.end(),
                     [&](const schedule::Op& op) { return op.kind == schedule::OpKind::copy && place(op.dst) != place(op.src); });
}

bool Execution::has_references() const {
  return std::any_of(edges_.begin(), edges_.end(), [](const Edge& e) { return e.sender != nullptr && e.sender->has_references(); });
}

bool Execution::has_time_to_help() { return !receives() && (has_offered_ || !copies()); }

bool Execution::has_learnt_to_refer() {
  const std::uint32_t index = edge_index(1 - rank_, 0, ranks_);
  const transport::Sender* const to = edges_[index].sender;
  FillChoice* const fill = fills_.find(index);
  if (to == nullptr || fill == nullptr || !to->has_references() || !receives()) return false;
  const std::uint64_t message = plan_->message_bytes_of(operands_->user.front().bytes);
  learns_ = &learnt_[message > schedule::kWholeMessageBytes ? 1 : 0];
  if (rank_ > 0) return learns_->peer_refers;
  return learns_->choice.choose(operands_->bytes_learnt_by, fill->told(message), to->fetched());
}

bool Execution::is_read_slowly() {
  if (slow_reads_ == nullptr) slow_reads_ = std::make_unique<SlowReads>();
  return slow_reads_->spares(plan_, call_.count * element_);
}

void Execution::end_read() {
  const transport::Sender* const to = edges_[edge_index(1 - rank_, 0, ranks_)].sender;
  if (to != nullptr) slow_reads_->end(to->fetched(), operands_->slow_read_ns);
}

FillChoice* Execution::fill_of(std::uint32_t edge, std::size_t bytes) {
  transport::Sender& to = *edges_[edge].sender;
  if (bytes < fills_.least_bytes() || !to.fills_shared_memory()) return nullptr;
  if (bytes > schedule::kSlotMessageBytes / 2) to.set_one_way(tells_one_way_ && goes_one_way(call_.collective) && !receives());
  return with_receives(fills_.find(edge));
}

FillChoice* Execution::with_receives(FillChoice* fill) {
  if (fill != nullptr) fill->set_receives(receives());
  return fill;
}

bool Execution::progress() {
  if (done_ || failed_) return false;
  bool moved = false;
  if (flat_ != nullptr) {
    moved = progress_flat();
  } else {
    for (std::size_t s = 0; s < strands_.size() && !failed_; ++s) moved |= take_turn(s);
  }
  if (open_strands_ == 0 && !failed_ && (flat_ != nullptr ? flush_flat() : settle_end())) {
    done_ = true;
    if (learns_ != nullptr) learns_->peer_refers = edge(1 - rank_, 0).receiver->has_fetched();
    if (refers_ && slow_reads_ != nullptr) end_read();
    return true;
  }
  return moved;
}

// A strand's turn is one op through slots. By reference and by sockets it goes on through what only signals and waits, and through what is
// sent; what takes long otherwise is the first op of a turn, so that what a signal sets free is sent before anything is received
// (docs/decisions/strands-take-turns.md).
bool Execution::take_turn(std::size_t index) {
  const Strand& strand = strands_[index];
  const bool is_offered = shows_ || refers_;  // at once; a socket's buffer is filled by a copy
  const bool is_one_op = !is_offered && !has_sockets_;
  bool has_moved = false, has_acted = false;
  while (!strand.cursor.done() && !failed_) {
    const OpKind kind = strand.cursor.current(plan_->program).op->kind;
    const bool is_light = kind == OpKind::wait || kind == OpKind::signal;
    const bool may_follow = is_light || (kind == OpKind::send && (is_offered || !has_acted));
    if ((has_moved && !may_follow) || !step(index)) break;
    has_moved = true;
    has_acted |= !is_light;
    if (is_one_op) break;
  }
  return has_moved;
}

// The end of the program: nothing may be held back in a socket, and nobody may still read our memory.
bool Execution::settle_end() {
  unsettled_.clear();
  for (const std::uint32_t index : used_senders_) {
    Edge& e = edges_[index];
    bool is_settled = e.sender->flush();
    if ((refers_ || shows_) && !e.sender->is_drained() && !stop_waiting(e)) is_settled = false;
    if (!is_settled) unsettled_.push_back(peer_of(index));
  }
  return unsettled_.empty();
}

// A point-to-point message may be meant to be on its way when its receiver is not there yet: slots hold it then, and the next few. A
// receiver that takes one message after the other is there.
bool Execution::stop_waiting(Edge& e) {
  if (!refers_ || call_.collective != Collective::send_recv) return false;
  const std::int64_t now = now_ns();
  const std::uint64_t released = e.sender->released();
  if (ends_since_ns_ == 0 || released != e.released) ends_since_ns_ = now;
  e.released = released;
  if (now - ends_since_ns_ < kLongestStayNs || !e.sender->copy_references()) return false;
  e.late.note_late();
  return true;
}

void Execution::give_up() {
  copied_.clear();
  held_.clear();
  for (Edge& e : edges_) {
    if (e.sender != nullptr) e.sender->withdraw_references();
    if (e.receiver != nullptr) e.receiver->give_up();
    e.sent_ahead = 0;
    e.is_stored = false;
  }
}

bool Execution::step(std::size_t index) {
  Strand& strand = strands_[index];
  const BoundOp bound = strand.cursor.current(plan_->program);
  // A plain receive looks for its message itself: a stream can put it straight into place while it comes in.
  if (bound.op->kind != OpKind::recv && !schedule::may_start(bound, plan_->program, Readiness{*this})) return false;
  if (!perform(bound, strand)) return false;
  finish_op(index, strand, bound);
  return true;
}

void Execution::finish_op(std::size_t index, Strand& strand, const BoundOp& bound) {
  if (!plan_->pieced && ++strand.message < messages_of(bound)) return;
  strand.message = 0;
  if (log_ != nullptr)
    log_->push_back({static_cast<std::uint32_t>(index), strand.cursor.position(), {bound.iteration[0], bound.iteration[1]}, bound.piece});
  strand.cursor.advance(plan_->program);
  if (strand.cursor.done()) --open_strands_;
}

// A streamed op moves its extent in as many messages as it needs; both sides know the extent, so both know the number.
std::uint32_t Execution::messages_of(const BoundOp& bound) const {
  const OpKind kind = bound.op->kind;
  if (!schedule::sends(kind) && !schedule::receives(kind)) return 1;
  const Ref& ref = kind == OpKind::send ? bound.op->src : bound.op->dst;
  if (ref.count == 0) return 1;
  const std::uint64_t bytes = binding_->chunk(ref.buffer, bound.chunk(ref)).count * element_;
  const std::uint64_t most = plan_->message_bytes_of(bytes);
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + most - 1) / most);
}

// An op that receives and sends on waits for room once its message is there: then not for the rank that sent it, who may be done and gone.
std::uint32_t Execution::awaited_edge(OpKind kind, std::uint32_t from, std::uint32_t to) const {
  if (!schedule::receives(kind)) return to;
  transport::Receiver* const receiver = edges_[from].receiver;
  const bool has_come = edges_[from].is_stored || (receiver != nullptr && receiver->has_message());
  return schedule::sends(kind) && has_come ? to : from;
}

std::vector<int> Execution::awaited_peers() const {
  std::vector<int> peers;
  if (flat_ != nullptr) {
    for (std::size_t s = 0; s < flat_at_.size(); ++s) {
      if (flat_at_[s] == flat_->begin[s + 1]) continue;
      const FlatOp& op = flat_->ops[flat_at_[s]];
      if (schedule::receives(op.kind) || schedule::sends(op.kind)) peers.push_back(peer_of(awaited_edge(op.kind, op.from, op.to)));
    }
  } else if (plan_ != nullptr) {
    for (const Strand& strand : strands_) {
      if (strand.cursor.done()) continue;
      const BoundOp bound = strand.cursor.current(plan_->program);
      if (bound.peer < 0) continue;
      const std::uint32_t first = edge_index(bound.peer, bound.op->channel, ranks_);
      const bool is_fused = schedule::receives(bound.op->kind) && schedule::sends(bound.op->kind);
      const std::uint32_t to = is_fused ? edge_index(bound.peer2, bound.op->channel, ranks_) : first;
      peers.push_back(peer_of(awaited_edge(bound.op->kind, first, to)));
    }
    if (open_strands_ == 0) peers = unsettled_;
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace peal::executor
