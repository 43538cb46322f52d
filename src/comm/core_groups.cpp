// Groups of sends and receives: a plan of their own, which serves the next group with the same peers.
#include <algorithm>
#include <base/names.hpp>
#include <comm/core.hpp>
#include <cstring>
#include <limits>
#include <tuning/message_cost.hpp>

namespace peal::comm {

namespace {

constexpr std::uint64_t kLeastLearntToRefer = 64 * 1024;  // a message of a group: by reference or not is learnt
constexpr std::uint64_t kMostLearntToRefer = 2 << 20;     // the same, all of a call

bool is_learnt_by(std::uint64_t bytes, std::size_t sends) { return bytes >= kLeastLearntToRefer * sends && bytes <= kMostLearntToRefer; }

}  // namespace

// The messages of a group stay in their senders' memory where that is faster by this host's constants, and where it is asked for by name:
// then long ones do not, which go through several slots.
std::uint64_t Core::most_referenced_in_groups() const {
  const std::string& wished = options_.wishes.protocol;
  const bool is_wished = wished == schedule::name_of(schedule::Protocol::direct_read);
  if (!options_.direct_read || (!wished.empty() && !is_wished)) return 0;
  if (tuning::reads_in_place(*plans_->environment())) return std::numeric_limits<std::uint64_t>::max();
  return is_wished ? schedule::kMostReferencedBytes : 0;
}

// Two ranks with a core each, where nobody has said which way: what a group sends and receives at once may go either way, which is learnt
// (executor::ReferenceChoice). Of more than two mebibytes references were 1 to 3 % slower between far cores (bench/RESULTS.md).
bool Core::may_learn_to_refer() const {
  if (size() != 2 || shares_cores_ || !options_.direct_read || most_referenced_ > 0 || !options_.wishes.protocol.empty()) return false;
  return plans_->environment()->offer(schedule::Protocol::direct_read) != nullptr && routes_->is_shared(1 - rank_);
}

void Core::have_learnt_by(Pending& pending) const {
  executor::Operands& operands = pending.operands;
  const std::size_t sends = pending.group.sends.size();
  if (sends == 0 || pending.group.receives.empty()) return;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < sends; ++i) bytes += operands.user[i].bytes;
  if (!is_learnt_by(bytes, sends)) return;
  operands.bytes_learnt_by = bytes;
  operands.least_referenced = schedule::kWholeMessageBytes;
  operands.most_referenced = kMostLearntToRefer;
}

schedule::Protocol Core::protocol_of_exchange(std::uint64_t bytes, int peer) const {
  if (!learns_to_refer_ || !is_learnt_by(bytes, 1)) return protocol_of_transfer(bytes, peer);
  return has_referred_ ? schedule::Protocol::direct_read : schedule::Protocol::staged;
}

schedule::Protocol Core::protocol_of_transfer(std::uint64_t bytes, int peer) const {
  const bool is_read = most_referenced_ > 0 && bytes >= plans_->environment()->memory.least_read.value && bytes <= most_referenced_ &&
                       routes_->is_shared(peer);
  return is_read ? schedule::Protocol::direct_read : schedule::Protocol::staged;
}

void Core::allow_references(Pending& pending) const {
  executor::Operands& operands = pending.operands;
  operands.least_referenced = 0;
  operands.most_referenced = most_referenced_;
  operands.bytes_learnt_by = 0;
  operands.slow_read_ns = 0;
  if (learns_to_refer_) have_learnt_by(pending);
  if (most_referenced_ == 0) return;
  const auto& sends = pending.group.sends;
  for (std::size_t i = 0; i < sends.size(); ++i)
    if (protocol_of_transfer(operands.user[i].bytes, sends[i].peer) == schedule::Protocol::direct_read)
      operands.least_referenced = plans_->environment()->memory.least_read.value;
}

Status Core::check_group(std::span<const PairTransfer> transfers) const {
  for (const PairTransfer& t : transfers) {
    if (t.peer < 0 || t.peer >= size())
      return fail(ErrorCode::invalid_argument, "{}: rank {} is not a rank of a communicator of {}; give 0 to {}",
                  t.is_send ? "send" : "receive", t.peer, size(), size() - 1);
    if (t.count > 0 && (t.is_send ? t.send == nullptr : t.receive == nullptr))
      return fail(ErrorCode::invalid_argument, "{}: the buffer is null but {} elements are asked for", t.is_send ? "send" : "receive",
                  t.count);
  }
  return {};
}

// What a rank sends to itself is copied at once.
Status Core::copy_own(std::span<const PairTransfer> transfers) const {
  std::vector<const PairTransfer*> sends, receives;
  for (const PairTransfer& t : transfers)
    if (t.peer == rank_) (t.is_send ? sends : receives).push_back(&t);
  if (sends.size() != receives.size())
    return fail(ErrorCode::invalid_argument, "rank {} sends itself {} messages but receives {}; put both into one group", rank_,
                sends.size(), receives.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->count != receives[i]->count || sends[i]->type != receives[i]->type)
      return fail(ErrorCode::mismatch, "rank {} sends itself {} {} but receives {} {}", rank_, sends[i]->count, name_of(sends[i]->type),
                  receives[i]->count, name_of(receives[i]->type));
    if (sends[i]->count > 0) std::memmove(receives[i]->receive, sends[i]->send, sends[i]->count * size_of(sends[i]->type));
  }
  return {};
}

