#include <algorithm>
#include <cmath>
#include <sim/engine.hpp>

namespace peal::sim {

namespace {
constexpr double kSameInstant = 1e-12;  // relative; with a floor of a femtosecond
}

std::uint32_t Engine::add_resource(double capacity) {
  bytes_over_.push_back(0);
  return share_.add_constraint(capacity);
}

void Engine::push(double time, Kind kind, Tag tag, std::uint32_t flow, std::uint32_t version) {
  queue_.push({time, order_++, tag, flow, version, kind});
}

void Engine::at(double time, Tag tag) { push(std::max(time, now_), Kind::timer, tag); }

void Engine::start(const Flow& flow) {
  if (flow.bytes <= 0) {
    // Nothing to share: leaves now, in the order of events.
    const std::uint32_t id = share_.add_variable({}, 0);
    if (id >= flows_.size()) flows_.resize(id + 1);
    FlowState& state = flows_[id];
    const std::uint32_t version = state.version + 1;
    state = {0, 0, 0, now_, flow.latency, version, flow.wants_arrival, flow.tag, {}};
    push(now_, Kind::left, flow.tag, id, version);
    return;
  }
  const std::uint32_t id = share_.add_variable(flow.resources, flow.rate_cap, flow.weight);
  if (id >= flows_.size()) flows_.resize(id + 1);
  FlowState& state = flows_[id];
  const std::uint32_t version = state.version + 1;
  state = {
      flow.bytes, flow.bytes, 0, now_, flow.latency, version, flow.wants_arrival, flow.tag, {flow.resources.begin(), flow.resources.end()}};
  is_changed_ = true;
}

void Engine::share_again() {
  is_changed_ = false;
  share_.solve();
  for (std::uint32_t id : share_.touched()) {
    FlowState& flow = flows_[id];
    if (flow.bytes <= 0) continue;
    const double rate = share_.rate(id);
    if (rate == flow.rate) continue;
    flow.remaining = std::max(0.0, flow.remaining - (flow.rate > 0 ? flow.rate * (now_ - flow.since) : 0));
    flow.since = now_;
    flow.rate = rate;
    ++flow.version;
    if (rate > 0) push(std::isinf(rate) ? now_ : now_ + flow.remaining / rate, Kind::left, flow.tag, id, flow.version);
  }
}

void Engine::finish_flow(const Event& event, Listener& listener) {
  FlowState& flow = flows_[event.flow];
  if (flow.version != event.version) return;
  ++flow.version;
  for (std::uint32_t r : flow.resources) bytes_over_[r] += flow.bytes;
  if (flow.bytes > 0) is_changed_ = true;
  const Tag tag = flow.tag;
  if (flow.wants_arrival) push(now_ + flow.latency, Kind::arrived, tag);
  share_.remove_variable(event.flow);
  listener.on_flow_left(tag);
}

bool Engine::run(Listener& listener, std::uint64_t most_events) {
  const std::uint64_t last = events_ + std::min(most_events, ~std::uint64_t{0} - events_);
  for (;;) {
    if (is_changed_) {
      // Everything of this instant first, so that a step of a thousand equal flows is shared out once.
      const double window = now_ + std::max(1e-6, now_ * kSameInstant);
      if (queue_.empty() || queue_.top().time > window) share_again();
    }
    if (queue_.empty()) return true;
    if (events_ >= last) return false;
    const Event event = queue_.top();
    queue_.pop();
    if (event.kind == Kind::left && flows_[event.flow].version != event.version) continue;
    ++events_;
    now_ = std::max(now_, event.time);
    switch (event.kind) {
      case Kind::timer: listener.on_timer(event.tag); break;
      case Kind::arrived: listener.on_flow_arrived(event.tag); break;
      case Kind::left: finish_flow(event, listener); break;
    }
  }
}

}  // namespace peal::sim
