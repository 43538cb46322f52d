// Traces of all ranks in virtual time: nodes end, others begin; calls and messages begin when all of theirs have come.
#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "trace_order.hpp"

namespace peal::training {
namespace {

struct Place {
  std::size_t trace = 0;
  std::size_t node = 0;
  auto operator<=>(const Place&) const = default;
};

/// A call or a message: who takes part, and who has come.
struct Meeting {
  Collective collective = Collective::send_recv;
  double bytes = 0;
  std::vector<int> group;
  std::vector<Place> parts;
  std::size_t expected = 0;
  std::size_t come = 0;
  double ready = 0;
  int lane = 0;           ///< calls of one group go one after another; 0: a message
  double delivered = -1;  ///< of a message; -1: not sent yet
};

struct Rank {
  TraceOrder order;
  std::vector<std::size_t> waits;
  double device_free = 0, host_free = 0;
  std::vector<std::pair<double, double>> busy;  ///< device and host
  RankTime time;
};

class TraceRun {
 public:
  TraceRun(const std::vector<RankTrace>& traces, const CommunicationTime& time) : traces_(traces), time_(time) {}

  Result<TraceStudy> run() {
    for (const RankTrace& trace : traces_) {
      PEAL_TRY(check_order(trace));
      Rank rank;
      rank.order = order_of(trace);
      for (const std::vector<std::size_t>& after : rank.order.after) rank.waits.push_back(after.size());
      ranks_.push_back(std::move(rank));
    }
    PEAL_TRY(arrange_meetings());
    for (std::size_t t = 0; t < traces_.size(); ++t)
      for (std::size_t i = 0; i < traces_[t].nodes.size(); ++i)
        if (ranks_[t].waits[i] == 0) PEAL_TRY(begin({t, i}, 0));
    while (!ends_.empty()) {
      const auto [at, place] = ends_.top();
      ends_.pop();
      PEAL_TRY(finish(place, at));
    }
    PEAL_TRY(check_all_met());
    return study();
  }

 private:
  const TraceNode& node(Place place) const { return traces_[place.trace].nodes[place.node]; }
  static bool is_call(const TraceNode& n) { return n.kind == NodeKind::collective && n.collective && !n.is_on_cpu && n.bytes > 0; }
  static bool is_message(const TraceNode& n) { return (n.kind == NodeKind::send || n.kind == NodeKind::receive) && n.peer >= 0; }

  Status arrange_meetings() {
    std::map<std::string, std::set<int>> groups;
    for (const RankTrace& trace : traces_)
      for (const TraceNode& n : trace.nodes)
        if (is_call(n)) groups[n.group].insert(trace.rank);
    std::map<std::pair<std::string, int>, std::size_t> calls;
    std::map<std::tuple<int, int, std::int64_t, int>, std::size_t> messages;
    std::map<std::string, int> lanes;
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      std::map<std::string, int> call_count;
      std::map<std::tuple<int, int, std::int64_t, NodeKind>, int> message_count;
      for (std::size_t i = 0; i < traces_[t].nodes.size(); ++i) {
        const TraceNode& n = traces_[t].nodes[i];
        if (is_call(n)) {
          const std::set<int>& group = groups[n.group];
          const auto [known, is_new] = calls.emplace(std::pair(n.group, call_count[n.group]++), meetings_.size());
          if (is_new)
            meetings_.push_back({*n.collective,
                                 n.bytes,
                                 {group.begin(), group.end()},
                                 {},
                                 group.size(),
                                 0,
                                 0,
                                 lanes.emplace(n.group, 1 + static_cast<int>(lanes.size())).first->second,
                                 -1});
          PEAL_TRY(join({t, i}, known->second));
        } else if (is_message(n)) {
          const int self = traces_[t].rank, from = n.kind == NodeKind::send ? self : n.peer, to = n.kind == NodeKind::send ? n.peer : self;
          const int number = message_count[{from, to, n.tag, n.kind}]++;
          const auto [known, is_new] = messages.emplace(std::tuple(from, to, n.tag, number), meetings_.size());
          if (is_new) meetings_.push_back({Collective::send_recv, n.bytes, {from, to}, {}, 2, 0, 0, 0, -1});
          PEAL_TRY(join({t, i}, known->second));
        }
      }
    }
    return {};
  }

  Status join(Place place, std::size_t number) {
    Meeting& meeting = meetings_[number];
    const TraceNode& n = node(place);
    const bool fits = meeting.bytes == n.bytes && (is_message(n) || meeting.collective == *n.collective);
    if (!fits) {
      const TraceNode& first = node(meeting.parts.front());
      return fail(ErrorCode::mismatch, "rank {}'s \"{}\" of {:.0f} bytes meets rank {}'s \"{}\" of {:.0f}: they are not the same call",
                  traces_[place.trace].rank, n.name, n.bytes, traces_[meeting.parts.front().trace].rank, first.name, first.bytes);
    }
    meeting.parts.push_back(place);
    meeting_of_[place] = number;
    return {};
  }

