// Calls: from the user's arguments to a finished execution, blocking or queued.
#include <algorithm>
#include <base/clock.hpp>
#include <base/names.hpp>
#include <base/pages.hpp>
#include <comm/core.hpp>
#include <reduce/copy.hpp>
#include <schedule/registry.hpp>
#include <span>
#include <tuning/message_cost.hpp>
#include <tuning/plan.hpp>
#include <tuning/select.hpp>
#include <utility>

namespace peal::comm {

namespace {

constexpr int kPollsALock = 64;
constexpr std::uint64_t kLeastShownBytes = 4096;  // below, a copy costs less than the longer way through the program

executor::Shape shape_of(const Call& call, int rank) {
  executor::Shape shape;
  shape.count = call.count;
  shape.element_bytes = size_of(call.type);
  const auto own = static_cast<std::size_t>(rank);
  if (call.collective == Collective::all_gather_v) shape.count = call.receive_counts[own];
  if (call.collective == Collective::reduce_scatter_v) shape.count = call.send_counts[own];
  shape.input_counts = call.send_counts;
  shape.input_displs = call.send_displs;
  shape.output_counts = call.receive_counts;
  shape.output_displs = call.receive_displs;
  return shape;
}

struct Blocks {
  std::uint64_t first = 0, end = 0;  // elements
};

// Where blocks of these counts lie, if without gaps: what lies in a gap need not be the caller's.
Blocks place_of_blocks(std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displs) {
  Blocks all;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    all.first = sum == 0 ? displs[i] : std::min(all.first, displs[i]);
    all.end = std::max(all.end, displs[i] + counts[i]);
    sum += counts[i];
  }
  return sum == all.end - all.first ? all : Blocks{};
}

// The spans of an asynchronous call must not name the caller's arrays.
void keep_counts(executor::Shape& shape, std::vector<std::uint64_t>& kept) {
  std::span<const std::uint64_t>* spans[] = {&shape.input_counts, &shape.input_displs, &shape.output_counts, &shape.output_displs};
  std::size_t total = 0;
  for (const auto* span : spans) total += span->size();
  kept.reserve(total);
  for (auto* span : spans) {
    const std::size_t at = kept.size();
    kept.insert(kept.end(), span->begin(), span->end());
    *span = {kept.data() + at, span->size()};
  }
}

}  // namespace

// What of a prepared call depends on its plan.
[[gnu::always_inline]] inline void Core::fit_to_plan(Pending& pending) const {
  CachedPlan& plan = *pending.plan;
  executor::Operands& operands = pending.operands;
  operands.reads = is_taken_out_in_lanes(plan) ? reduce::reads_for(pending.bytes, operands.stores) : reduce::Reads::in_a_row;
  pending.call.plan = plan.plan->hash;
  pending.tag = executor::to_tag(pending.call);
  operands.least_referenced = least_referenced(plan, pending.bytes, plan.key.in_place && plan.key.collective == Collective::all_reduce);
  operands.slow_read_ns = operands.least_referenced > 0 ? slow_read_ns() : 0;
  operands.resolve(plan.key.collective);
}

Status Core::prepare(const Call& call, Pending& pending) {
  PEAL_TRY(check(call, rank_, size()));
  if (board_.is_set()) return fault();
  const std::uint64_t bytes = pending.bytes = size_in_bytes(call, size());
  PlanKey key;
  key.collective = call.collective;
  key.type = call.type;
  key.op = has_reduction(call.collective) ? call.op : ReduceOp::sum;
  key.size_class = size_class_of(bytes);
  key.in_place = is_in_place(call, rank_, size());
  key.use = call.is_internal ? PlanUse::internal : PlanUse::call;
  key.root = has_root(call.collective) ? call.root : -1;
  PEAL_ASSIGN(pending.chosen, plans_->find(key));
  pending.plan = pending.chosen;
  pending.may_be_by_halves = tuning::is_faster_by_halves(bytes, true) && call.collective == Collective::all_reduce && size() == 2;
  pending.shape = shape_of(call, rank_);
  executor::Operands& operands = pending.operands;
  operands.input = static_cast<const std::byte*>(call.send);
  operands.output = static_cast<std::byte*>(call.receive);
  operands.type = call.type;
  operands.op = key.op;
  operands.premul = call.premul;
  // In place the lines of a large result are in the caches already, and writing past them costs more (bench/RESULTS.md).
  operands.stores = key.in_place                    ? reduce::Stores::cached
                    : has_reduction(key.collective) ? reduce::stores_for(bytes)
                                                    : reduce::stores_for_copied(bytes);
  executor::CallSignature& signature = pending.call;
  signature.collective = call.collective;
  signature.type = call.type;
  signature.op = key.op;
  signature.root = key.root;
  signature.count = varies(call.collective) ? 0 : call.count;
  signature.sequence = ++sequence_;
  fit_to_plan(pending);
  return {};
}

