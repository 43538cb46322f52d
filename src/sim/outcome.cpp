// What comes out of an interpretation: times, use of resources, who waits for ever, the critical path.
#include <algorithm>
#include <base/index.hpp>
#include <cmath>

#include "world.hpp"

namespace peal::sim {

namespace {
/// Of all rates that may be worked out: before so many have been, little is known of how it will go on.
constexpr double kShareToJudgeBy = 0.01;
/// Of the time that a message takes (bench/RESULTS.md, "Rates that are kept").
constexpr double kKeptFor = 1;
constexpr std::uint64_t kEventsOfAReport = 100'000;
constexpr std::size_t kOpsOfAReport = 50'000;  // that are looked at for it
}  // namespace

Status World::check_finished() const {
  for (const Strand& s : strands_) {
    if (s.cursor.done()) continue;
    return fail(ErrorCode::internal,
                "{} under {} blocks in the simulator: rank {} stands for ever at op {}, \"{}\"; `peal verify` says why",
                plan_of(s).schedule.name, schedule::name_of(plan_of(s).protocol), s.rank - ranks_[at(s.rank)].job->first,
                s.cursor.position(), schedule::to_text(ops_.whole(s.first_op + s.cursor.position()), ranks_[at(s.rank)].program.sources));
  }
  return {};
}

Status World::run_events() {
  keep_rates_if_many(0);
  while (!engine_.run(*this, std::min(kEventsOfAReport, options_.most_events - engine_.events()))) {
    if (engine_.events() >= options_.most_events)
      return fail(ErrorCode::unsupported, "the simulation of {} bytes needs more than {} events: ask for a smaller size or fewer ranks",
                  jobs_.front().job->plan->call.bytes.value, options_.most_events);
    if (!options_.progress && !may_keep_rates()) continue;
    const Progress so_far{engine_.events(), engine_.now(), share_done()};
    keep_rates_if_many(so_far.share_done);
    if (options_.progress) options_.progress(so_far);
  }
  return {};
}

double World::share_done() const {
  if (strands_.empty()) return 1;
  const std::size_t most = std::max<std::size_t>(1, kOpsOfAReport / std::max<std::size_t>(1, strands_.front().cursor.ops()));
  const std::size_t step = std::max<std::size_t>(1, strands_.size() / most);
  schedule::StrandCursor::Visits visits;
  for (std::size_t i = 0; i < strands_.size(); i += step) {
    const auto [over, all] = strands_[i].cursor.visits(ops_of(strands_[i]));
    visits.over += over;
    visits.all += all;
  }
  return visits.all > 0 ? visits.over / visits.all : 1;
}

bool World::may_keep_rates() const {
  return std::isfinite(options_.most_exact_rates) && !outcome_.kept_rates_from && !fold_.folding &&
         options_.congestion.control == FlowControl::fair;
}

void World::keep_rates_if_many(double share_done) {
  if (!may_keep_rates() || static_cast<double>(engine_.rates()) < std::max(kShareToJudgeBy, share_done) * options_.most_exact_rates) return;
  engine_.keep_rates_for(kKeptFor);
  outcome_.kept_rates_from = Nanoseconds{engine_.now()};
}

Result<Outcome> World::run() {
  PEAL_TRY(run_events());
  PEAL_TRY(std::move(failure_));
  if (options_.failure)
    tell_who_waits();
  else
    PEAL_TRY(check_finished());
  gather_times();
  outcome_.messages = count_messages();
  if (options_.keeps_path) gather_path();
  outcome_.messages_asked = message_log_.answers();
  outcome_.events = engine_.events();
  find_circle();
  outcome_.resources = uses(outcome_.time.value);
  if (options_.keeps_trace)
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(ranks_.size()); ++r)
      if (trace_row(r) == r) outcome_.trace.name_process(r, fmt::format("rank {} ({})", r, resources_.cluster().id_of(device_of(r))));
  return std::move(outcome_);
}

/// That have arrived, of all members of classes.
std::uint64_t World::count_messages() {
  double messages = switched_ + messages_before_;
  for (Channel& c : channels_) {
    c.catch_up(engine_.now());
    messages += kinds_[c.kind].terms.members * (c.sent - c.under_way());
  }
  return static_cast<std::uint64_t>(messages + 0.5);
}

