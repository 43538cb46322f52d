// What repeats itself: marks of the state of all strands and channels, taken whenever one strand ends a piece. Private to this room.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace peal::sim {

/// The state at one instant, without counts that only grow. Times are before that instant.
struct StateMark {
  struct OfStrand {
    double since = 0;  // its last op ended, nanoseconds
    double began = 0;
    std::int32_t piece = 0;
    std::uint32_t position : 30 = 0;
    bool is_at_work : 1 = false;
    bool has_ended : 1 = false;
  };
  struct OfChannel {
    std::uint16_t under_way = 0;  // messages sent that have not arrived, arrived that have not been received, ...: no more than its slots
    std::uint16_t unread = 0;
    std::uint16_t uncredited = 0;
    std::uint16_t unannounced = 0;
    bool operator==(const OfChannel&) const = default;
  };
  double time = 0;
  double longest = 0;  // that a strand has been at work
  std::vector<OfStrand> strands;
  std::vector<OfChannel> channels;
};

/// True where two states differ only by how far the strands have come.
bool is_same_state(const StateMark& a, const StateMark& b);

inline constexpr std::size_t kLongestPeriod = 24;  // that is looked for; pieces of the strand at whose ends the marks are taken

/// The last marks, newest first.
class StateHistory {
 public:
  /// Keeps so many marks, and one.
  explicit StateHistory(std::size_t most) : most_(most) {}
  /// The lowest k for which the newest mark is as the one k before it, and so are as many before the newest as the longest op at work has
  /// lasted, two at least (or k): they tell what marks do not say. 0: there is none.
  std::size_t period() const;
  void push(StateMark mark);
  /// `ago` 0: the newest.
  const StateMark& mark(std::size_t ago) const { return marks_[ago]; }
  /// At least half of the strands are in the newest as in one before.
  bool has_half_of_newest() const;
  void clear();
  /// Room of a mark that is no longer needed.
  StateMark reuse();

 private:
  std::size_t most_;
  std::deque<StateMark> marks_;
  std::vector<StateMark> spare_;
};

}  // namespace peal::sim