// Whether this rank would have an all-reduce of two summed by halves: all its buffers lie where the other reaches them.
bool Core::wants_halves(const Pending& pending) {
  if (world_->user_segments()->version() == 0) return false;
  const executor::Operands& operands = pending.operands;
  if (!tuning::is_faster_by_halves(pending.bytes, pending.chosen->key.in_place)) return false;
  return routes_->can_show(operands.input, pending.bytes) && routes_->can_show(operands.output, pending.bytes) &&
         plans_->by_halves(*pending.chosen) != nullptr;
}

// By what both ranks said in the last call like it.
CachedPlan* Core::plan_by_marks(const Pending& pending) {
  if (!pending.may_be_by_halves || (by_halves_ >> pending.chosen->key.size_class & 1) == 0) return pending.chosen;
  CachedPlan* const by_halves = plans_->by_halves(*pending.chosen);
  return by_halves == nullptr ? pending.chosen : by_halves;
}

void Core::choose_by_marks(Pending& pending) {
  CachedPlan* const plan = plan_by_marks(pending);
  if (std::exchange(pending.plan, plan) != plan) fit_to_plan(pending);
  executor::set_mark(pending.tag, wants_halves(pending));
}

void Core::note_marks(const Pending& pending, bool peer_has_marked) {
  const std::uint64_t bit = std::uint64_t{1} << pending.chosen->key.size_class;
  by_halves_ = executor::is_marked(pending.tag) && peer_has_marked ? by_halves_ | bit : by_halves_ & ~bit;
}

// What is fetched by reference lies in this core's own cache.
bool Core::is_taken_out_in_lanes(const CachedPlan& plan) const {
  return plan.plan->protocol != schedule::Protocol::direct_read && plans_->environment()->memory.is_read_in_lanes;
}

// Neither lies in memory that ranks share.
bool Core::are_private(const executor::Operands& operands) {
  return !routes_->can_show(operands.input, 1) && !routes_->can_show(operands.output, 1);
}

// What stays in the sender's memory ties its call to those who read it. A message of a group may be meant to be on its way when the
// receiver is not there yet, so there only those stay that could not be held in slots either.
std::uint64_t Core::least_shown(const Pending& pending) {
  const executor::Operands& operands = pending.operands;
  if (pending.group.made != nullptr) {
    const std::uint64_t held = layout().held_bytes();
    const auto is_shown = [&](const executor::UserBuffer& each) { return each.bytes > held && routes_->can_show(each.data, each.bytes); };
    return std::any_of(operands.user.begin(), operands.user.end(), is_shown) ? held + 1 : 0;
  }
  const executor::FlatProgram& flat = pending.plan->binding->flat();
  if (flat.is_flat() && flat.most_bytes < kLeastShownBytes) return 0;
  if (are_private(operands)) return 0;
  return plans_->may_show(*pending.plan) ? kLeastShownBytes : 0;
}

// Among ranks that share cores the copies of one are made while another waits, and answers are turns more (bench/RESULTS.md).
bool Core::may_lend_pages() const {
  const bool may_lend =
      options_.lending == transport::Lending::always || (options_.lending == transport::Lending::where_copies_are_slow && !shares_cores_);
  return may_lend && plans_->environment()->is_by_sockets_alone();
}

