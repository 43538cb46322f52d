// The event loop: two ends, two wires. A wire is a server that sends one unit after the other; what it sent arrives a constant time later.
#include <cmath>
#include <deque>
#include <map>
#include <sim/engine.hpp>
#include <sim/link.hpp>

#include "bit_errors.hpp"
#include "data_link.hpp"
#include "traffic.hpp"

namespace peal::sim {

namespace {

constexpr double kNanosecondsAYear = 365.25 * 24 * 3600 * 1e9;
/// Operations whose packets wait in front of the wire: enough to keep it busy.
constexpr std::size_t kQueued = 64;
/// Below this share of whole packets a link would be trained anew.
constexpr double kFewestWhole = 0.2;

/// Share of units that a CRC lets pass: those with more wrong bits than it always finds (a Poisson tail), one in 2^bits of them.
double missed_by_crc(double wrong_bits, double detects, double crc_bits) {
  if (wrong_bits <= 0) return 0;
  double sum = 0;
  for (double k = detects + 1; k < detects + 40; ++k) sum += std::exp(k * std::log(wrong_bits) - wrong_bits - std::lgamma(k + 1));
  return sum * std::exp2(-crc_bits);
}

class LinkRun : private Engine::Listener {
 public:
  LinkRun(const LinkModel& model, const LinkQuestion& question, const LinkHooks& hooks)
      : model_(model),
        question_(question),
        hooks_(hooks),
        traffic_(model, question),
        rate_(model.wire_rate()),
        delay_(model.one_way_ns(question.metres.value_or(model.layers.metres))),
        // The acknowledgement may wait behind a unit and its timer, and travels back.
        timeout_(model.layers.timeout_round_trips * (2 * delay_ + model.ack_delay_ns() + 2 * largest_packet(model, question) / rate_)),
        ends_{End(model, question, 0), End(model, question, 1)} {}

  Result<LinkOutcome> run() {
    if (hooks_.trace != nullptr)
      for (int end = 0; end < 2; ++end)
        hooks_.trace->name_process(end, fmt::format("{} from end {}", model_.link.name, end == 0 ? "A" : "B"));
    for (int end = 0; end < 2; ++end) engine_.after(model_.layers.refresh_ns, tag(Event::refresh, end));
    pump(0);
    if (question_.is_both_ways) pump(1);
    // A packet that every other try breaks takes its whole window with it; more events than that are a fault of ours.
    const double packets = question_.operations * std::max(1.0, question_.payload / model_.layers.read_reply_bytes);
    if (!engine_.run(*this, static_cast<std::uint64_t>(1e7 + 1e4 * packets)) || !traffic_.is_done())
      return fail(ErrorCode::internal, "the simulated link stopped with operations under way: {} at seed {}", model_.link.name,
                  question_.seed);
    return outcome();
  }

  /// Bytes on the wire of the largest packet that the question makes.
  static double largest_packet(const LinkModel& model, const LinkQuestion& question) {
    const double data = std::max<double>(model.layers.max_payload_bytes, question.reply_bytes.value_or(model.layers.read_reply_bytes));
    const int around =
        std::max(model.request_bytes, model.response_bytes) + question.extra_flits * static_cast<int>(model.layers.flit_bytes);
    return std::max<double>(model.wire_bytes(static_cast<int>(data), around), model.layers.flit_bytes);
  }

 private:
  enum class Event : std::uint8_t { wire_free, arrival, replay_timer, message_timer, refresh, drained, answer };

  struct Flight {
    LinkFrame frame;
    bool is_broken = false;
  };
  struct End {
    End(const LinkModel& model, const LinkQuestion& question, int end)
        : layer(model.layers,
                static_cast<std::uint64_t>(largest_packet(model, question) * question.credits.value_or(model.layers.credits))),
          errors(question.ber, question.seed * 2 + static_cast<std::uint64_t>(end)) {}
    DataLink layer;
    BitErrors errors;
    bool is_sending = false;
    std::deque<Flight> flying;  // towards the other end
    bool has_replay_timer = false, has_message_timer = false;
    double replay_deadline = 0;
    std::deque<LinkPacket> draining, at_target;  // of packets that arrived here
    std::uint64_t sent = 0;
    double bytes_sent = 0;
  };

  static Tag tag(Event event, int end) { return static_cast<Tag>(event) << 1 | static_cast<Tag>(end); }

