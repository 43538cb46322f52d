// What runs where: plans on their ranks, ranks on their cores.
#include <base/names.hpp>
#include <map>

#include "fold/program_shape.hpp"
#include "world.hpp"

namespace peal::sim {

World::World(const Step& step, const topology::Resources& resources, const InterpretOptions& options, Fold fold)
    : resources_(resources),
      options_(options),
      fold_(std::move(fold)),
      is_host_(step.jobs.front().environment->is_host),
      scale_(options.perturbation.scaled_resources.begin(), options.perturbation.scaled_resources.end()),
      slow_(options.perturbation.slow_ranks.begin(), options.perturbation.slow_ranks.end()),
      is_perturbed_(!slow_.empty() || options.jitter.share > 0),
      may_fail_(options.failure.has_value()),
      notes_ops_(options.keeps_log || options.keeps_trace),
      path_(options.keeps_path) {
  for (const Job& job : step.jobs) add_job(job);
  if (is_host_) number_cores();
  pattern_.assign(ranks_.size(), kNobody);
  if (!fold_.folding) pairs_ = PairTable(ranks_.size());
  make_lines();
  if (fold_.takes_chunks_as_equal) outcome_.chunk_spread = jobs_.front().sizes->spread();
  keeps_times_ = !path_.is_on() && !options.failure;
  may_repeat_ = fold_.repeats && step.jobs.front().plan->pieces.count > 1;
  ask_for_messages();
  reuses_channels_ = may_reuse_channels(step);
  if (has_waiting(step)) {
    make_works(step);
    return;
  }
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(ranks_.size()); ++r) launch(r, starts_at(r));
}

/// Of every channel that two ranks may have.
void World::ask_for_messages() {
  for (const MessageAsked& asked : options_.messages) {
    const JobState& job = *ranks_[static_cast<std::size_t>(asked.from)].job;
    if (ranks_[static_cast<std::size_t>(asked.to)].job != &job) continue;
    const int channels = schedule::program_for(job.job->plan->schedule, asked.from - job.first).channels;
    for (int number = 0; number < channels; ++number) message_log_.ask(asked, number, kin_of(asked.from, asked.to, number).name);
  }
}

/// A rank's strands begin when it has launched.
void World::launch(std::int32_t number, double from) {
  RankState& rank = ranks_[static_cast<std::size_t>(number)];
  const bool has_strands = rank.program.strands() > 0;
  const double longer = has_strands ? stretch(strands_[rank.first_strand]) : slowness(number);
  rank.done = from + longer * rank.job->launch;
  for (Index s = rank.first_strand; s < rank.first_strand + rank.program.strands(); ++s) {
    strands_[s].since = rank.done;
    engine_.at(rank.done, tag(Kind::begin, s));
  }
  if (works_ && !has_strands) engine_.at(rank.done, tag(Kind::ended, static_cast<Index>(number)));
}

void World::add_job(const Job& job) {
  const tuning::Environment& environment = *job.environment;
  const tuning::Plan& plan = *job.plan;
  JobState& state = jobs_.emplace_back();
  state.job = &job;
  state.offer = &plan.offer;
  state.number = static_cast<std::int32_t>(jobs_.size()) - 1;
  state.first = static_cast<std::int32_t>(ranks_.size());
  state.ranks = environment.ranks;
  state.is_measured = plan.offer.is_measured;
  state.snapshots = schedule::traits_of(plan.protocol).snapshots;
  sent_within_.emplace_back(static_cast<std::size_t>(environment.nodes));
  state.sizes.emplace(plan, fold_.takes_chunks_as_equal);
  state.local = tuning::local_cost(environment, plan);
  for (int l = 0; l < tuning::kLevels; ++l)
    if (environment.is_used(l)) state.launch = std::max(state.launch, state.offer->constants[l].launch.value);
  ranks_.reserve(ranks_.size() + static_cast<std::size_t>(environment.ranks));
  for (std::int32_t r = 0; r < environment.ranks; ++r) add_rank(state, r);
}