// True where the group's plan is for these transfers.
bool Core::serves(const Group& group, std::span<const PairTransfer> transfers) const {
  if (group.made == nullptr) return false;
  std::size_t sends = 0, receives = 0;
  for (const PairTransfer& t : transfers) {
    if (t.peer == rank_) continue;
    const std::vector<schedule::Transfer>& list = t.is_send ? group.sends : group.receives;
    std::size_t& n = t.is_send ? sends : receives;
    if (n == list.size() || list[n++].peer != t.peer) return false;
  }
  return sends == group.sends.size() && receives == group.receives.size();
}

// True where these transfers differ from the last ones in nothing but their buffers, which are taken over: nothing else is to be looked at.
bool Core::repeats(Pending& pending, std::span<const PairTransfer> transfers) {
  const std::vector<Group::Last>& last = pending.group.last;
  if (last.empty() || transfers.size() != last.size()) return false;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const PairTransfer& t = transfers[i];
    const void* const data = t.is_send ? t.send : t.receive;
    if (t.peer != last[i].peer || t.count != last[i].count || t.type != last[i].type || t.is_send != last[i].is_send) return false;
    if (data == nullptr && t.count > 0) return false;
    pending.operands.user[last[i].buffer].data = static_cast<std::byte*>(const_cast<void*>(data));
  }
  return true;
}

// The one that serves these transfers, else one whose plan is to be replaced: a new one, or the one that was used longest ago.
Core::KnownGroup Core::group_for(std::span<const PairTransfer> transfers) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const auto& known) { return serves(known->group, transfers); });
  const bool is_known = found != groups_.end();
  if (!is_known && groups_.size() < kKnownGroups) groups_.push_back(std::make_unique<Pending>());
  const auto taken = is_known ? found : groups_.end() - 1;
  std::rotate(groups_.begin(), taken, taken + 1);
  return {*groups_.front(), is_known};
}

// Sends stand before receives, each in the order of the call; what this rank sends itself has been copied.
void Core::place_group(std::span<const PairTransfer> transfers, Pending& pending) const {
  std::vector<executor::UserBuffer>& user = pending.operands.user;
  std::vector<Group::Last>& last = pending.group.last;
  user.clear();
  last.resize(transfers.size());
  for (const bool is_send : {true, false}) {
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const PairTransfer& t = transfers[i];
      if (t.is_send != is_send || t.peer == rank_) continue;
      last[i] = {t.count, static_cast<std::uint32_t>(user.size()), t.peer, t.type, t.is_send};
      user.push_back(
          {static_cast<std::byte*>(is_send ? const_cast<void*>(t.send) : t.receive), t.count, t.count * size_of(t.type), t.type});
    }
  }
  if (user.size() < transfers.size()) last.clear();  // copies to itself are made at each call
}

// Transfers with others become a program of their own.
Status Core::prepare_group(std::span<const PairTransfer> transfers, Pending& pending, bool is_known) {
  if (board_.is_set()) return fault();
  PEAL_TRY(check_group(transfers));
  PEAL_TRY(copy_own(transfers));
  Group& group = pending.group;
  place_group(transfers, pending);
  if (!is_known) {
    group.sends.clear();
    group.receives.clear();
    for (const PairTransfer& t : transfers)
      if (t.peer != rank_) (t.is_send ? group.sends : group.receives).push_back({t.peer});
    group.made = std::make_unique<CachedPlan>();
    group.made->own = std::make_unique<executor::Binding>();
    group.made->binding = group.made->own.get();
    const auto made = std::make_shared<executor::Plan>();
    group.made->plan = made;
    executor::Plan& plan = *made;
    plan.algorithm = "direct";
    plan.pieced = false;
    plan.message_bytes = plans_->message_bytes();
    plan.is_cut_by_transfer = true;
    if (plans_->environment()->is_by_sockets_alone()) plan.uncut_by_sockets = plans_->environment()->uncut_by_sockets();
    plan.least_referenced = most_referenced_ > 0 ? plans_->environment()->memory.least_read.value : 0;
    plan.program = schedule::group_program(rank_, size(), group.sends, group.receives);
    pending.plan = group.made.get();
    pending.call.collective = Collective::send_recv;
    pending.tag = executor::to_tag(pending.call);
    pending.operands.resolve(Collective::send_recv);
  }
  allow_references(pending);
  group.made->own->bind_user(*group.made->plan, pending.operands.user);
  return {};
}

Status Core::run_group(std::span<const PairTransfer> transfers) {
  if (!is_queued_) {
    if (groups_.empty() || !repeats(*groups_.front(), transfers)) {
      const auto [pending, is_known] = group_for(transfers);
      PEAL_TRY(prepare_group(transfers, pending, is_known));
    }
    Status status = run_prepared(*groups_.front());
    last_plan_ = nullptr;  // a later group may replace this one's plan
    return status;
  }
  PEAL_ASSIGN(const auto work, start_group(transfers));
  wait(*work, 0);
  if (work->state.load(std::memory_order_acquire) == WorkState::kFailed) return pass_on(work->failure);
  return {};
}

Result<std::shared_ptr<WorkState>> Core::start_group(std::span<const PairTransfer> transfers) {
  Pending pending;
  PEAL_TRY(prepare_group(transfers, pending, false));
  return enqueue(std::move(pending));
}

}  // namespace peal::comm
