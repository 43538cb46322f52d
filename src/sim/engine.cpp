#include <algorithm>
#include <cmath>
#include <sim/engine.hpp>

namespace peal::sim {

namespace {
constexpr double kNewsOfLifetimes = 0.125;  // what the flows that have left since rates were worked out last count in the mean
}

std::uint32_t Engine::add_resource(double capacity, bool is_line) {
  return crowd_ ? crowd_->add_constraint(capacity) : share_.add_constraint(capacity, is_line);
}

void Engine::keep_rates_for(double share) {
  kept_for_ = share;
  crowd_.emplace(share_);
  share_ = {};
}

void Engine::at(double time, Tag tag) { queue_.push_at(std::max(time, now_), {tag, 0, 0, Kind::timer}); }

/// Number of a flow that begins.
std::uint32_t Engine::enter(const Flow& flow) {
  // Nothing to share: leaves now, in the order of events.
  const std::span<const std::uint32_t> resources = flow.bytes > 0 ? flow.resources : std::span<const std::uint32_t>();
  const double bound = flow.bytes > 0 ? flow.rate_cap : 0;
  return crowd_ ? crowd_->add_variable(resources, bound, flow.counts)
                : share_.add_variable(resources, bound, 1, flow.counts, flow.holds_up_for > 0);
}

void Engine::start(const Flow& flow) {
  const bool has_bytes = flow.bytes > 0;
  const std::uint32_t id = enter(flow);
  if (id >= flows_.size()) flows_.resize(id + 1);
  if (queue_law_) {
    if (id >= queueing_.size()) queueing_.resize(id + 1);
    queueing_[id] = 0;
  }
  FlowState& state = flows_[id];
  const std::uint32_t version = state.version + 1;
  const double bytes = has_bytes ? flow.bytes : 0;
  state = {bytes, bytes, 0, now_, flow.latency, flow.tag, version, version, flow.wants_arrival};
  if (has_bytes && flow.holds_up_for > 0 && std::isfinite(flow.holds_up_for))
    queue_.push_after(now_, flow.holds_up_for, {flow.tag, id, version, Kind::lets_pass});
  if (has_bytes)
    is_changed_ = true;
  else
    queue_.push_after(now_, 0, {flow.tag, id, version, Kind::left});
  if (has_bytes && crowd_ && lifetime_ > 0) change_rate(id, crowd_->rate(id));
}

/// By Little's law: as many flows as are under way, divided by how many leave in a time.
void Engine::note_lifetime() {
  if (left_since_ == 0) return;
  const double lifetime = (now_ - shared_at_) * static_cast<double>(crowd_->variables_in_use()) / static_cast<double>(left_since_);
  lifetime_ += lifetime_ > 0 ? kNewsOfLifetimes * (lifetime - lifetime_) : lifetime;
  left_since_ = 0;
}

void Engine::share_again() {
  is_changed_ = false;
  if (crowd_) return share_again_among_all();
  shared_at_ = now_;
  share_.solve();
  for (const std::uint32_t id : share_.touched()) {
    if (queue_law_ && flows_[id].bytes > 0) queueing_[id] = queueing(id);
    change_rate(id, share_.rate(id));
  }
}

void Engine::share_again_among_all() {
  note_lifetime();
  shared_at_ = now_;
  crowd_->solve();
  crowd_->each_variable([&](std::uint32_t id) { change_rate(id, crowd_->rate(id)); });
}

void Engine::change_rate(std::uint32_t id, double rate) {
  FlowState& flow = flows_[id];
  if (flow.bytes <= 0 || rate == flow.rate) return;
  flow.remaining = std::max(0.0, flow.remaining - (flow.rate > 0 ? flow.rate * (now_ - flow.since) : 0));
  flow.since = now_;
  flow.rate = rate;
  const bool is_first = flow.version++ == flow.birth;
  const double lasts = std::isinf(rate) ? 0 : flow.remaining / rate;
  // Most flows keep their first rate, and many of the same length begin together; what has changed its rate often does so again.
  if (is_first && rate > 0 && !crowd_)
    queue_.push_after(now_, lasts, {flow.tag, id, flow.version, Kind::left});
  else if (rate > 0)
    queue_.set(id, now_ + lasts, {flow.tag, id, flow.version, Kind::left});
  else
    queue_.unset(id);
}

/// Nanoseconds that a byte of a flow stands in front of what stops it, with those that are under way.
double Engine::queueing(std::uint32_t flow) const {
  const FairShare::Constraint at = share_.stopped_by(flow);
  if (at == FairShare::kNowhere || !share_.is_line(at) || share_.users(at) <= 1) return 0;
  return queue_law_(share_.users(at), share_.capacity(at)) / share_.capacity(at);
}

void Engine::delay_all(double delay, std::span<const double> bytes) {
  for (std::uint32_t r = 0; r < bytes.size(); ++r) crowd_ ? crowd_->carry(r, bytes[r]) : share_.carry(r, bytes[r]);
  now_ += delay;
  queue_.delay_all(delay);
  for (FlowState& flow : flows_) flow.since += delay;
}

}  // namespace peal::sim