void World::add_rank(const JobState& job, std::int32_t rank) {
  RankState& state = ranks_.emplace_back();
  state.job = &job;
  state.first_strand = static_cast<Index>(strands_.size());
  if (fold_.folding && fold_.folding->representative(rank) != rank) return;
  ++outcome_.simulated_ranks;
  state.program = schedule::program_for(job.job->plan->schedule, rank);
  if (fold_.folding) drop_strands(state.program, fold_.folding->twins(state.program, *job.sizes));
  const std::uint32_t first_op = ops_.add(state.program.ops);
  state.program.ops = {};
  state.signals.assign(state.program.event_quota.size(), 0);
  for (std::size_t s = 0; s < state.program.strands(); ++s) {
    Strand strand;
    strand.rank = job.first + rank;
    strand.number = static_cast<std::int32_t>(s);
    strand.job = &job;
    strand.first_op = first_op;
    strand.cursor = schedule::StrandCursor(ops_of(strand), state.program.strand_begin[s], state.program.strand_begin[s + 1],
                                           job.job->plan->pieces.count);
    strands_.push_back(strand);
  }
}

/// One numbering for all jobs: ranks of several jobs on one device share its core, and with it those that their jobs put on that core.
void World::number_cores() {
  tuning::Environment all;
  std::map<int, std::int32_t> of_device;
  std::int32_t count = 0;
  for (const JobState& job : jobs_) {
    const tuning::Environment& environment = *job.job->environment;
    std::map<std::int32_t, std::int32_t> of_core;
    for (std::size_t r = 0; r < environment.core_of.size(); ++r) {
      const int device = job.job->device_of_rank[r];
      const bool is_core = resources_.cluster().device(device).kind == topology::DeviceKind::core;
      auto [at, is_new] = of_core.try_emplace(environment.core_of[r], count);
      const auto known = of_device.find(device);
      if (is_new && is_core && known != of_device.end()) at->second = known->second;
      if (at->second == count) ++count;
      if (is_core) of_device.try_emplace(device, at->second);
      all.core_of.push_back(at->second);
    }
    all.core_switch = std::max(all.core_switch, environment.core_switch);
  }
  core_of_ = all.core_of;
  turns_.emplace(all);
  cores_.resize(static_cast<std::size_t>(count));
}

int World::device_of(std::int32_t number) const {
  const JobState& job = *ranks_[static_cast<std::size_t>(number)].job;
  return job.job->device_of_rank[static_cast<std::size_t>(number - job.first)];
}