  /// `place` has all that it waits for.
  Status begin(Place place, double now) {
    const auto it = meeting_of_.find(place);
    if (it == meeting_of_.end()) {
      compute(place, now);
      return {};
    }
    Meeting& meeting = meetings_[it->second];
    ++meeting.come;
    if (meeting.lane == 0) return pass_message(meeting, place, now);
    meeting.ready = std::max(meeting.ready, now);
    if (meeting.come < meeting.expected) return {};
    PEAL_ASSIGN(const Nanoseconds takes, time_(meeting.collective, meeting.bytes, meeting.group));
    double& free = lane_free_[meeting.lane];
    free = std::max(meeting.ready, free) + takes.microseconds();
    for (const Place part : meeting.parts) ends_.push({free, part});
    return {};
  }

  /// A send ends when its bytes are there, whether or not they are waited for: libraries have buffers, and recorded jobs rely on them.
  Status pass_message(Meeting& meeting, Place place, double now) {
    if (node(place).kind == NodeKind::receive) {
      meeting.ready = now;
      if (meeting.delivered >= 0) ends_.push({std::max(now, meeting.delivered), place});
      return {};
    }
    PEAL_ASSIGN(const Nanoseconds takes, time_(meeting.collective, meeting.bytes, meeting.group));
    meeting.delivered = now + takes.microseconds();
    ends_.push({meeting.delivered, place});
    if (meeting.come == meeting.expected)
      for (const Place part : meeting.parts)
        if (part != place) ends_.push({std::max(meeting.ready, meeting.delivered), part});
    return {};
  }

  void compute(Place place, double now) {
    const TraceNode& n = node(place);
    Rank& rank = ranks_[place.trace];
    // Memory and metadata, and calls that say nothing of themselves, take what was recorded and hold nobody up but their users.
    if (n.kind != NodeKind::compute) {
      ends_.push({now + n.duration_us, place});
      return;
    }
    double& free = n.is_on_cpu ? rank.host_free : rank.device_free;
    const double start = std::max(now, free);
    free = start + n.duration_us;
    rank.busy.emplace_back(start, free);
    if (!n.is_on_cpu) rank.time.compute_us += n.duration_us;
    ends_.push({free, place});
  }

  Status finish(Place place, double now) {
    Rank& rank = ranks_[place.trace];
    rank.time.end_us = std::max(rank.time.end_us, now);
    ++ended_;
    for (const std::size_t user : rank.order.before[place.node])
      if (--rank.waits[user] == 0) PEAL_TRY(begin({place.trace, user}, now));
    return {};
  }

  Status check_all_met() const {
    constexpr std::size_t kMostShown = 3;
    std::vector<std::string> waiting;
    for (const Meeting& meeting : meetings_) {
      if (meeting.come == meeting.expected || meeting.come == 0 || waiting.size() == kMostShown) continue;
      const Place first = meeting.parts.front();
      waiting.push_back(fmt::format("\"{}\" of rank {} among ranks {} ({} of {} came)", node(first).name, traces_[first.trace].rank,
                                    fmt::join(meeting.group, ", "), meeting.come, meeting.expected));
    }
    std::size_t nodes = 0;
    for (const RankTrace& trace : traces_) nodes += trace.nodes.size();
    if (ended_ == nodes && waiting.empty()) return {};
    return fail(ErrorCode::mismatch, "the ranks wait for ever: {}; give the traces of all ranks, whole",
                waiting.empty() ? "nodes without their calls" : fmt::to_string(fmt::join(waiting, "; ")));
  }

  TraceStudy study() {
    TraceStudy study;
    for (Rank& rank : ranks_) {
      std::sort(rank.busy.begin(), rank.busy.end());
      double covered = 0, until = 0;
      for (const auto& [start, end] : rank.busy) covered += std::max(0.0, end - std::max(start, until)), until = std::max(until, end);
      rank.time.exposed_us = rank.time.end_us - covered;
      study.time_us = std::max(study.time_us, rank.time.end_us);
      study.ranks.push_back(rank.time);
    }
    return study;
  }

  const std::vector<RankTrace>& traces_;
  const CommunicationTime& time_;
  std::vector<Rank> ranks_;
  std::vector<Meeting> meetings_;
  std::map<Place, std::size_t> meeting_of_;
  std::map<int, double> lane_free_;
  using End = std::pair<double, Place>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::size_t ended_ = 0;
};

}  // namespace

Result<TraceStudy> simulate_traces(const std::vector<RankTrace>& traces, const CommunicationTime& time) {
  return TraceRun(traces, time).run();
}

}  // namespace peal::training
