#include "message_log.hpp"

namespace peal::sim {

double RepeatedTimes::at(std::uint64_t number) const {
  std::uint64_t left_out = 0;
  for (std::size_t i = skips_.size(); i > 0; --i) {
    const Skip& skip = skips_[i - 1];
    if (number < skip.first) continue;
    if (number < skip.first + skip.count) {
      const std::uint64_t back = (number - skip.first) / skip.each + 1;
      return at(number - back * skip.each) + static_cast<double>(back) * skip.period;
    }
    left_out += skip.count;
  }
  return times_[number - left_out];
}

void MessageLog::ask(const MessageAsked& asked, int channel, std::uint64_t name) {
  const auto [it, is_new] = log_of_.try_emplace(name, static_cast<std::uint32_t>(logs_.size()));
  if (is_new) logs_.emplace_back();
  questions_.push_back({asked, channel, it->second});
}

std::vector<MessageTimes> MessageLog::answers() const {
  std::vector<MessageTimes> answers;
  for (const Question& question : questions_) {
    const ChannelLog& log = logs_[question.log];
    if (log.began.count() == 0) continue;
    MessageTimes& times = answers.emplace_back();
    times.asked = question.asked;
    times.channel = question.channel;
    times.count = log.began.count();
    const std::uint64_t number = question.asked.number;
    if (number < log.began.count()) times.began = log.began.at(number);
    if (number < log.arrived.count()) times.arrived = log.arrived.at(number);
  }
  return answers;
}

}  // namespace peal::sim