void World::gather_times() {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    const JobState& job = jobs_[j];
    const double start = works_ ? job_began_[j] : job.job->start;
    double last = start;
    for (std::int32_t r = job.first; r < job.first + job.job->environment->ranks; ++r) {
      if (fold_.folding) ranks_[at(r)].done = ranks_[at(fold_.folding->representative(r))].done;
      last = std::max(last, ranks_[at(r)].done);
    }
    outcome_.job_times.push_back({last - start});
    outcome_.time = std::max(outcome_.time, Nanoseconds{last});
  }
  if (works_) outcome_.computations = works_->times();
  for (const ComputationTimes& computed : outcome_.computations) outcome_.time = std::max(outcome_.time, Nanoseconds{computed.ended});
  for (const RankState& rank : ranks_) outcome_.rank_done.push_back(rank.done);
  for (const StuckRank& stuck : outcome_.stuck) outcome_.time = std::max(outcome_.time, Nanoseconds{stuck.since});
}

void World::gather_path() {
  outcome_.path = path_.walk();
  const auto latest = std::max_element(outcome_.rank_done.begin(), outcome_.rank_done.end());
  outcome_.last_rank = path_.last_rank() >= 0 ? path_.last_rank() : static_cast<int>(latest - outcome_.rank_done.begin());
  // Before the first op of the chain its rank has launched, after it has begun.
  const bool has_ops = !outcome_.path.empty();
  PathPart first;
  first.rank = has_ops ? outcome_.path.front().rank : outcome_.last_rank;
  const double launched = has_ops ? outcome_.path.front().start : outcome_.time.value;
  const double began = std::min(launched, starts_at(first.rank));
  for (PathPart& part : outcome_.path) ++part.step;
  first.start = began;
  first.end = launched;
  outcome_.path.insert(outcome_.path.begin(), first);
  if (began <= 0) return;
  first = {.what = PathShare::late, .rank = first.rank, .end = began};
  outcome_.path.insert(outcome_.path.begin(), first);
}

std::vector<ResourceUse> World::uses(double time) const {
  std::vector<std::pair<topology::ResourceId, std::uint32_t>> crossed = used_;
  std::vector<topology::ResourceId> room;
  for (const auto& [id, number] : used_)
    for (const topology::ResourceId follower : fold_.implied.followers(id, room)) crossed.emplace_back(follower, number);
  std::vector<ResourceUse> uses;
  for (const auto& [id, number] : crossed) {
    const double bytes = engine_.bytes_over(number);
    if (bytes <= 0) continue;
    const Bandwidth capacity = Bandwidth::gigabytes(capacity_of(id));
    uses.push_back({resources_.name(id), bytes, capacity, capacity.value > 0 && time > 0 ? bytes / (capacity.gigabytes() * time) : 0});
    if (fold_.folding) uses.back().alike = fold_.folding->resource(fold_.implied.leader(id)).members;
  }
  add_socket_uses(uses, time);
  std::stable_sort(uses.begin(), uses.end(), [](const ResourceUse& a, const ResourceUse& b) { return a.utilisation > b.utilisation; });
  return uses;
}

namespace {

/// Whom an op that may not start waits for, as a rank of its job; -1: for a strand of its own.
int waited_for(const schedule::BoundOp& bound, bool has_message) {
  switch (bound.op->kind) {
    case schedule::OpKind::recv_send:
    case schedule::OpKind::recv_reduce_send: return has_message ? bound.peer2 : bound.peer;
    default: return bound.peer;
  }
}

}  // namespace

void World::tell_who_waits() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (static_cast<int>(r) == options_.failure->rank) continue;
    const RankState& rank = ranks_[r];
    // Of several strands that stand, the one that has stood longest.
    const Strand* first = nullptr;
    for (std::size_t i = 0; i < rank.program.strands(); ++i) {
      const Strand& s = strands_[rank.first_strand + i];
      if (!s.cursor.done() && (first == nullptr || s.since < first->since)) first = &s;
    }
    if (first == nullptr) continue;
    const schedule::BoundOp bound = first->cursor.current(ops_of(*first));
    const bool has_message = schedule::receives(bound.op->kind) && is_message_there(*first, bound);
    const int peer = schedule::is_switched(bound.op->kind) ? missing_member(*first) : waited_for(bound, has_message);
    outcome_.stuck.push_back({static_cast<int>(r), first->since, peer < 0 ? -1 : number_of(*first, peer),
                              schedule::to_text(ops_.whole(first->first_op + first->cursor.position()), rank.program.sources)});
  }
  std::stable_sort(outcome_.stuck.begin(), outcome_.stuck.end(), [](const StuckRank& a, const StuckRank& b) { return a.since < b.since; });
}

}  // namespace peal::sim