namespace {

Status check(const Job& job, bool is_host) {
  const tuning::Environment& environment = *job.environment;
  if (environment.offer(job.plan->protocol) == nullptr)
    return fail(ErrorCode::invalid_argument, "the protocol {} has no constants in this environment", schedule::name_of(job.plan->protocol));
  if (job.device_of_rank.size() != static_cast<std::size_t>(environment.ranks) || job.plan->schedule.request.ranks != environment.ranks)
    return fail(ErrorCode::invalid_argument, "a plan for {} ranks, an environment of {} and {} devices: they must be the same ranks",
                job.plan->schedule.request.ranks, environment.ranks, job.device_of_rank.size());
  if (environment.is_host != is_host)
    return fail(ErrorCode::invalid_argument, "jobs on cores and jobs on GPUs at the same time are not simulated: ask for one kind");
  return {};
}

Status check(const InterpretOptions& options, int ranks) {
  for (const auto& [id, factor] : options.perturbation.scaled_resources)
    if (!(factor > 0))
      return fail(ErrorCode::invalid_argument, "a resource at {} of its rate carries nothing: give more than 0, or a dead link", factor);
  const auto check_rank = [&](int rank, std::string_view what) -> Status {
    if (rank >= 0 && rank < ranks) return {};
    return fail(ErrorCode::invalid_argument, "rank {} is to {}, but the ranks are 0 to {}", rank, what, ranks - 1);
  };
  for (const auto& [rank, factor] : options.perturbation.slow_ranks) {
    PEAL_TRY(check_rank(rank, "be slow"));
    if (!(factor > 0)) return fail(ErrorCode::invalid_argument, "rank {} cannot take {} times as long: give more than 0", rank, factor);
  }
  for (const auto& [rank, delay] : options.late_ranks) PEAL_TRY(check_rank(rank, "be late"));
  if (options.failure) PEAL_TRY(check_rank(options.failure->rank, "fail"));
  for (const MessageAsked& asked : options.messages) {
    PEAL_TRY(check_rank(asked.from, "send a message"));
    PEAL_TRY(check_rank(asked.to, "receive a message"));
  }
  return {};
}

/// Bytes of a channel that is simulated by itself: its state, its way and its name, in tables that grow by half or are doubled (measured:
/// an all-to-all of 1,024 ranks, bench/RESULTS.md).
constexpr double kBytesOfAChannel = 130;
constexpr int kFewRanks = 1000;  // which cannot have too many
constexpr double kGigabyte = 1e9;

/// Channels are laid as they are first used, so what is too much would only be known in the middle.
Status check_memory(std::span<const Job> jobs, const Fold& fold, int ranks, const InterpretOptions& options) {
  if (fold.folding || ranks < kFewRanks) return {};
  double channels = 0;
  for (const Job& job : jobs) channels += named_channels(*job.plan);
  if (channels * kBytesOfAChannel <= options.most_bytes) return {};
  return fail(
      ErrorCode::unsupported,
      "{:.1g} pairs of ranks that talk to each other are {:.3g} GB to simulate one by one, and there are {:.3g} GB of memory: ask for "
      "fewer ranks, or leave out what keeps ranks from being folded (faults, --unfolded, traces, critical paths)",
      channels, channels * kBytesOfAChannel / kGigabyte, options.most_bytes / kGigabyte);
}

/// What could be asked for instead of so many messages.
std::string_view fewer_messages(const Job& job) {
  const schedule::Request& request = job.plan->schedule.request;
  const auto grid = schedule::find_algorithm(request.collective, "grid");
  const bool has_grid = grid && job.plan->schedule.name != (*grid)->name && (*grid)->supports(request);
  return has_grid ? "ask for fewer ranks, or for an algorithm of fewer messages (--algorithm grid)"
                  : "ask for fewer ranks, or another algorithm";
}

}  // namespace

Result<Outcome> interpret(const Step& step, const topology::Resources& resources, const InterpretOptions& options) {
  const std::span<const Job> jobs = step.jobs;
  if (jobs.empty()) return fail(ErrorCode::invalid_argument, "nothing to simulate: give at least one job");
  int ranks = 0;
  for (const Job& job : jobs) {
    PEAL_TRY(check(job, jobs.front().environment->is_host));
    ranks += job.environment->ranks;
  }
  PEAL_TRY(check(options, ranks));
  PEAL_TRY(check_step(step, options));
  InterpretOptions folding = options;
  folding.folds = options.folds && !has_waiting(step);
  Fold fold = fold_of(jobs, resources, folding);
  // Each message is an event at least.
  if (fold.messages > static_cast<double>(options.most_events)) {
    const bool is_perturbed = !options.perturbation.scaled_resources.empty() || !options.perturbation.slow_ranks.empty();
    return fail(ErrorCode::unsupported, "{:.1g} messages are too many to simulate one by one, and {} ranks do not fold{}: {}",
                fold.messages, ranks,
                is_perturbed ? ", because each meets the slow wire or rank at another step" : ", because no two of them do the same",
                fewer_messages(jobs.front()));
  }
  PEAL_TRY(check_memory(jobs, fold, ranks, options));
  return World(step, resources, options, std::move(fold)).run();
}

Result<Outcome> interpret(std::span<const Job> jobs, const topology::Resources& resources, const InterpretOptions& options) {
  return interpret(Step{jobs}, resources, options);
}

Result<Outcome> interpret(const tuning::Plan& plan, const topology::Resources& resources, std::span<const int> device_of_rank,
                          const tuning::Environment& environment, tuning::Wires wires, const InterpretOptions& options) {
  const Job job{&plan, device_of_rank, &environment, wires};
  return interpret(std::span(&job, 1), resources, options);
}

}  // namespace peal::sim
