// One call being executed: a program interpreted over a transport. Resumable: progress() goes as far as it can without blocking.
#pragma once

#include <base/clock.hpp>
#include <base/result.hpp>
#include <cstdint>
#include <executor/call_signature.hpp>
#include <executor/fill_choice.hpp>
#include <executor/late_receiver.hpp>
#include <executor/plan.hpp>
#include <executor/reference_choice.hpp>
#include <executor/short_call.hpp>
#include <executor/slow_reads.hpp>
#include <optional>
#include <reduce/combine.hpp>
#include <schedule/cursor.hpp>
#include <span>
#include <transport/channel.hpp>
#include <vector>

namespace peal::executor {

/// The caller's memory and arithmetic for one call.
struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  std::vector<UserBuffer> user;  ///< grouped send/recv: kFirstUserBuffer + i, which the program counts in bytes
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  double premul = 1.0;
  reduce::Stores stores = reduce::Stores::cached;  ///< for results that will not be read soon
  reduce::Reads reads = reduce::Reads::in_a_row;   ///< of long messages where they lie in another core's cache
  /// Messages of at least so many bytes (of a group: messages of buffers of so many) may stay where they lie until their receivers have
  /// read them, where the transport can show them. The plan must be right under direct_read. 0: none.
  std::uint64_t least_shown = 0;
  /// Messages of at least so many bytes may be sent as references (Sender::send_reference) where the transport has them, under the same
  /// condition. 0: none.
  std::uint64_t least_referenced = 0;
  std::uint64_t most_referenced = 0;  ///< of a group: bytes of the longest buffer of which that holds
  /// Above 0 between two ranks alone: calls that are read more slowly than so many nanoseconds a byte are spared references (SlowReads).
  double slow_read_ns = 0;
  /// Of a group of two ranks, above 0: whether they are is learnt from this call, too, in which so many bytes go to the peer.
  std::uint64_t bytes_learnt_by = 0;
  /// Finished sums may be written where the senders of such messages want them; the plan must be right when answered
  /// (schedule::is_right_when_answered).
  bool answers = false;
  // Worked out from type, op, stores and reads by resolve(): once a kind of call, not once a call.
  reduce::CombineFn combine_cached = nullptr;
  reduce::CombineFn combine_last = nullptr;
  reduce::CombineTwiceFn combine_twice = nullptr;
  bool scaled = false;    ///< premul_sum: raw reads of the input are multiplied
  bool averaged = false;  ///< avg: finished sums are divided

  /// To be called when type, op, stores or reads have changed and before the operands are used.
  void resolve(Collective collective);
};

/// One finished op, for the test that holds executor, simulator and verifier together.
struct Completion {
  std::uint32_t strand = 0;
  std::uint32_t op = 0;
  std::int32_t iteration[2] = {0, 0};
  std::int32_t piece = 0;
};

class Execution {
 public:
  /// `transport` outlives this object.
  Execution(transport::Transport& transport, int rank, int ranks);
  /// Messages of at least so many bytes that are kept in the same pass are copied in blocks (reduce::Both). 0: none. Before the first call.
  void keep_in_blocks(std::uint64_t least) {
    if (least > 0) least_in_blocks_ = least;
  }
  /// Whether senders are told of calls that go one way (transport::Sender::set_one_way). Before the first call.
  void tell_one_way(bool tells) { tells_one_way_ = tells; }
  /// Where ranks share cores. `is_beside`: by peer, whether it is bound to this rank's core. Before the first call.
  void share_core(std::vector<bool> is_beside) { fills_.share_core(std::move(is_beside)); }
  /// FillChoices::share. Before the first call.
  void share_ways(WaysFound& found, std::span<const int> job_ranks) { fills_.share(found, job_ranks); }

  /// Begins a call. Everything named must stay as it is until the call is done or failed. `tag` is to_tag(call).
  /// Point-to-point calls (collective send_recv) take their sequence numbers per edge.
  void start(const Plan& plan, const Binding& binding, const Operands& operands, const CallSignature& call, const transport::Tag& tag);

  /// The call that was just done, as it may be made again while plan, shape and kernels are the same; null where it is none of few short
  /// messages in shared memory.
  std::unique_ptr<ShortCall> shorten();
  /// After start(): goes on where `begun` stands, which is of this plan and shape.
  void go_on(const ShortCall& begun);

