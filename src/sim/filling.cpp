#include <algorithm>
#include <cmath>
#include <functional>
#include <sim/filling.hpp>

#include "same_level.hpp"

namespace peal::sim {

namespace {
constexpr double kNoWeight = 1e-12;  // what it leaves of weights that cancel
}  // namespace

void Filling::clear() {
  limits_.clear();
  members_.clear();
  crossings_.clear();
  has_lines_ = false;
}

Filling::Number Filling::add_limit(double room, bool is_line) {
  Limit& limit = limits_.emplace_back();
  limit.room = room;
  limit.is_line = is_line;
  has_lines_ |= is_line;
  return static_cast<Number>(limits_.size() - 1);
}

Filling::Number Filling::add_member(double bound, double weight, bool holds_up) {
  Member& member = members_.emplace_back();
  member.bound = bound;
  member.weight = weight;
  member.holds_up = holds_up;
  member.first = static_cast<Number>(crossings_.size());
  return static_cast<Number>(members_.size() - 1);
}

void Filling::add_crossing(Number number, double count, double rate) {
  Limit& limit = limits_[number];
  Member& member = members_.back();
  limit.room += count * rate;
  limit.weight += count * member.weight;
  crossings_.push_back({count, number, static_cast<Number>(members_.size() - 1), limit.first});
  limit.first = static_cast<Number>(crossings_.size() - 1);
  ++limit.crossed;
  ++member.crossings;
}

void Filling::push_full(const Full& full) {
  full_.push_back(full);
  std::push_heap(full_.begin(), full_.end(), std::greater<>());
}

void Filling::pop_full() {
  std::pop_heap(full_.begin(), full_.end(), std::greater<>());
  full_.pop_back();
}

/// Everybody rises. Limits that one member crosses are bounds of it.
void Filling::begin() {
  full_.clear();
  by_level_.clear();
  for (Limit& limit : limits_) {
    limit.left = limit.room;
    limit.rising = limit.weight;
    limit.is_backed_up = false;
    if (limit.crossed > 1 && std::isfinite(limit.room))
      full_.push_back({std::max(0.0, limit.left) / limit.rising, static_cast<Number>(&limit - limits_.data()), limit.version});
  }
  std::make_heap(full_.begin(), full_.end(), std::greater<>());
  for (Member& member : members_) {
    member.has_stopped = false;
    member.stopped_by = kNone;
    member.held = 0;
    member.level = member.bound / member.weight;
    for (Number i = member.first; i < member.first + member.crossings; ++i) {
      const Limit& limit = limits_[crossings_[i].limit];
      if (limit.crossed > 1 || !std::isfinite(limit.room)) continue;
      const double level = std::max(0.0, limit.room) / limit.weight;
      if (level >= member.level) continue;
      member.level = level;
      if (!has_lines_) member.stopped_by = crossings_[i].limit;
    }
    by_level_.emplace_back(member.level, static_cast<Number>(&member - members_.data()));
  }
  std::sort(by_level_.begin(), by_level_.end());
}

void Filling::stop_alone(Member& member, double level) {
  member.level = level;
  member.has_stopped = true;
  for (Number i = member.first; i < member.first + member.crossings; ++i) {
    const Crossing& crossing = crossings_[i];
    Limit& limit = limits_[crossing.limit];
    limit.left -= crossing.count * level * member.weight;
    limit.rising -= crossing.count * member.weight;
    if (limit.rising < kNoWeight) limit.rising = 0;
    ++limit.version;
  }
}

/// Stops a member and finds out what stops it there: of several limits that are full the last, for all before that are backed up.
void Filling::stop_where_it_is_full(Member& member, double level) {
  for (Number i = 0; i < member.crossings; ++i) {
    const Number number = crossings_[member.first + i].limit;
    const Limit& limit = limits_[number];
    if (!std::isfinite(limit.room) || limit.left > limit.rising * level * (1 + kSameLevel)) continue;
    member.stopped_by = number;
    member.held = member.holds_up ? i : 0;
  }
  stop_alone(member, level);
}

/// Stops a member at a level, and with it all whom it holds up.
void Filling::stop(Number number, double level) {
  if (!has_lines_) return stop_alone(members_[number], level);
  stop_where_it_is_full(members_[number], level);
  held_up_.assign(1, number);
  while (!held_up_.empty()) {
    const Member& member = members_[held_up_.back()];
    held_up_.pop_back();
    for (Number i = 0; i < member.held; ++i) hold(crossings_[member.first + i], level);
  }
}

/// Whoever stands in a line that is backed up goes no faster than this. Once a run: the first time is the slowest.
void Filling::hold(const Crossing& line, double level) {
  Limit& limit = limits_[line.limit];
  if (!limit.is_line || limit.is_backed_up) return;
  limit.is_backed_up = true;
  for (Number i = limit.first; i != kNone; i = crossings_[i].next) {
    Member& member = members_[crossings_[i].member];
    const Number place = i - member.first;
    if (!member.has_stopped) {
      stop_where_it_is_full(member, level);
      if (member.stopped_by == kNone) member.stopped_by = line.limit;
    } else if (member.level < level * (1 - kSameLevel) || member.held >= place) {
      continue;
    }
    member.held = std::max(member.held, place);
    held_up_.push_back(crossings_[i].member);
  }
}

void Filling::run() {
  begin();
  std::size_t next = 0;
  for (;;) {
    while (next < by_level_.size() && members_[by_level_[next].second].has_stopped) ++next;
    if (next == by_level_.size()) break;
    while (!full_.empty() && full_.front().version != limits_[full_.front().limit].version) {
      // Members stopped since: its level has risen, look again.
      const Number stale = full_.front().limit;
      pop_full();
      const Limit& limit = limits_[stale];
      if (limit.rising > 0) push_full({std::max(0.0, limit.left) / limit.rising, stale, limit.version});
    }
    const auto [level, first] = by_level_[next];
    if (full_.empty() || level <= full_.front().level) {
      stop(first, level);
      continue;
    }
    const Full full = full_.front();
    pop_full();
    for (Number i = limits_[full.limit].first; i != kNone; i = crossings_[i].next) {
      if (members_[crossings_[i].member].has_stopped) continue;
      if (!has_lines_) members_[crossings_[i].member].stopped_by = full.limit;
      stop(crossings_[i].member, full.level);
    }
  }
}

}  // namespace peal::sim
