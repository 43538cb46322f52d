#include <algorithm>
#include <nlohmann/json.hpp>
#include <sim/call_report.hpp>

namespace peal::sim {

namespace {

std::string line_of(const MessageTimes& m) {
  const std::string which = fmt::format("message {} from rank {} to rank {}, channel {} ({} in all)", m.asked.number, m.asked.from,
                                        m.asked.to, m.channel, m.count);
  if (m.began < 0) return fmt::format("  no {}: they are counted from 0\n", which);
  if (m.arrived < 0) return fmt::format("  {}: began after {:.3f} us and never arrived\n", which, m.began * 1e-3);
  return fmt::format("  {}: began after {:.3f} us, arrived after {:.3f} us\n", which, m.began * 1e-3, m.arrived * 1e-3);
}

}  // namespace

std::string messages_text(const Outcome& outcome, std::span<const MessageAsked> asked) {
  std::string text = "Messages:\n";
  for (const MessageAsked& question : asked) {
    const auto is_answer = [&](const MessageTimes& times) { return times.asked == question; };
    if (std::none_of(outcome.messages_asked.begin(), outcome.messages_asked.end(), is_answer))
      text += fmt::format("  rank {} sends nothing to rank {} in this call\n", question.from, question.to);
    for (const MessageTimes& times : outcome.messages_asked)
      if (is_answer(times)) text += line_of(times);
  }
  return text;
}

std::string messages_json(const Outcome& outcome) {
  nlohmann::json tree = nlohmann::json::array();
  const auto time = [](double ns) { return ns < 0 ? nlohmann::json() : nlohmann::json(ns * 1e-3); };
  for (const MessageTimes& m : outcome.messages_asked)
    tree.push_back({{"from", m.asked.from},
                    {"to", m.asked.to},
                    {"channel", m.channel},
                    {"number", m.asked.number},
                    {"count", m.count},
                    {"began_us", time(m.began)},
                    {"arrived_us", time(m.arrived)}});
  return tree.dump(2);
}

}  // namespace peal::sim