  /// Advances every strand as far as possible. True when anything moved.
  bool progress();
  bool done() const { return done_; }
  bool failed() const { return failed_; }
  /// Whether messages of the call that was started may be references; where that is learnt, whether they are.
  bool refers() const { return refers_; }
  /// Of two ranks, when the call is done: whether the other one's first message bore the mark (kByHalvesMark).
  bool peer_has_marked() const { return is_marked(tag_) != marks_differ_; }
  const Failure& failure() const { return failure_; }

  /// For "who are we waiting for": peers from whom a strand needs a message or room for one, at most one a strand.
  std::vector<int> awaited_peers() const;

  /// After a call that failed or was given up. Until this has returned, peers may still read and write the caller's memory; it waits for
  /// them, up to 0.2 s a message under way (Sender::withdraw_references, Receiver::give_up).
  void give_up();

  /// Every finished op is appended to `log` (not owned; null: none).
  void log_to(std::vector<Completion>* log) { log_ = log; }

 private:
  struct Strand {
    schedule::StrandCursor cursor;
    std::uint32_t message = 0;  // of a streamed op
    bool is_copied = false;     // what the copy ahead is to copy: it was done with a send
  };
  struct Edge {
    transport::Sender* sender = nullptr;
    transport::Receiver* receiver = nullptr;
    std::uint32_t sent_in = 0;      // the call that last sent on it
    std::uint32_t received_in = 0;  // the call that last received on it
    std::uint32_t sent_pairs = 0;   // point-to-point messages so far
    std::uint32_t received_pairs = 0;
    std::uint32_t sent_ahead = 0;  // pieces that have gone before their turn
    bool is_stored = false;        // what an op receives and sends on has been received, and waits for room
    LateReceiver late;
    std::uint64_t released = 0;  // Sender::released() while its receiver was awaited at the end
  };
  /// A finished sum that was written into the peer's memory too, where the peer wanted it.
  struct Answer {
    int peer;
    const std::byte* mine;
    std::byte* place;  // in the peer's memory
    std::size_t bytes;
  };
  /// Bytes that a row of sends takes to several peers.
  struct Copied {
    const void* row;
    transport::Sender* keeper = nullptr;  // null: they are not stored once
    const std::byte* room = nullptr;
    std::int64_t since_ns = 0;  // when there was no room first; 0: there was
  };
  /// A message that the next reduction reads where it came.
  struct Held {
    const std::byte* place;  ///< in scratch, where it would have been received
    const std::byte* data;
    transport::Receiver* from;
    bool is_read = false;
  };
  struct Readiness;
  using OpKind = schedule::OpKind;
  using BoundOp = schedule::BoundOp;
  using Ref = schedule::Ref;

  Edge& edge(int peer, int channel) { return edges_[edge_index(peer, channel, ranks_)]; }
  /// The ends of an edge, asked for once; null while the way to the peer is not there yet.
  transport::Sender* sender(std::uint32_t edge) {
    transport::Sender*& end = edges_[edge].sender;
    if (end == nullptr) [[unlikely]] {
      end = transport_->sender(peer_of(edge), channel_of(edge));
      note_socket(end);
    }
    return end;
  }
  transport::Receiver* receiver(std::uint32_t edge) {
    transport::Receiver*& end = edges_[edge].receiver;
    if (end == nullptr) [[unlikely]] {
      end = transport_->receiver(peer_of(edge), channel_of(edge));
      note_socket(end);
    }
    return end;
  }
  template <class End>
  void note_socket(const End* end) {
    has_sockets_ |= end != nullptr && end->poll_descriptor() >= 0;
  }
  int peer_of(std::uint32_t edge) const { return static_cast<int>(edge % static_cast<std::uint32_t>(ranks_)); }
  int channel_of(std::uint32_t edge) const { return static_cast<int>(edge / static_cast<std::uint32_t>(ranks_)); }