  friend Engine;
  void on_timer(Tag tag) {
    const int end = static_cast<int>(tag & 1);
    switch (static_cast<Event>(tag >> 1)) {
      case Event::wire_free:
        ends_[end].is_sending = false;
        pump(end);
        break;
      case Event::arrival: arrive(end); break;
      case Event::replay_timer: check_replay_timer(end); break;
      case Event::message_timer:
        ends_[end].has_message_timer = false;
        ends_[end].layer.allow_message();
        pump(end);
        break;
      case Event::refresh:
        if (traffic_.is_done()) break;
        ends_[end].layer.tell_again();
        engine_.after(model_.layers.refresh_ns, tag);
        pump(end);
        break;
      case Event::drained:
        ends_[end].layer.free_room(ends_[end].draining.front());
        ends_[end].draining.pop_front();
        pump(end);
        break;
      case Event::answer:
        for (const LinkPacket& packet : traffic_.answers(end, ends_[end].at_target.front())) ends_[end].layer.enqueue(packet);
        ends_[end].at_target.pop_front();
        pump(end);
        break;
    }
  }

  void refill(int end) {
    DataLink& layer = ends_[end].layer;
    while (layer.queued(traffic_.request_channel()) < kQueued) {
      const auto packets = traffic_.next_operation(end);
      if (packets.empty()) return;
      for (const LinkPacket& packet : packets) layer.enqueue(packet);
    }
  }

  /// Gives the free wire something to send, and starts the timers that what happened asks for.
  void pump(int end) {
    End& e = ends_[end];
    if (!e.is_sending && !traffic_.is_done()) {
      refill(end);
      started_.clear();
      const bool is_first = !e.layer.has_unacknowledged();
      if (const auto frame = e.layer.next(started_)) send(end, *frame, is_first);
    }
    if (e.layer.wants_message() && !e.has_message_timer) {
      e.has_message_timer = true;
      engine_.after(model_.ack_delay_ns(), tag(Event::message_timer, end));
    }
  }

  /// is_first: nothing waits for an acknowledgement.
  void send(int end, const LinkFrame& frame, bool is_first) {
    End& e = ends_[end];
    const double now = engine_.now();
    const double duration = frame.wire / rate_;
    for (const LinkPacket& packet : started_) traffic_.on_started(end, packet, now);
    const bool is_hit = e.errors.hit(8.0 * frame.wire);
    const bool is_broken = (hooks_.breaks && hooks_.breaks(end, e.sent)) || is_hit;
    ++e.sent;
    e.bytes_sent += frame.wire;
    if (frame.is_unit) ++units_[frame.wire];
    outcome_.packets += started_.size();
    outcome_.messages += frame.is_unit ? 0 : 1;
    outcome_.replayed += frame.is_replay ? 1 : 0;
    outcome_.broken += is_broken ? 1 : 0;
    e.is_sending = true;
    engine_.after(duration, tag(Event::wire_free, end));
    engine_.after(duration + delay_, tag(Event::arrival, 1 - end));
    if (hooks_.trace != nullptr) draw(end, frame, is_broken, now, duration);
    e.flying.push_back({frame, is_broken});
    if (frame.is_replay || (frame.is_unit && is_first)) e.replay_deadline = now + duration + timeout_;
    if (frame.is_unit && !e.has_replay_timer) start_replay_timer(end);
  }

  void arrive(int end) {
    End& e = ends_[end];
    End& other = ends_[1 - end];
    const Flight flight = other.flying.front();
    other.flying.pop_front();
    if (flight.is_broken) {
      if (flight.frame.is_unit) e.layer.receive_broken();
      return pump(end);
    }
    const std::uint64_t progress = e.layer.progress();
    delivered_.clear();
    e.layer.receive(flight.frame, other.layer, delivered_);
    if (e.layer.progress() != progress) e.replay_deadline = engine_.now() + timeout_;
    for (const LinkPacket& packet : delivered_) deliver(end, packet);
    pump(end);
  }

  void deliver(int end, const LinkPacket& packet) {
    End& e = ends_[end];
    if (hooks_.on_delivery) hooks_.on_delivery({end, packet.channel, packet.number, packet.data, engine_.now()});
    e.draining.push_back(packet);
    engine_.after(model_.layers.drain_ns, tag(Event::drained, end));
    if (!traffic_.on_delivered(end, packet, engine_.now())) return;
    e.at_target.push_back(packet);
    engine_.after(model_.layers.target_ns, tag(Event::answer, end));
  }

  void start_replay_timer(int end) {
    ends_[end].has_replay_timer = true;
    engine_.at(ends_[end].replay_deadline, tag(Event::replay_timer, end));
  }

  // One event a timer: acknowledgements move the deadline, and the event looks at it when it comes.
  void check_replay_timer(int end) {
    End& e = ends_[end];
    e.has_replay_timer = false;
    if (!e.layer.has_unacknowledged() || traffic_.is_done()) return;
    if (engine_.now() < e.replay_deadline) return start_replay_timer(end);
    if (!e.layer.is_replaying()) {
      e.layer.replay();
      ++outcome_.timeouts;
    }
    e.replay_deadline = engine_.now() + timeout_;
    start_replay_timer(end);
    pump(end);
  }