// References, which every plan's receivers understand: only senders need to know. By sockets they are pages that are lent. In memory what
// the result overwrites the reader has to fetch from the other core in every call; other input lies in its own cache from the call before,
// as long as nobody has written it.
std::uint64_t Core::least_referenced(CachedPlan& plan, std::uint64_t bytes, bool is_overwritten) const {
  if (lends_pages_) return bytes >= transport::kLeastLentBytes && plans_->may_show(plan) ? transport::kLeastLentBytes : 0;
  const bool is_wanted = options_.direct_read && plan.plan->protocol == schedule::Protocol::direct_read &&
                         (!is_overwritten || plans_->environment()->memory.is_read_overwritten);
  return is_wanted && plans_->may_show(plan) ? plans_->environment()->memory.least_read.value : 0;
}

// Two ranks that have not been told which way: what a byte takes through slots. 0: not known, or not asked.
double Core::slow_read_ns() const {
  if (size() != 2 || !options_.wishes.protocol.empty() || lends_pages_) return 0;
  const double rate = plans_->environment()->memory.slots_rate.gigabytes();
  return rate > 0 ? 1 / rate : 0;
}

// Before any of it is shown to anybody: what peers will read where it lies.
[[gnu::noinline]] void Core::prepare_pages(const Pending& pending) {
  const executor::Operands& operands = pending.operands;
  if (!options_.huge_pages) return;
  const auto note = [&](const void* data, std::uint64_t bytes) {
    if (bytes < kHugePageBytes || routes_->can_show(static_cast<const std::byte*>(data), bytes)) return;
    if (huge_pages_ == nullptr) huge_pages_ = std::make_unique<HugePages>();
    huge_pages_->will_be_read(data, bytes);
  };
  if (pending.group.made != nullptr) {
    for (std::size_t i = 0; i < pending.group.sends.size(); ++i) note(operands.user[i].data, operands.user[i].bytes);
    return;
  }
  if (pending.bytes < kHugePageBytes) return;
  bool reads[2] = {};  // input, output
  for (const schedule::Op& op : pending.plan->plan->program.ops) {
    if (!schedule::sends(op.kind)) continue;
    const std::uint16_t buffer = op.kind == schedule::OpKind::send ? op.src.buffer : op.dst.buffer;
    if (buffer == schedule::kInput || buffer == schedule::kOutput) reads[buffer == schedule::kInput ? 0 : 1] = true;
  }
  const bool gathers = pending.call.collective == Collective::all_gather || pending.call.collective == Collective::all_gather_v;
  if (gathers && pending.plan->key.in_place) {  // the input is a part of the output
    reads[0] = false;
    reads[1] = true;
  }
  tuning::Call call;
  call.collective = pending.call.collective;
  call.bytes = {pending.bytes};
  call.type = operands.type;
  const tuning::Elements elements = tuning::elements_of(call, size());
  const std::size_t element = size_of(operands.type);
  const executor::Shape& shape = pending.shape;
  const bool is_varied = varies(pending.call.collective);
  const auto note_buffer = [&](const std::byte* data, std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displs,
                               std::uint64_t whole) {
    const Blocks blocks = counts.empty() ? Blocks{0, whole} : place_of_blocks(counts, displs);
    note(data + blocks.first * element, (blocks.end - blocks.first) * element);
  };
  if (reads[0]) note_buffer(operands.input, shape.input_counts, shape.input_displs, is_varied ? shape.count : elements.input);
  if (reads[1]) note_buffer(operands.output, shape.output_counts, shape.output_displs, is_varied ? shape.count : elements.output);
}

// A call that has begun as a short one goes on, and learns of a fault while it waits.
Status Core::begin(Pending& pending, const executor::ShortCall* begun) {
  if (begun == nullptr && board_.is_set()) return fault();
  if (pending.may_be_by_halves && begun == nullptr) choose_by_marks(pending);
  CachedPlan& cached = *pending.plan;
  if (pending.group.made == nullptr) plans_->bind(cached, pending.shape);
  if (cached.binding->scratch_bytes() > scratch_.bytes()) PEAL_TRY(scratch_.grow(cached.binding->scratch_bytes()));
  pending.operands.scratch = scratch_.data();
  if (begun != nullptr)
    pending.operands.least_shown = begun->shows() ? kLeastShownBytes : 0;
  else
    pending.operands.least_shown = world_->user_segments()->version() == 0 ? 0 : least_shown(pending);
  pending.operands.answers = pending.operands.least_shown > 0 && pending.group.made == nullptr && plans_->may_answer(cached);
  if (begun == nullptr) {
    board_.enter(rank_, pending.tag);
    if (pending.operands.least_referenced > 0 && !lends_pages_) [[unlikely]]
      prepare_pages(pending);
  }
  execution_->start(*cached.plan, *cached.binding, pending.operands, pending.call, pending.tag);
  if (pending.operands.bytes_learnt_by > 0) has_referred_ = execution_->refers();
  if (begun != nullptr) execution_->go_on(*begun);
  return {};
}

