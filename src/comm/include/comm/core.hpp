// The communicator inside: members, memory, plans, the call at hand, asynchronous work, faults. The C++ surface and every other front
// end stand on it; errors are Results here.
//
// One thread of the user's at a time; the progress thread (only once there is asynchronous work) shares the queue under a mutex.
#pragma once

#include <atomic>
#include <base/result.hpp>
#include <comm/area.hpp>
#include <comm/call.hpp>
#include <comm/huge_pages.hpp>
#include <comm/plans.hpp>
#include <comm/routes.hpp>
#include <comm/world.hpp>
#include <condition_variable>
#include <cstdint>
#include <executor/execution.hpp>
#include <executor/fault_board.hpp>
#include <executor/waiting.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <transport/shared_segment.hpp>
#include <transport/shm_slot_pool.hpp>
#include <transport/tcp.hpp>
#include <vector>

namespace peal::comm {

struct CoreOptions {
  std::int64_t timeout_ns = 0;  ///< longest wait without any movement in one call
  PlanWishes wishes;
  TransportChoice transport = TransportChoice::automatic;
  bool progress_thread = true;
  bool direct_read = true;  ///< messages may stay in their sender's memory until their receiver reads them there
  transport::Lending lending = transport::Lending::where_copies_are_slow;  ///< of pages to sockets; this one: as PEAL_LEND_PAGES says
  bool huge_pages = true;  ///< and such memory, where it is long and read again and again, may be moved to huge pages
};

/// Reads what is empty or zero in `options` from the settings.
Result<CoreOptions> complete(CoreOptions options);

/// The state of one asynchronous call, shared between its Work and the communicator.
struct WorkState {
  enum : int { kPending, kDone, kFailed };
  std::atomic<int> state{kPending};
  Failure failure;  ///< written before state becomes kFailed
};

/// One end of a grouped point-to-point transfer.
struct PairTransfer {
  const void* send = nullptr;  ///< exactly one of send and receive is used
  void* receive = nullptr;
  bool is_send = false;
  std::uint64_t count = 0;
  DataType type = DataType::u8;
  int peer = -1;
};

/// Page-aligned private memory that grows.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  Status grow(std::size_t bytes);
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A number for `b` among what belongs to `a`; odd, and well spread.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

class Core final : public FaultListener {
 public:
  /// The communicator of all ranks. Collective.
  static Result<std::shared_ptr<Core>> world(const bootstrap::Job& job, CoreOptions options);
  ~Core() override;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// True where more ranks run on this machine than it has cores for them: they take turns.
  bool shares_cores() const { return shares_cores_; }
  /// Ranks of this communicator on this host, ascending.
  const std::vector<int>& locals() const { return locals_; }
  /// This rank's position in locals().
  int local_rank() const { return local_rank_; }
  const bootstrap::Contact& contact(int rank) const;
  /// The number in the job of a rank of this communicator.
  int world_rank(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  World& job() { return *world_; }
  Plans& plans() { return *plans_; }
  const Routes& routes() const { return *routes_; }
  std::int64_t timeout_ns() const { return options_.timeout_ns; }

  /// Blocking.
  Status run(const Call& call);
  Status barrier();
  /// Asynchronous; calls start in the order in which they were given.
  Result<std::shared_ptr<WorkState>> start(const Call& call);
  /// All transfers of a group at once.
  Status run_group(std::span<const PairTransfer> transfers);
  Result<std::shared_ptr<WorkState>> start_group(std::span<const PairTransfer> transfers);
  /// Makes progress until `work` is decided or `deadline_ns` (monotonic, 0: none) is over. False: not yet decided.
  bool wait(WorkState& work, std::int64_t deadline_ns);

  /// Collective. Null for color < 0.
  Result<std::shared_ptr<Core>> split(int color, int key) { return split(color, key, options_.wishes); }
  /// The same, with other wishes for the plans of the new communicator.
  Result<std::shared_ptr<Core>> split(int color, int key, const PlanWishes& wanted);
  /// Collective: a segment that all ranks of the communicator map; they must be on one host. `head` zeroed bytes, and from the next page on
  /// a part of `part` bytes for each rank, in whole pages, which lies in that rank's NUMA domain. Both numbers are the same on all ranks.
  Result<transport::SharedSegment> share_segment(std::size_t head, std::size_t part, const char* label);

  /// Memory of one rank in a segment that the ranks of its host map.
  struct Parts {
    transport::SharedSegment segment;
    std::byte* own = nullptr;
    std::uint64_t id = 0;  ///< the same on all ranks, and no other segment's
  };
  /// Collective: for the ranks of each host a segment of `head` zeroed bytes and then a part for each rank, of as many bytes
  /// as that rank asks for, from a page on.
  Result<Parts> share_parts(std::size_t head, std::size_t bytes, const char* label);

  /// Records the fault for everybody. Any thread.
  void abort(const std::string& why);
  /// Ok, or the first fault.
  Status fault() const;
  /// What a wait that is no call waits for: whom, and what to say of it.
  struct Awaited {
    int peer = -1;
    std::string what;  ///< "signal 3 of rank 1"
    const char* operation = "";
  };
  /// Waits for `condition` with this communicator's way of waiting; ends with the fault or timeout otherwise. For windows.
  /// `awaited()` says for whom, and is asked only when the wait lasts.
  template <class Condition, class Who>
  Status wait_until(Condition&& condition, Who&& awaited);
  /// The algorithm, protocol and predicted time that the last blocking call used. Empty before the first.
  const executor::Plan* last_plan() const { return last_plan_; }
  /// By what a group sends so many bytes of private memory to `peer` where it receives as many: staged, or direct_read where they are read
  /// in place. Where two ranks learn which way is faster, what the last such group did.
  schedule::Protocol protocol_of_exchange(std::uint64_t bytes, int peer) const;

  // FaultListener
  std::uint64_t id() const override { return id_; }
  void on_rank_fault(int world_rank, ErrorCode code, const std::string& cause) override;
  void on_remote_fault(const executor::FaultRecord& fault) override;
  void on_remote_call(int world_rank, const executor::CallSignature& theirs) override;
  bool has_left(int world_rank) const override;

 private:
  /// A call on its way: what it needs, and nothing of the caller's stack.
  /// The plan of a group, which serves the next one with the same peers.
  struct Group {
    struct Last {
      std::uint64_t count = 0;
      std::uint32_t buffer = 0;  // its place in Operands::user
      int peer = -1;
      DataType type = DataType::u8;
      bool is_send = false;
    };
    std::vector<schedule::Transfer> sends, receives;
    std::unique_ptr<CachedPlan> made;  // null: not yet
    std::vector<Last> last;            // the transfers of the last call; empty where one of them was to this rank itself
  };
  struct Pending {
    CachedPlan* chosen = nullptr;   // null: a group's
    CachedPlan* plan = nullptr;     // the one chosen, or that which sums by halves
    bool may_be_by_halves = false;  // an all-reduce of two ranks, long enough
    Group group;
    executor::Shape shape;
    std::uint64_t bytes = 0;            // size_in_bytes of the call; a group's: not known
    std::vector<std::uint64_t> counts;  // what the spans of `shape` name, when asynchronous
    executor::Operands operands;
    executor::CallSignature call;
    transport::Tag tag;
    std::shared_ptr<WorkState> work;
  };
  /// The last blocking call of one collective: the next one that differs in nothing but its buffers takes everything from here.
  struct Prepared {
    Pending pending;
    bool is_valid = false;
    bool in_place = false;
    bool is_internal = false;
    std::unique_ptr<executor::ShortCall> again;  // null: not known, or not to be had
    bool is_tried = false;                       // that it is not to be had
    /// The same buffers lie to each other as they did.
    bool has_buffers_of(const Call& next) const {
      return next.send == static_cast<const void*>(pending.operands.input) &&
             next.receive == static_cast<const void*>(pending.operands.output);
    }
    /// But for whether they lie in place.
    bool matches(const Call& next) const {
      return is_valid && next.count == pending.shape.count && next.type == pending.operands.type && next.op == op && next.root == root &&
             next.is_internal == is_internal && (next.count == 0 || (next.send != nullptr && next.receive != nullptr));
    }
    ReduceOp op = ReduceOp::sum;
    int root = -1;
  };
  Core() = default;
  static constexpr int kManyLines = 1 << 16;  ///< as many as a layout has
  /// Where a new communicator comes from.
  struct Origin {
    Core* parent = nullptr;              // null: it is the job's own
    std::vector<int> parent_ranks = {};  // of each of its ranks
    Result<FileDescriptor> offer = {};   // the job's own: where its leader hands out the memory
    std::shared_ptr<Area> area = {};     // its memory, where the parent has it
    int most_lines = kManyLines;         // of a ring
  };
  static Result<std::shared_ptr<Core>> make(std::shared_ptr<World> world, std::uint64_t id, std::vector<int> members, int rank,
                                            std::shared_ptr<const tuning::Environment> environment, const CoreOptions& options,
                                            Origin origin);
  transport::ShmLayout layout_of(int locals, int most_lines) const;
  std::vector<bool> ranks_on_my_core() const;  ///< by rank, whether it is bound to this rank's core
  transport::ShmLayout layout() const;
  Status open_memory(Origin& origin);
  void borrow_slots(const Core* parent, const std::vector<int>& parent_ranks, std::size_t offset);
  Result<std::vector<std::uint32_t>> agree_on_seats(int color, int key);
  /// What a group of so many of this communicator's ranks on a host, or of fewer, needs of its area at once, and has of it at most.
  std::size_t head_of_area(int locals) const;
  std::size_t bytes_of_area(int most_locals) const;
  /// Maps the batch of that number on every rank of the host, or this rank has none of its areas.
  Status begin_batch(std::uint32_t number);
  Status open_routes(std::uint64_t most_by_sockets);
  Status open_tcp(Routes& routes, std::uint64_t message_bytes);
  void log_routes() const;
  /// The communicator that brings word of an offer of shared memory, and the number of its leader there.
  struct Herald {
    Core* core = nullptr;  // null: the offer stands already
    int leader = 0;
  };
  /// Tags of batches of areas; those of other segments count from 1.
  static constexpr std::uint64_t kBatchTag = std::uint64_t{1} << 63;
  /// What is shared: `head` bytes of it are allocated when others map it.
  struct Share {
    std::size_t bytes = 0;
    std::size_t head = 0;
    std::uint64_t tag = 0;
    const char* label = "";
  };
  Result<transport::SharedSegment> create_segment(const Share& share) const;
  Result<transport::SharedSegment> share_on_host(const Share& share, Herald herald, Result<FileDescriptor> offer);
  Result<transport::SharedSegment> share_everywhere(const Share& share, std::size_t offset, std::size_t bytes);
  /// More ranks than these tell each other of themselves by way of rank 0.
  static constexpr int kFewRanks = 16;
  Status run_own(Call call);
  Status exchange(const void* mine, void* all, std::size_t bytes);
  Status await_offer(Herald herald, std::uint64_t word, std::int64_t deadline_ns) const;
  void rest();

  Status prepare(const Call& call, Pending& pending);
  Status check_group(std::span<const PairTransfer> transfers) const;
  Status copy_own(std::span<const PairTransfer> transfers) const;
  static bool repeats(Pending& pending, std::span<const PairTransfer> transfers);
  void place_group(std::span<const PairTransfer> transfers, Pending& pending) const;
  bool serves(const Group& group, std::span<const PairTransfer> transfers) const;
  struct KnownGroup {
    Pending& pending;
    bool is_known;  ///< its plan is for these transfers
  };
  KnownGroup group_for(std::span<const PairTransfer> transfers);
  Status prepare_group(std::span<const PairTransfer> transfers, Pending& pending, bool is_known);
  void fit_to_plan(Pending& pending) const;
  CachedPlan* plan_by_marks(const Pending& pending);
  void choose_by_marks(Pending& pending);
  bool wants_halves(const Pending& pending);
  void note_marks(const Pending& pending, bool peer_has_marked);
  std::uint64_t least_shown(const Pending& pending);
  bool are_private(const executor::Operands& operands);
  std::uint64_t least_referenced(CachedPlan& plan, std::uint64_t bytes, bool is_overwritten) const;
  /// Nanoseconds a byte beyond which references are slower than slots (executor::Operands::slow_read_ns).
  double slow_read_ns() const;
  bool is_taken_out_in_lanes(const CachedPlan& plan) const;
  void prepare_pages(const Pending& pending);
  std::uint64_t most_referenced_in_groups() const;
  bool may_learn_to_refer() const;
  bool may_lend_pages() const;
  void have_learnt_by(Pending& pending) const;
  /// By what a group sends so many bytes of private memory to another rank where nothing is learnt.
  schedule::Protocol protocol_of_transfer(std::uint64_t bytes, int peer) const;
  void allow_references(Pending& pending) const;
  Status begin(Pending& pending, const executor::ShortCall* begun = nullptr);
  Status run_prepared(Pending& pending, const executor::ShortCall* begun = nullptr);
  executor::ShortCall* fit_to_buffers(Prepared& known, std::uint64_t version);
  Status run_again(Prepared& known);
  Status run_at_length(Prepared& known, const executor::ShortCall* begun);
  std::shared_ptr<WorkState> enqueue(Pending pending);
  Status drive_to_end();
  bool drive_queue();
  void settle_front(const Status& result);
  void progress_loop();

  /// One wait during which nothing has moved.
  struct LongWait {
    std::int64_t since_ns = 0;  // 0: nobody has looked around yet
    int departed_looks = 0;     // how often a peer that is waited for was found to have left
    int words = 0;              // how often peers on other hosts were told what this rank is in
  };
  Status look_around(LongWait& wait, const Awaited* awaited = nullptr);
  Status look_around_for_window(LongWait& wait, const Awaited& awaited, bool may_sleep);
  Status compare_calls(LongWait& wait, std::int64_t waited_ns);
  Status conclude(Failure failure);
  Failure timeout_failure() const;
  Failure timeout_failure(const Awaited& awaited) const;
  int departed_peer() const;

  std::shared_ptr<World> world_;
  std::uint64_t id_ = 0;
  std::vector<int> members_;  // world rank of each rank
  std::vector<int> locals_;
  int rank_ = 0;
  int local_rank_ = 0;
  CoreOptions options_;
  int most_lines_ = kManyLines;  // of its rings
  std::shared_ptr<Area> area_;
  AreaBatches batches_;                           // for its groups
  std::shared_ptr<transport::ShmSlotPool> pool_;  // null: shared memory carries no data
  std::vector<int> pool_numbers_;                 // of locals_
  executor::FaultBoard board_;
  ChoiceBoard choices_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<Plans> plans_;
  std::unique_ptr<executor::Execution> execution_;
  executor::WaitPolicy wait_policy_;
  bool shares_cores_ = false;
  bool lends_pages_ = false;           // its references are pages that are lent to sockets
  std::uint64_t most_referenced_ = 0;  // bytes of the longest buffer of a group that may be read in its sender's memory
  bool learns_to_refer_ = false;       // whether to send so is learnt
  bool has_referred_ = false;          // the last group by which that is learnt
  std::uint32_t sequence_ = 0;
  std::uint32_t splits_ = 0;
  std::uint32_t segments_ = 0;
  std::unique_ptr<Prepared> prepared_[kCollectiveCount];  // from the first call on
  /// Blocking; the one that was used last comes first. A pipeline's stage sends to two ranks and receives from them, in turn.
  static constexpr std::size_t kKnownGroups = 4;
  std::vector<std::unique_ptr<Pending>> groups_;
  const executor::Plan* last_plan_ = nullptr;
  /// Of two ranks, by size class: in the last all-reduce both had their buffers where the other reaches them, and wanted it by halves.
  /// Both know it alike when that call has ended, and so take the same plan for the next one.
  std::uint64_t by_halves_ = 0;
  Scratch scratch_;
  std::unique_ptr<HugePages> huge_pages_;  // once there was something long to be read

  std::mutex mutex_;  // guards the queue and everything that drives it, once is_queued_
  std::condition_variable changed_;
  std::list<Pending> queue_;  // an empty deque holds half a kilobyte
  bool is_queued_ = false;    // asynchronous work has been seen
  bool front_began_ = false;
  LongWait front_wait_;
  bool ending_ = false;
  std::thread progress_;
};

template <class Condition, class Who>
Status Core::wait_until(Condition&& condition, Who&& awaited) {
  executor::Backoff backoff(wait_policy_);
  LongWait quiet;
  while (!condition()) {
    const auto next = backoff.pause();
    if (next == executor::Backoff::Next::polled) continue;
    PEAL_TRY(look_around_for_window(quiet, awaited(), next == executor::Backoff::Next::sleep));
  }
  return {};
}

}  // namespace peal::comm
