// Faults: how a rank learns of one, and how it makes one known. The first recorded fault wins and everybody reports it.
#include <algorithm>
#include <base/clock.hpp>
#include <base/names.hpp>
#include <comm/core.hpp>

namespace peal::comm {

namespace {

// A lost connection is often the echo of a fault whose news is on its way: wait so long for the cause.
constexpr std::int64_t kNewsGraceNs = 400'000'000;
constexpr std::int64_t kQuietNs = 20'000'000;  // who waits for longer looks what its peers are doing
constexpr std::int64_t kFirstWordNs = 200'000'000;
constexpr int kMostWords = 30;

}  // namespace

Status Core::fault() const {
  if (!board_.is_set()) return {};
  return pass_on(executor::to_failure(board_.first()));
}

Status Core::look_around(LongWait& wait, const Awaited* awaited) {
  if (board_.is_set()) return fault();
  const std::int64_t now = now_ns();
  if (wait.since_ns == 0) wait.since_ns = now;
  if (Status health = routes_->health(); !health) {
    const std::int64_t until = now_ns() + kNewsGraceNs;
    while (now_ns() < until && !board_.is_set()) sched_yield();
    return conclude(health.error());
  }
  if (now - wait.since_ns > kQuietNs) {
    if (awaited == nullptr) PEAL_TRY(compare_calls(wait, now - wait.since_ns));
    int departed = -1;
    if (awaited == nullptr)
      departed = departed_peer();
    else if (board_.has_departed(awaited->peer))
      departed = awaited->peer;
    // Its last messages may have come in just before it left: look at the channels once more.
    if (departed >= 0 && ++wait.departed_looks > 2) {
      const std::string who = world_->describe(members_[static_cast<std::size_t>(departed)]);
      return conclude({ErrorCode::rank_dead, fmt::format("{} has left the communicator while others still wait for it", who), departed,
                       departed, awaited == nullptr ? "" : awaited->operation});
    }
    if (departed < 0) wait.departed_looks = 0;
  }
  if (now - wait.since_ns > options_.timeout_ns) return conclude(awaited == nullptr ? timeout_failure() : timeout_failure(*awaited));
  return {};
}

// Once there is asynchronous work, transports and execution belong to whoever holds the mutex.
Status Core::look_around_for_window(LongWait& wait, const Awaited& awaited, bool may_sleep) {
  if (!is_queued_) {
    PEAL_TRY(look_around(wait, &awaited));
    if (may_sleep) routes_->sleep(wait_policy_.sleep_us);
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    PEAL_TRY(look_around(wait, &awaited));
    drive_queue();  // a signal may wait for our part of a call in the queue
  }
  if (may_sleep) std::this_thread::sleep_for(std::chrono::microseconds(50));
  return {};
}

// Two ranks that both receive from one another, or both send, exchange nothing that would tell them that their calls differ. On this
// host the board says what peers are in; peers on others are told what this rank is in, less and less often, because most who wait long
// wait for somebody who is late.
Status Core::compare_calls(LongWait& wait, std::int64_t waited_ns) {
  const executor::CallState mine = board_.state_of(rank_);
  if (mine.call.collective == Collective::send_recv) return {};
  const bool tells = wait.words < kMostWords && waited_ns >= kFirstWordNs << wait.words;
  if (tells) ++wait.words;
  for (const int peer : execution_->awaited_peers()) {
    const int there = members_[static_cast<std::size_t>(peer)];
    if (world_->is_local(there)) {
      const executor::CallState theirs = board_.state_of(peer);
      if (theirs.is_whole && executor::are_at_odds(mine.call, theirs.call))
        return conclude(executor::mismatch_of_calls(mine.call, peer, theirs.call));
    } else if (tells) {
      world_->tell_call(there, id_, mine.call);
    }
  }
  return {};
}

int Core::departed_peer() const {
  for (const int peer : execution_->awaited_peers())
    if (world_->is_local(members_[static_cast<std::size_t>(peer)]) && board_.has_departed(peer)) return peer;
  return -1;
}

Failure Core::timeout_failure() const {
  const executor::CallState mine = board_.state_of(rank_);
  std::string missing;
  int first = -1;
  for (const int r : locals_) {
    if (r == rank_ || board_.state_of(r).calls >= mine.calls) continue;
    if (first < 0) first = r;
    missing += (missing.empty() ? "" : ", ") + world_->describe(members_[static_cast<std::size_t>(r)]);
  }
  if (!missing.empty()) missing += " did not call it";
  for (const int r : execution_->awaited_peers()) {
    if (!missing.empty()) break;
    first = r;
    missing = "nothing came from " + world_->describe(members_[static_cast<std::size_t>(r)]);
  }
  return {ErrorCode::timeout,
          fmt::format("{} did not finish within {:.3g} s: {}; raise PEAL_TIMEOUT if it may take longer", executor::describe(mine.call),
                      static_cast<double>(options_.timeout_ns) / kNanosecondsOfSecond,
                      missing.empty() ? std::string("its peers are slow") : missing),
          first, first, std::string(name_of(mine.call.collective))};
}

Failure Core::timeout_failure(const Awaited& awaited) const {
  return {ErrorCode::timeout,
          fmt::format("{} did not come within {:.3g} s from {}; raise PEAL_TIMEOUT if it may take longer", awaited.what,
                      static_cast<double>(options_.timeout_ns) / kNanosecondsOfSecond,
                      world_->describe(members_[static_cast<std::size_t>(awaited.peer)])),
          awaited.peer, awaited.peer, awaited.operation};
}

// Records what this rank saw; whoever was first is reported. Always a failure.
Status Core::conclude(Failure failure) {
  // A rank that left or closed its connection may have done so because of a death elsewhere in the job: then that is the cause.
  if (failure.code == ErrorCode::rank_dead) {
    const std::optional<Failure> cause = world_->first_rank_fault();
    if (cause && (failure.rank < 0 || members_[static_cast<std::size_t>(failure.rank)] != cause->rank)) {
      const auto member = std::find(members_.begin(), members_.end(), cause->rank);
      failure.code = cause->code;
      failure.message = cause->message + "; then " + failure.message;
      failure.rank = member == members_.end() ? -1 : static_cast<int>(member - members_.begin());
    }
  }
  if (failure.operation.empty()) failure.operation = std::string(name_of(board_.state_of(rank_).call.collective));
  const executor::FaultRecord record = executor::to_record(failure, rank_);
  if (board_.record(record)) world_->tell(id_, record);
  return fault();
}

void Core::abort(const std::string& why) {
  const std::string text = fmt::format("{} aborted the communicator{}{}", world_->describe(members_[static_cast<std::size_t>(rank_)]),
                                       why.empty() ? "" : ": ", why);
  const executor::FaultRecord record = executor::to_record({ErrorCode::aborted, text, rank_, -1, "abort"}, rank_);
  if (board_.record(record)) world_->tell(id_, record);
}

// What the rank was doing stands on the board of its host only: from there the whole sentence goes to the other hosts, ahead of the bare
// news that follows on the same links, so that all report the same.
void Core::on_rank_fault(int world_rank, ErrorCode code, const std::string& cause) {
  for (int r = 0; r < size(); ++r) {
    if (members_[static_cast<std::size_t>(r)] != world_rank) continue;
    Failure failure{code, fmt::format("{} {}", world_->describe(world_rank), cause), r, r, {}};
    if (!world_->is_local(world_rank)) {
      board_.record(executor::to_record(failure, rank_));
      continue;
    }
    const executor::CallState state = board_.state_of(r);
    failure.operation = state.calls == 0 ? "start" : name_of(state.call.collective);
    failure.message += state.calls == 0 ? " (before its first call)"
                                        : fmt::format(" ({} {})", state.inside ? "inside" : "after", executor::describe(state.call));
    board_.record(executor::to_record(failure, rank_));
    world_->tell(id_, board_.first());
  }
}

void Core::on_remote_fault(const executor::FaultRecord& fault) { board_.record(fault); }

// Both ranks may learn of it at the same moment, and all hosts are to report the same: the lower rank speaks, the higher one answers it.
void Core::on_remote_call(int world_rank, const executor::CallSignature& theirs) {
  const auto peer = static_cast<int>(std::find(members_.begin(), members_.end(), world_rank) - members_.begin());
  const executor::CallState mine = board_.state_of(rank_);
  if (peer == size() || !mine.is_whole || !executor::are_at_odds(mine.call, theirs)) return;
  if (rank_ < peer)
    (void)conclude(executor::mismatch_of_calls(mine.call, peer, theirs));
  else
    world_->tell_call(world_rank, id_, mine.call);
}

bool Core::has_left(int world_rank) const {
  for (int r = 0; r < size(); ++r)
    if (members_[static_cast<std::size_t>(r)] == world_rank) return board_.has_departed(r);
  return true;
}

}  // namespace peal::comm