Status Core::drive_to_end() {
  executor::Backoff backoff(wait_policy_);
  LongWait quiet;
  for (;;) {
    const bool moved = execution_->progress();
    if (execution_->done()) return {};
    if (execution_->failed()) return conclude(execution_->failure());
    if (moved) {
      backoff.reset();
      quiet = {};
      continue;
    }
    const auto next = backoff.pause();
    if (next == executor::Backoff::Next::polled) continue;
    PEAL_TRY(look_around(quiet));
    if (next == executor::Backoff::Next::sleep) routes_->sleep(wait_policy_.sleep_us);
  }
}

Status Core::run_prepared(Pending& pending, const executor::ShortCall* begun) {
  PEAL_TRY(begin(pending, begun));
  last_plan_ = pending.plan->plan.get();
  Status status = drive_to_end();
  if (status) {
    if (pending.may_be_by_halves) note_marks(pending, execution_->peer_has_marked());
    routes_->rest();
  } else {
    execution_->give_up();
  }
  board_.leave(rank_);
  return status;
}

// Once ranks share memory: what holds for the buffers at hand. Null: what was worked out was for others.
executor::ShortCall* Core::fit_to_buffers(Prepared& known, std::uint64_t version) {
  executor::ShortCall& again = *known.again;
  const executor::Operands& operands = known.pending.operands;
  if (plan_by_marks(known.pending) == known.pending.plan &&
      (again.shows() ? again.place(operands, version) : again.most_bytes() < kLeastShownBytes || are_private(operands)))
    return &again;
  known.again = nullptr;
  known.is_tried = false;
  return nullptr;
}

// A call as the one before it of its kind: what that worked out holds. Messages may lie elsewhere once ranks share memory for them.
Status Core::run_again(Prepared& known) {
  Pending& pending = known.pending;
  pending.call.sequence = ++sequence_;
  executor::renumber(pending.tag, sequence_);
  executor::ShortCall* again = known.again.get();
  if (again == nullptr || board_.is_set()) [[unlikely]]
    return run_at_length(known, nullptr);
  const std::uint64_t version = world_->user_segments()->version();
  if (version != 0) [[unlikely]] {
    again = fit_to_buffers(known, version);
    if (again == nullptr) return run_at_length(known, nullptr);
  }
  if (!again->run(pending.operands, pending.tag, wait_policy_.short_polls, board_, rank_)) [[unlikely]]
    return run_at_length(known, again);
  if (version != 0 && pending.may_be_by_halves) note_marks(pending, executor::is_marked(pending.tag));  // it takes no tag but its own
  last_plan_ = pending.plan->plan.get();
  if (pool_ != nullptr && pool_->is_shared()) routes_->rest();
  board_.leave(rank_);
  return {};
}

[[gnu::noinline]] Status Core::run_at_length(Prepared& known, const executor::ShortCall* begun) {
  Status status = run_prepared(known.pending, begun);
  if (status && !known.is_tried) {
    known.again = execution_->shorten();
    known.is_tried = true;
  }
  return status;
}

Status Core::barrier() {
  Prepared* const known = prepared_[static_cast<std::size_t>(Collective::barrier)].get();
  if (!is_queued_ && known != nullptr && known->again != nullptr && !known->is_internal) [[likely]]
    return run_again(*known);
  Call call;
  call.collective = Collective::barrier;
  return run(call);
}