  void open_channels(std::size_t edges);
  void add_shown_steps(ShortCall& made, const FlatProgram& flat) const;
  void skip(const ShortCall& begun, const ShortCall::Step& step, std::size_t index);
  void start_flat();
  bool flush_flat();
  bool progress_flat();
  /// What a flat program is asked to do: `plain` neither scales what it reads nor divides what it has finished; `pairs` are sends and
  /// receives with a tag each.
  enum class Flat : std::uint8_t { plain, scaled, pairs };
  template <Flat kKind>
  bool advance_flat();
  template <Flat kKind>
  const FlatOp* run_flat(const FlatOp* op, const FlatOp* last);
  template <Flat kKind>
  bool flat_send(const FlatOp& op);
  bool flat_send_pair(const FlatOp& op, transport::Sender& to);
  bool flat_hold(const FlatOp& op, transport::Receiver& from);
  bool flat_recv_pair(const FlatOp& op, transport::Receiver& from);
  bool flat_send_scaled(const FlatOp& op, transport::Sender& to);
  template <Flat kKind>
  bool flat_recv(const FlatOp& op);
  template <Flat kKind>
  bool flat_recv_reduce(const FlatOp& op);
  template <Flat kKind>
  bool flat_recv_and_send(const FlatOp& op);
  bool flat_send_on(const FlatOp& op, transport::Sender& to);
  template <Flat kKind>
  void flat_copy(const FlatOp& op);
  void flat_reduce(const FlatOp& op);
  bool accept_flat(const FlatOp& op, std::size_t got, const transport::Tag* tag);
  bool refuse_flat(const FlatOp& op, std::size_t got, const transport::Tag* tag);
  std::byte* flat_dst(const FlatOp& op) const { return bases_[op.dst_buffer] + op.dst; }
  std::byte* flat_src(const FlatOp& op) const { return bases_[op.src_buffer] + op.src; }
  const transport::Tag* flat_tag(const FlatOp& op) const { return (op.flags & kTaggedSent) != 0 ? &tag_ : nullptr; }
  const UserBuffer& user_buffer(std::uint16_t buffer) const { return users_[buffer - schedule::kFirstUserBuffer]; }
  bool is_flat_raw(const FlatOp& op) const { return operands_->scaled && op.src_buffer == schedule::kInput; }
  void reject(int peer, bool is_marked, std::size_t got, std::size_t expected, const transport::Tag* tag, const CallSignature& mine);
  bool step(std::size_t strand);
  bool take_turn(std::size_t index);
  bool perform(const BoundOp& bound, Strand& strand);
  /// Ops that carry fp32 partial sums.
  bool perform_wide(const BoundOp& bound, const Strand& strand);
  bool send_wide(const BoundOp& bound, const Strand& strand);
  bool receive_wide(const BoundOp& bound, const Strand& strand);
  std::byte* wide_at(const Ref& ref, std::uint64_t offset) const;
  std::byte* place_beside(const BoundOp& bound, const Strand& strand, const std::byte* data, std::size_t bytes) const;
  bool do_send(const BoundOp& bound, Strand& strand);
  bool do_recv(const BoundOp& bound, const Strand& strand);
  bool is_taken_out_here(const BoundOp& bound, const Strand& strand, const transport::Receiver& from) const;
  bool do_recv_reduce(const BoundOp& bound, const Strand& strand);
  bool may_answer(const schedule::Op& op) const;
  std::byte* take_answer(int peer, const std::byte* data, std::size_t bytes);
  void combine_and_answer(const BoundOp& bound, std::byte* dst, const std::byte* src, const transport::Message& message,
                          std::uint64_t count, bool raw, bool finish);
  bool stays(const BoundOp& bound, transport::Sender& to, const std::byte* data, std::size_t bytes) const;
  std::byte* place_for_answer(const BoundOp& bound, const Strand& strand, transport::Sender& to);
  bool show(int peer, transport::Sender& to, const std::byte* data, std::size_t bytes, const transport::Tag* tag,
            std::byte* answer = nullptr);
  bool refers(const Ref& ref, const Edge& e, std::size_t bytes) const;
  bool can_show_result(const BoundOp& bound, const Strand& strand);
  bool recv_and_show(const BoundOp& bound, const Strand& strand);
  bool do_recv_and_send(const BoundOp& bound, const Strand& strand);
  /// Receives what is to be sent on where it is stored; `accept` once it has come. True when it has, and there is room to send it. Nothing
  /// is stored before there is.
  template <class Accept>
  bool receive_to_send(Edge& in, transport::Sender& to, std::byte* place, std::size_t bytes, Accept&& accept) {
    if (!in.is_stored) {
      if (!to.is_ready()) return false;
      if (!in.receiver->receive(place, bytes, &arrived_.bytes, &arrived_.tag, &arrived_.has_tag)) return false;
      if (!accept(arrived_.bytes, arrived_.has_tag ? &arrived_.tag : nullptr)) return false;
    }
    in.is_stored = to.acquire(bytes) == nullptr;
    return !in.is_stored;
  }
  void do_copy(const BoundOp& bound);
  void do_reduce(const BoundOp& bound);
  /// Slots hold copies, and an op of a plan in pieces receives one message: it may stay in its slot.
  bool may_hold(std::uint8_t flags, const transport::Receiver& from) const {
    return (flags & schedule::kHeld) != 0 && plan_->pieced && plan_->protocol == schedule::Protocol::staged && !shows_ &&
           from.reads_shared_memory();
  }
  const std::byte* find_held(const std::byte* place);
  void release_held();
  void finish_op(std::size_t index, Strand& strand, const BoundOp& bound);
  bool settle_end();
  bool stop_waiting(Edge& e);
  std::uint32_t awaited_edge(schedule::OpKind kind, std::uint32_t from, std::uint32_t to) const;

