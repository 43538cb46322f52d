#include "critical_path.hpp"

#include <algorithm>

namespace peal::sim {

std::string_view name_of(PathShare share) noexcept {
  switch (share) {
    case PathShare::late: return "late start";
    case PathShare::launch: return "launch";
    case PathShare::turn: return "turns on a core";
    case PathShare::issue: return "issuing";
    case PathShare::copy: return "copying and reducing";
    case PathShare::wire: return "wire";
    case PathShare::sharing: return "sharing wires";
    case PathShare::latency: return "latency";
    case PathShare::credit: return "waiting for credit";
  }
  return "";
}

Index PathRecorder::begin(schedule::OpKind kind, std::int32_t rank, std::int32_t peer, double now) {
  if (!is_on_) return kNobody;
  Step step;
  step.cause = by_.step;
  step.why = by_.why;
  step.kind = kind;
  step.rank = rank;
  step.peer = peer;
  step.began = step.issued = step.ended = now;
  steps_.push_back(step);
  return static_cast<Index>(steps_.size() - 1);
}

void PathRecorder::push(Line line, Index channel, Index step) {
  if (!is_on_) return;
  const std::size_t index = std::size_t{3} * channel + static_cast<std::size_t>(line);
  if (index >= lines_.size()) lines_.resize(std::size_t{3} * channel + 3);
  lines_[index].push_back(step);
}

Index PathRecorder::pop(Line line, Index channel) {
  if (!is_on_) return kNobody;
  auto& waiting = lines_[std::size_t{3} * channel + static_cast<std::size_t>(line)];
  const Index step = waiting.front();
  waiting.pop_front();
  return step;
}

void PathRecorder::finish(std::int32_t rank, double now) {
  if (!is_on_ || now < last_time_) return;
  last_time_ = now;
  last_ = by_;
  last_rank_ = rank;
}

/// Latest part first: the walk goes backwards.
void PathRecorder::add_step(const Step& s, std::uint32_t ordinal, double until, std::vector<PathPart>& backwards) const {
  const auto add = [&](PathShare what, double from, double to) {
    if (to > from) backwards.push_back({what, s.kind, s.rank, s.peer, ordinal, from, to});
  };
  const auto add_shared = [&](PathShare what, double from, double to, double alone) {
    const double own = std::min(to, from + alone);
    add(PathShare::sharing, own, to);
    add(what, from, own);
  };
  if (schedule::is_switched(s.kind) && s.worked >= 0) {
    // Ends only where it is seen to have ended.
    const double left = std::max(s.worked, until - s.hop);
    add(PathShare::latency, left, until);
    until = left;
  }
  double end_of_work = until;
  if (s.worked >= 0 && s.worked <= until) {
    end_of_work = s.worked;
    if (s.is_on_wire)
      add_shared(PathShare::wire, s.worked, until, s.wire_alone);
    else
      add(PathShare::copy, s.worked, until);
  }
  add_shared(PathShare::copy, s.issued, end_of_work, s.worked >= 0 ? s.work_alone : end_of_work - s.issued);
  add(PathShare::issue, s.began + s.turn, s.issued);
  add(PathShare::turn, s.began, s.began + s.turn);
}

std::vector<PathPart> PathRecorder::walk() const {
  std::vector<PathPart> parts;
  Trigger by = last_;
  double end = last_time_;
  std::uint32_t ordinal = 0;
  while (by.step != kNobody) {
    const Step& s = steps_[by.step];
    double until = s.ended;
    if (by.why == Why::message) until = end - s.hop;
    const PathShare after = by.why == Why::message || by.why == Why::signal ? PathShare::latency : PathShare::credit;
    if (end > until) parts.push_back({after, s.kind, s.rank, s.peer, ordinal, until, end});
    add_step(s, ordinal++, until, parts);
    end = s.began;
    by = {s.cause, s.why};
  }
  std::reverse(parts.begin(), parts.end());
  for (PathPart& part : parts) part.step = ordinal - 1 - part.step;
  return parts;
}

}  // namespace peal::sim