Status Core::run(const Call& call) {
  if (!is_queued_) {
    std::unique_ptr<Prepared>& place = prepared_[static_cast<std::size_t>(call.collective)];
    if (place == nullptr) [[unlikely]]
      place = std::make_unique<Prepared>();
    Prepared& known = *place;
    Pending& pending = known.pending;
    if (known.matches(call) && (known.has_buffers_of(call) || is_in_place(call, rank_, size()) == known.in_place)) {
      pending.operands.input = static_cast<const std::byte*>(call.send);
      pending.operands.output = static_cast<std::byte*>(call.receive);
      pending.operands.premul = call.premul;
      return run_again(known);
    }
    known.is_valid = false;
    known.again = nullptr;
    known.is_tried = false;
    PEAL_TRY(prepare(call, pending));
    known.is_valid = !varies(call.collective);
    known.in_place = known.is_valid && is_in_place(call, rank_, size());
    known.is_internal = call.is_internal;
    known.op = call.op;
    known.root = call.root;
    return run_prepared(pending);
  }
  PEAL_ASSIGN(const auto work, start(call));
  wait(*work, 0);
  if (work->state.load(std::memory_order_acquire) == WorkState::kFailed) return pass_on(work->failure);
  return {};
}

Result<std::shared_ptr<WorkState>> Core::start(const Call& call) {
  Pending pending;
  {
    const std::lock_guard lock(mutex_);
    PEAL_TRY(prepare(call, pending));
  }
  if (varies(call.collective)) keep_counts(pending.shape, pending.counts);
  return enqueue(std::move(pending));
}

std::shared_ptr<WorkState> Core::enqueue(Pending pending) {
  auto work = std::make_shared<WorkState>();
  pending.work = work;
  {
    const std::lock_guard lock(mutex_);
    is_queued_ = true;
    queue_.push_back(std::move(pending));
    if (options_.progress_thread && !progress_.joinable()) progress_ = std::thread([this] { progress_loop(); });
    drive_queue();  // the caller makes the first progress itself
  }
  changed_.notify_one();
  return work;
}

// With the mutex held: advances the call at the front. True when anything moved.
bool Core::drive_queue() {
  bool moved = false;
  for (int poll = 0; poll < kPollsALock && !queue_.empty(); ++poll) {
    if (!front_began_) {
      front_wait_ = {};
      if (Status status = begin(queue_.front()); !status) {
        settle_front(status);
        moved = true;
        continue;
      }
      front_began_ = true;
    }
    if (execution_->progress()) {
      moved = true;
      front_wait_ = {};
    }
    if (execution_->done())
      settle_front({});
    else if (execution_->failed())
      settle_front(conclude(execution_->failure()));
    else if (!moved)
      return false;
  }
  return moved;
}

void Core::settle_front(const Status& result) {
  if (result) {
    if (queue_.front().may_be_by_halves) note_marks(queue_.front(), execution_->peer_has_marked());
    routes_->rest();
  } else {
    execution_->give_up();
  }
  board_.leave(rank_);
  front_began_ = false;
  const std::shared_ptr<WorkState> work = queue_.front().work;
  queue_.pop_front();
  if (!result) work->failure = result.error();
  work->state.store(result ? WorkState::kDone : WorkState::kFailed, std::memory_order_release);
  changed_.notify_all();
}

void Core::progress_loop() {
  executor::Backoff backoff(wait_policy_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;  // ending, and nothing is left to do
    if (drive_queue()) {
      backoff.reset();
    } else {
      const auto next = backoff.pause();
      if (next != executor::Backoff::Next::polled) {
        if (Status status = look_around(front_wait_); !status) settle_front(status);
      }
      if (next == executor::Backoff::Next::sleep) {
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        lock.lock();
      }
    }
    lock.unlock();  // let the caller in
    lock.lock();
  }
}

bool Core::wait(WorkState& work, std::int64_t deadline_ns) {
  executor::Backoff backoff(wait_policy_);
  while (work.state.load(std::memory_order_acquire) == WorkState::kPending) {
    bool moved = false;
    auto next = executor::Backoff::Next::polled;
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock.owns_lock()) {
        moved = drive_queue();
        if (!moved && !queue_.empty()) {
          next = backoff.pause();
          if (next != executor::Backoff::Next::polled) {
            if (Status status = look_around(front_wait_); !status) settle_front(status);
          }
        }
      } else {
        next = backoff.pause();
      }
    }
    if (moved) backoff.reset();
    if (deadline_ns != 0 && now_ns() >= deadline_ns) return work.state.load(std::memory_order_acquire) != WorkState::kPending;
    if (next == executor::Backoff::Next::sleep) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace peal::comm