  schedule::Extent part(const Ref& ref, std::int32_t chunk, const BoundOp& bound, const Strand& strand) const;
  std::uint64_t elements(const Ref& ref, const BoundOp& bound, const Strand& strand) const;
  std::uint32_t messages_of(const BoundOp& bound) const;
  std::byte* base_of(std::uint16_t buffer) const;
  std::byte* at(const Ref& ref, std::uint64_t offset) const { return base_of(ref.buffer) + offset * element_; }
  /// Calls f(address, elements) for each contiguous run that `ref` covers in this message.
  template <class F>
  void each_run(const Ref& ref, const BoundOp& bound, const Strand& strand, F&& f) const;

  /// Sets runs_ to those that `ref` covers in this message.
  void find_runs(const Ref& ref, const BoundOp& bound, const Strand& strand);

  std::byte* place_of_sum(const BoundOp& bound, const Strand& strand) const;
  bool is_raw(const Ref& ref) const { return operands_->scaled && ref.buffer == schedule::kInput; }
  void combine(std::byte* dst, const std::byte* src, const std::byte* incoming, std::uint64_t count, bool raw, bool finish,
               reduce::CombineFn how) const;
  void pass_on(std::byte* room, std::byte* dst, const std::byte* src, const std::byte* incoming, std::uint64_t count, bool raw, bool finish,
               reduce::Stores slot) const;
  void copy_run(std::byte* dst, const std::byte* src, std::uint64_t count, bool raw, bool finish) const;
  /// Of one point-to-point message: numbered between its two ranks, with its own type and count.
  transport::Tag pair_tag(const UserBuffer& user, std::uint32_t sequence) const {
    return to_pair_tag(tag_, user.type, user.count, sequence);
  }
  bool is_counted(const BoundOp& bound) const;
  transport::Tag counted_tag(const Ref& ref, const BoundOp& bound) const;
  const transport::Tag* tag_to_send(Edge& e, const BoundOp& bound, const Strand& strand);
  bool note_sent(Edge& e, const Strand& strand);
  /// Whether a tag that is not `mine` differs from it in the mark alone; that is then noted for peer_has_marked().
  bool accept_other_mark(const transport::Tag& theirs, const transport::Tag& mine) {
    return marks_differ_ = differ_in_mark_alone(theirs, mine);
  }
  bool accept(const BoundOp& bound, const Strand& strand, std::size_t got, std::size_t expected, const transport::Tag* tag);
  void fail_call(Failure failure);
  /// True where a long message that is stored here as well goes out of the memory where it is stored, because the transport copies it
  /// anyway.
  static bool is_sent_from_memory(const transport::Sender& to, std::size_t bytes) {
    constexpr std::size_t kLong = 8 * 1024;
    return bytes >= kLong && !to.fills_shared_memory();
  }
  /// The same of a message that is stored as it comes, not reduced: then it is received where it is stored.
  static bool is_received_in_memory(const transport::Receiver& from, const transport::Sender& to, OpKind kind, std::uint8_t flags,
                                    std::size_t bytes) {
    return kind == OpKind::recv_send && (flags & schedule::kStore) != 0 && is_sent_from_memory(to, bytes) && !from.reads_shared_memory();
  }
  /// How a message of so many bytes is to be written into the memory that acquire() of this edge gives.
  FillChoice* fill_of(std::uint32_t edge, std::size_t bytes);
  /// `fill`, told whether this rank receives; null stays null.
  FillChoice* with_receives(FillChoice* fill);
  /// Whether this rank receives in this call; looked up where it is asked for, which short calls need not do.
  bool receives();
  /// Whether any of the channels that have been used has references at this moment.
  bool has_references() const;
  /// Whether a reference that is offered now may leave a part to this rank, which neither receives nor copies of its own meanwhile. A
  /// call's first message is taken while its sender makes its own copy: a part left to him would only be fetched by a second system call.
  bool has_time_to_help();
  /// Whether this rank copies from one place to another of its own in this call.
  bool copies() const;
  /// Whether this call's messages to its one peer are to be references. Of the two ranks the first decides, and the other goes by how that
  /// one sent in the last call of the kind: where they went different ways, both would be slower than with either.
  bool has_learnt_to_refer();
  // execution_ahead.cpp
  /// Whether two operands share no memory, whichever buffers they name.
  bool is_apart(const Ref& ref, const Ref& other) const;
  /// Whether messages of an op may go before their pieces have their turn: no other op has to do with its way, none writes what it sends,
  /// and none reads or writes where it receives.
  bool may_go_ahead(const schedule::Op& op, const Ref& ref) const;
  /// After a reference to a piece of the input: those to the next pieces, as far as that is right, there is room and it saves anything.
  void offer_ahead(const BoundOp& bound, const Strand& strand, Edge& e);
  /// Of a transfer that nothing else comes between, in messages of one op or in pieces: what comes after this message.
  std::uint64_t bytes_behind(const BoundOp& bound, const Strand& strand) const;
  bool send_run(const BoundOp& bound, const Strand& strand, const std::byte* data, std::size_t bytes, const transport::Tag* tag);
  bool send_some_way(const BoundOp& bound, const Strand& strand, const std::byte* data, std::size_t bytes, const transport::Tag* tag);
  bool copy_some_way(const BoundOp& bound, const Strand& strand, std::uint32_t edge, const std::byte* data, std::size_t bytes,
                     const transport::Tag* tag);
  void end_row(const void* row);
  bool send_large(std::uint32_t edge, const std::byte* data, std::size_t bytes, const transport::Tag* tag);
  bool send_once(const void* row, bool is_last, std::uint32_t edge, const std::byte* data, std::size_t bytes, const transport::Tag* tag);

