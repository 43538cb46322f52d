#include <sched.h>

#include <algorithm>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <cli/rank_places.hpp>
#include <tuning/placement.hpp>

namespace peal::cli {

namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) cpus.push_back(c);
  return cpus;
}

}  // namespace

std::vector<RankPlace> place_ranks(const std::vector<discovery::CorePlace>& cores, std::span<const int> allowed, int ranks) {
  std::vector<RankPlace> usable;
  for (const discovery::CorePlace& core : cores) {
    RankPlace place{{}, core.domain};
    std::copy_if(core.cpus.begin(), core.cpus.end(), std::back_inserter(place.cpus),
                 [&](int cpu) { return std::find(allowed.begin(), allowed.end(), cpu) != allowed.end(); });
    if (!place.cpus.empty()) usable.push_back(std::move(place));
  }
  if (usable.empty()) return {};
  const auto core_of = [&](int rank) { return tuning::place_on_machine(rank, ranks, static_cast<int>(usable.size())); };
  std::vector<RankPlace> places;
  for (int first = 0; first < ranks;) {
    int last = first + 1;
    while (last < ranks && core_of(last) == core_of(first)) ++last;
    const RankPlace& core = usable[static_cast<std::size_t>(core_of(first))];
    const int threads = static_cast<int>(core.cpus.size());
    for (int rank = first; rank < last; ++rank) {
      const int from = (rank - first) * threads / (last - first);
      const int to = std::max(from + 1, (rank - first + 1) * threads / (last - first));
      places.push_back({{core.cpus.begin() + from, core.cpus.begin() + to}, core.domain});
    }
    first = last;
  }
  return places;
}

Result<RankBinding> RankBinding::find(int ranks) {
  PEAL_ASSIGN(const bool with_memory, flag_setting("PEAL_BIND_MEMORY"));
  RankBinding binding;
  const auto host = discovery::find_places();
  if (!host) {
    log(LogLevel::warn, "ranks are not bound to cores: {}", host.error().message);
    return binding;
  }
  const std::vector<int> allowed = allowed_cpus();
  binding.places_ = place_ranks(host->cores, allowed, ranks);
  if (!with_memory || binding.places_.empty()) return binding;
  const discovery::MemoryBinding memory = discovery::try_memory_policy(host->policy, binding.places_.front().domain);
  using enum discovery::MemoryBinding::Kind;
  if (memory.kind == preferred) binding.prefer_ = host->policy.prefer;
  const bool costs = memory.kind == refused && host->domains > 1;
  log(costs ? LogLevel::warn : LogLevel::info, "{}", discovery::describe(memory, host->domains));
  return binding;
}

void RankBinding::bind(int index) const {
  if (places_.empty()) return;
  const RankPlace& place = places_[static_cast<std::size_t>(index)];
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (const int cpu : place.cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &mine);
  // The trial was granted, and a rank that the kernel leaves free for another reason runs all the same.
  ::sched_setaffinity(0, sizeof mine, &mine);
  if (prefer_) (void)prefer_(place.domain);
}

}  // namespace peal::cli
