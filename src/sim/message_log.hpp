// When messages of the channels that are asked about began and arrived, those among them that were counted and not simulated. Private to
// this room.
#pragma once

#include <cstdint>
#include <map>
#include <sim/interpret.hpp>
#include <vector>

namespace peal::sim {

/// Times of things that are counted from 0, with stretches that were left out because they repeat what was before.
class RepeatedTimes {
 public:
  void push(double time) { times_.push_back(time), ++count_; }
  /// `count` more, `each` of them in every `period`: each is what the one `each` before it was, a period later.
  void skip(std::uint64_t count, std::uint64_t each, double period) {
    skips_.push_back({count_, count, each, period});
    count_ += count;
  }
  std::uint64_t count() const { return count_; }
  double at(std::uint64_t number) const;  ///< number < count()

 private:
  struct Skip {
    std::uint64_t first;
    std::uint64_t count;
    std::uint64_t each;
    double period;
  };
  std::vector<double> times_;
  std::vector<Skip> skips_;
  std::uint64_t count_ = 0;
};

/// Of one channel, or of a class of channels that do the same.
struct ChannelLog {
  RepeatedTimes began;
  RepeatedTimes arrived;
};

class MessageLog {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  bool is_empty() const { return logs_.empty(); }
  /// The question is answered by what happens on the channel of that name.
  void ask(const MessageAsked& asked, int channel, std::uint64_t name);
  /// kNone where nobody asks for it.
  std::uint32_t log_of(std::uint64_t name) const {
    const auto it = log_of_.find(name);
    return it == log_of_.end() ? kNone : it->second;
  }
  ChannelLog& log(std::uint32_t number) { return logs_[number]; }
  std::size_t logs() const { return logs_.size(); }
  /// In the order of the questions; of channels that carried nothing there is none.
  std::vector<MessageTimes> answers() const;

 private:
  struct Question {
    MessageAsked asked;
    int channel;
    std::uint32_t log;
  };
  std::vector<Question> questions_;
  std::vector<ChannelLog> logs_;
  std::map<std::uint64_t, std::uint32_t> log_of_;
};

}  // namespace peal::sim