  transport::Transport* transport_;
  int rank_;
  int ranks_;
  std::vector<Edge> edges_;  // of the channels that plans have named
  FillChoices fills_;        // of their sending ends
  struct LearntToRefer {
    ReferenceChoice choice;    // of rank 0
    bool peer_refers = false;  // in the last call
  };
  /// Whether this call, whose messages may be references, should go through slots.
  bool is_read_slowly();
  /// Such a call has ended, and its messages were references.
  void end_read();
  std::unique_ptr<SlowReads> slow_reads_;  // once there was such a call
  std::array<LearntToRefer, 2> learnt_;    // of messages of at most kWholeMessageBytes, and of longer ones
  LearntToRefer* learns_ = nullptr;        // by the call at hand; null: nothing is learnt by it
  std::uint64_t least_in_blocks_ = ~std::uint64_t{0};
  bool tells_one_way_ = false;
  KeptBeside kept_;  // of the send at hand
  std::vector<std::uint32_t> used_senders_;
  std::vector<int> unsettled_;  // peers that have not taken all that was sent to them, when all ops are done
  std::vector<Strand> strands_;
  const FlatProgram* flat_ = nullptr;                  // null: the program is interpreted op by op
  std::vector<std::uint32_t> flat_at_;                 // by strand
  std::byte* bases_[schedule::kFirstUserBuffer] = {};  // of input, output and scratch
  struct {
    std::size_t bytes = 0;
    transport::Tag tag;
    bool has_tag = false;
  } arrived_;  // by a plain receive of a flat program; here so that nobody clears it for each op
  std::size_t open_strands_ = 0;
  std::vector<std::int64_t> signals_;
  const Plan* plan_ = nullptr;
  const Binding* binding_ = nullptr;
  const Operands* operands_ = nullptr;
  const UserBuffer* users_ = nullptr;  // those of operands_
  CallSignature call_;
  transport::Tag tag_;
  transport::Tag edge_tag_;
  std::size_t element_ = 1;
  bool shows_ = false;
  bool refers_ = false;
  bool has_sockets_ = false;        // some edge that has been used
  std::optional<bool> receives_;    // the rank, in this call; nothing: nobody has asked
  bool has_offered_ = false;        // a reference, in this call
  bool marks_differ_ = false;       // the peer's of this call, and this rank's
  std::int64_t ends_since_ns_ = 0;  // since when all ops are done and no receiver that is awaited has come for anything; 0: not yet
  std::uint32_t call_id_ = 0;
  bool done_ = true;
  bool failed_ = false;
  Failure failure_;
  std::vector<Copied> copied_;   // each in the middle of its row; empty between calls
  std::vector<Held> held_;       // in the order in which they came; empty between calls
  std::vector<Answer> answers_;  // of this call
  std::size_t next_answer_ = 0;  // the first that may go back
  std::vector<const void*> sources_;
  std::vector<transport::Run> runs_;  // of the message at hand
  std::vector<Completion>* log_ = nullptr;
};

}  // namespace peal::executor
