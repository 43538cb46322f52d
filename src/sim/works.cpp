#include "works.hpp"

#include <algorithm>
#include <set>

namespace peal::sim {

namespace {

int works_of(const Step& step) { return static_cast<int>(step.jobs.size() + step.computations.size()); }

const std::vector<int>& after_of(const Step& step, int work) {
  const auto at = static_cast<std::size_t>(work);
  return at < step.jobs.size() ? step.jobs[at].after : step.computations[at - step.jobs.size()].after;
}

}  // namespace

Works::Works(const Step& step, Owner owner) : step_(step), owner_(std::move(owner)), times_(step.computations.size()) {
  const int works = works_of(step);
  followers_.resize(static_cast<std::size_t>(works));
  std::vector<std::set<int>> devices(static_cast<std::size_t>(works));
  for (int w = 0; w < works; ++w) {
    devices[static_cast<std::size_t>(w)] = {devices_of(w).begin(), devices_of(w).end()};
    for (const int device : devices_of(w)) devices_.try_emplace(device);
    for (const int before : after(w)) followers_[static_cast<std::size_t>(before)].push_back(w);
  }
  for (int w = 0; w < works; ++w)
    for (const int device : devices_of(w))
      for (const int before : after(w))
        if (devices[static_cast<std::size_t>(before)].contains(device)) ++waits_for_[place(w, device)];
}

bool has_waiting(const Step& step) {
  return !step.computations.empty() ||
         std::any_of(step.jobs.begin(), step.jobs.end(), [](const Job& job) { return !job.after.empty() || job.processors > 0; });
}

namespace {

Status check_order(const Step& step) {
  const int works = works_of(step);
  std::vector<std::vector<int>> followers(static_cast<std::size_t>(works));
  std::vector<std::size_t> open(static_cast<std::size_t>(works));
  std::vector<int> free;
  for (int w = 0; w < works; ++w) {
    for (const int before : after_of(step, w)) {
      if (before < 0 || before >= works)
        return fail(ErrorCode::invalid_argument, "work {} of a step follows {}, but there are 0 to {}", w, before, works - 1);
      followers[static_cast<std::size_t>(before)].push_back(w);
    }
    open[static_cast<std::size_t>(w)] = after_of(step, w).size();
    if (after_of(step, w).empty()) free.push_back(w);
  }
  for (std::size_t i = 0; i < free.size(); ++i)
    for (const int follower : followers[static_cast<std::size_t>(free[i])])
      if (--open[static_cast<std::size_t>(follower)] == 0) free.push_back(follower);
  const auto stuck = std::find_if(open.begin(), open.end(), [](std::size_t left) { return left > 0; });
  if (stuck == open.end()) return {};
  return fail(ErrorCode::invalid_argument, "work {} of a step waits for itself, through those that it follows", stuck - open.begin());
}

}  // namespace

Status check_step(const Step& step, const InterpretOptions& options) {
  if (!has_waiting(step)) return {};
  if (step.jobs.front().environment->is_host)
    return fail(
        ErrorCode::unsupported,
        "computing beside calls is simulated on GPUs: ranks on cores compute and communicate on the same core, one after the other");
  if (options.failure || options.keeps_path)
    return fail(ErrorCode::unsupported, "failures and the critical path are those of calls that wait for nothing: leave computing out");
  for (const Computation& computation : step.computations)
    if (!(computation.time >= 0)) return fail(ErrorCode::invalid_argument, "a computation of {} ns: give 0 or more", computation.time);
  return check_order(step);
}

std::span<const int> Works::devices_of(int work) const {
  const auto at = static_cast<std::size_t>(work);
  return work < jobs() ? step_.jobs[at].device_of_rank : step_.computations[at - step_.jobs.size()].devices;
}

const std::vector<int>& Works::after(int work) const { return after_of(step_, work); }

double Works::rate(const Device& device) const { return step_.processors > 0 ? std::max(0.0, 1 - device.held / step_.processors) : 1; }

void Works::begin(const std::function<double(int device)>& lateness) {
  for (int w = 0; w < works_of(step_); ++w)
    for (const int device : devices_of(w))
      if (!waits_for_.contains(place(w, device))) begin_work(w, device, w < jobs() ? 0 : lateness(device));
}

void Works::begin_work(int work, int device, double now) {
  if (work < jobs()) return owner_.begin(work, device);
  Device& at = devices_.at(device);
  at.ready.push_back(work - jobs());
  if (at.running < 0) compute_next(device, now);
}

void Works::compute_next(int device, double now) {
  Device& at = devices_.at(device);
  at.running = at.ready.front();
  at.ready.pop_front();
  at.left = step_.computations[static_cast<std::size_t>(at.running)].time * owner_.stretch(device);
  at.began = at.since = now;
  hold(device, 0, now);
}

/// So many processors more; what is computed goes on at the rate of those that are left.
void Works::hold(int device, double processors, double now) {
  Device& at = devices_.at(device);
  // A device that begins late has not begun yet.
  at.left -= std::max(0.0, now - at.since) * rate(at);
  at.since = std::max(at.since, now);
  at.held += processors;
  ++at.version;
  if (at.running >= 0 && rate(at) > 0) owner_.come_back(at.since + std::max(0.0, at.left) / rate(at), device, at.version);
}

void Works::launched(int job, int device, double now) { hold(device, step_.jobs[static_cast<std::size_t>(job)].processors, now); }

void Works::ended(int job, int device, double now) {
  hold(device, -step_.jobs[static_cast<std::size_t>(job)].processors, now);
  work_ended(job, device, now);
}

void Works::computed(int device, std::uint32_t version, double now) {
  Device& at = devices_.at(device);
  if (version != at.version) return;
  const int computation = at.running;
  ComputationTimes& times = times_[static_cast<std::size_t>(computation)];
  times.began = times.began < 0 ? at.began : std::min(times.began, at.began);
  times.ended = std::max(times.ended, now);
  times.longest = std::max(times.longest, now - at.began);
  owner_.note(computation, device, at.began, now);
  at.running = -1;
  work_ended(jobs() + computation, device, now);
  if (at.running < 0 && !at.ready.empty()) compute_next(device, now);
}

void Works::work_ended(int work, int device, double now) {
  for (const int follower : followers_[static_cast<std::size_t>(work)]) {
    const auto waits = waits_for_.find(place(follower, device));
    if (waits != waits_for_.end() && --waits->second == 0) begin_work(follower, device, now);
  }
}

}  // namespace peal::sim
