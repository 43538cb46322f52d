// Jobs that wait, and what is computed beside them: works.hpp in virtual time.
#include <algorithm>
#include <base/index.hpp>

#include "world.hpp"

namespace peal::sim {

namespace {
/// Draws of computations are those of no strand.
constexpr std::uint64_t kComputing = std::uint64_t{1} << 62;
}  // namespace

void World::make_works(const Step& step) {
  const auto count = static_cast<std::int32_t>(ranks_.size());
  job_began_.assign(jobs_.size(), -1);
  strands_left_.resize(ranks_.size());
  for (JobState& job : jobs_)
    for (std::size_t r = 0; r < job.job->device_of_rank.size(); ++r)
      job.rank_on.try_emplace(job.job->device_of_rank[r], static_cast<std::int32_t>(r));
  for (std::int32_t r = 0; r < count; ++r) {
    first_on_.try_emplace(device_of(r), r);
    strands_left_[at(r)] = static_cast<std::int32_t>(ranks_[at(r)].program.strands());
  }
  Works::Owner owner;
  owner.begin = [this](int job, int device) { begin_waiting(job, device); };
  owner.stretch = [this](int device) {
    const auto rank = first_on_.find(device);
    const double slow = rank == first_on_.end() ? 1 : slowness(rank->second);
    return slow * noise(kComputing + static_cast<std::uint64_t>(device), computed_[device]++);
  };
  owner.come_back = [this](double time, int device, std::uint32_t version) {
    engine_.at(time, tag(Kind::computed, version & kIndexMask, static_cast<Index>(device)));
  };
  owner.note = [this](int computation, int device, double began, double ended) {
    const auto rank = first_on_.find(device);
    if (!options_.keeps_trace || rank == first_on_.end()) return;
    outcome_.trace.add({fmt::format("compute {}", computation), "compute", rank->second, 0, began * 1e-3, (ended - began) * 1e-3});
  };
  works_.emplace(step, std::move(owner));
  works_->begin([this](int device) {
    double late = 0;
    for (const auto& [rank, delay] : options_.late_ranks)
      if (device_of(rank) == device) late = std::max(late, delay);
    return late;
  });
}

void World::begin_waiting(int job, int device) {
  const JobState& state = jobs_[at(job)];
  const std::int32_t number = state.first + state.rank_on.at(device);
  const double from = std::max(engine_.now(), starts_at(number));
  double& began = job_began_[at(job)];
  began = began < 0 ? from : std::min(began, from);
  launch(number, from);
}

/// The first strand of a rank begins.
void World::launched(Index strand) {
  const Strand& s = strands_[strand];
  if (s.number != 0) return;
  works_->launched(ranks_[at(s.rank)].job->number, device_of(s.rank), engine_.now());
}

void World::rank_ended(std::int32_t number) {
  const int which = ranks_[at(number)].job->number;
  if (ranks_[at(number)].program.strands() == 0) works_->launched(which, device_of(number), engine_.now());
  works_->ended(which, device_of(number), engine_.now());
}

}  // namespace peal::sim
