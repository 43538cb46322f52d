// Progressive filling of one system: the levels of all members rise together until a limit is full or a member meets its bound; those stop
// there, the others go on rising. A member's rate is its level times its weight. Members and limits are added once and numbered from 0;
// run() may be repeated after more were added. All that it looks at lies side by side in memory.
//
// A limit may be a line (solver.hpp says what that is). Rates, rooms and bounds have one unit, whichever. Not thread-safe; the same input
// gives the same rates, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

namespace peal::sim {

class Filling {
 public:
  using Number = std::uint32_t;
  static constexpr Number kNone = ~Number{0};

  struct Limit {
    double room = 0;    ///< for all members that cross it; may be infinite
    double weight = 0;  ///< of all members that cross it
    double left = 0;    ///< of the room
    double rising = 0;  ///< while running: weight of those that have not stopped
    Number first = kNone;
    Number crossed = 0;  ///< by so many
    Number version = 0;
    bool is_line = false;
    bool is_backed_up = false;
  };
  struct Member {
    double bound = 0;  ///< of its rate
    double weight = 1;
    double level = 0;  ///< at which it stopped
    Number first = 0;  ///< of its crossings, which lie side by side
    Number crossings = 0;
    /// The limit that stopped it, kNone: its bound. Without lines one of those; with lines the last on its way.
    Number stopped_by = kNone;
    Number held = 0;  // before this one of its crossings its lines are backed up
    bool holds_up = true;
    bool has_stopped = false;
  };
  struct Crossing {
    double count = 1;
    Number limit = 0;
    Number member = 0;
    Number next = kNone;  ///< of those that cross the limit
  };

  void clear();
  Number add_limit(double room, bool is_line);
  Number add_member(double bound, double weight, bool holds_up);
  /// The member that was added last crosses a limit so many times; `rate` of it is given back to the limit's room.
  void add_crossing(Number limit, double count, double rate);
  void run();

  const std::vector<Limit>& limits() const { return limits_; }
  const std::vector<Member>& members() const { return members_; }
  /// What crosses a limit, as f(member, whether the limit stopped it).
  template <class F>
  void each_member(Number limit, F&& f) const {
    for (Number i = limits_[limit].first; i != kNone; i = crossings_[i].next) {
      const Member& member = members_[crossings_[i].member];
      f(member, member.stopped_by == limit);
    }
  }

 private:
  struct Full {
    double level;
    Number limit;
    Number version;
    bool operator>(const Full& o) const { return level != o.level ? level > o.level : limit > o.limit; }
  };

  void begin();
  void stop(Number member, double level);
  void stop_alone(Member& member, double level);
  void stop_where_it_is_full(Member& member, double level);
  void hold(const Crossing& line, double level);
  void push_full(const Full& full);
  void pop_full();

  std::vector<Limit> limits_;
  std::vector<Member> members_;
  std::vector<Crossing> crossings_;
  std::vector<std::pair<double, Number>> by_level_;  // at which a member stops at the latest
  std::vector<Full> full_;                           // a heap, lowest level first
  std::vector<Number> held_up_;                      // members whose lines are still to be looked at
  bool has_lines_ = false;
};

}  // namespace peal::sim