  void draw(int end, const LinkFrame& frame, bool is_broken, double now, double duration) {
    std::string name;
    if (!frame.is_unit) {
      name = fmt::format("{} {}", frame.control.is_nak ? "nak" : "ack", frame.control.expected);
    } else {
      const auto& packets = ends_[end].layer.packets_of(frame.number);
      const bool is_answer = !packets.empty() && packets.front().channel == LinkChannel::response;
      name = fmt::format("{}{}{} {}", frame.is_replay ? "replay " : "", name_of(question_.operation), is_answer ? " answer" : "",
                         frame.number);
      if (packets.size() > 1) name += fmt::format(" ({} packets)", packets.size());
    }
    const char* category = is_broken ? "broken" : frame.is_replay ? "replay" : frame.is_unit ? "unit" : "message";
    if (is_broken) name += ", wrong bits";
    hooks_.trace->add({name, category, end, 0, now * 1e-3, duration * 1e-3});
  }

  LinkOutcome outcome() {
    traffic_.report(outcome_);
    outcome_.busy = std::min(1.0, std::max(ends_[0].bytes_sent, ends_[1].bytes_sent) / rate_ / outcome_.time_ns);
    for (const auto& [bytes, units] : units_)
      outcome_.undetected += static_cast<double>(units) / outcome_.time_ns * kNanosecondsAYear *
                             missed_by_crc(8 * bytes * question_.ber, model_.layers.crc_detects, model_.layers.crc_bits);
    return outcome_;
  }

  const LinkModel& model_;
  const LinkQuestion question_;
  const LinkHooks& hooks_;
  LinkTraffic traffic_;
  const double rate_, delay_, timeout_;
  End ends_[2];
  Engine engine_;
  LinkOutcome outcome_;
  std::map<int, std::uint64_t> units_;  // sent, by their bytes
  std::vector<LinkPacket> started_, delivered_;
};

Status check(const LinkModel& model, const LinkQuestion& q) {
  constexpr ErrorCode kBad = ErrorCode::invalid_argument;
  if (q.operations < 1 || q.operations > 10'000'000)
    return fail(kBad, "--operations {} is not simulated; give 1 to 10000000", q.operations);
  if (q.payload < 1 || q.payload > 1 << 24)
    return fail(kBad, "--payload {} is no size of an operation; give 1 to 16777216 bytes", q.payload);
  if (static_cast<double>(q.operations) * std::max(1.0, q.payload / model.layers.max_payload_bytes) > 2e7)
    return fail(kBad, "{} operations of {} bytes are more than 20 million packets; give fewer --operations", q.operations, q.payload);
  if (const int n = q.credits.value_or(1); n < 1 || n > 1 << 20)
    return fail(kBad, "--credits {}: without a credit nothing can be sent; give 1 or more, in packets of the largest payload", n);
  if (const int n = q.outstanding.value_or(1); n < 1 || n > 1 << 20) return fail(kBad, "--outstanding {}: give 1 or more operations", n);
  if (const int n = q.reply_bytes.value_or(1); n < 1 || n > 4096) return fail(kBad, "--reply {}: give 1 to 4096 bytes", n);
  if (q.extra_flits < 0 || q.extra_flits > 2)
    return fail(kBad, "--extra-flits {}: a header has at most two more; give 0 to 2", q.extra_flits);
  if (const double m = q.metres.value_or(0); !(m >= 0 && m <= 1e5))
    return fail(kBad, "--metres {}: no cable is that long; give its length, 0 to 100000 metres", m);
  if (!(q.ber >= 0 && q.ber < 1)) return fail(kBad, "--ber {}: give wrong bits a bit, from 0 to below 1, such as 1e-12", q.ber);
  const double bits = 8 * LinkRun::largest_packet(model, q);
  const double whole = std::exp(bits * std::log1p(-q.ber));
  if (whole < kFewestWhole)
    return fail(kBad, "--ber {:.3g}: of packets of {:.0f} bits {:.2g} % would arrive whole, which no link keeps up; give {:.1g} or less",
                q.ber, bits, 100 * whole, -std::log(kFewestWhole) / bits);
  return {};
}

}  // namespace

Result<LinkOutcome> simulate_link(const LinkModel& model, const LinkQuestion& question, const LinkHooks& hooks) {
  PEAL_TRY(check(model, question));
  PEAL_ASSIGN(LinkOutcome outcome, LinkRun(model, question, hooks).run());
  LinkQuestion alone = question;
  alone.operations = 1;
  alone.is_both_ways = false;
  alone.ber = 0;
  const LinkHooks none;
  PEAL_ASSIGN(const LinkOutcome one, LinkRun(model, alone, none).run());
  outcome.latency_ns = one.p50_ns;
  return outcome;
}

}  // namespace peal::sim
