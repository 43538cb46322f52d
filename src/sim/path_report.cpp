#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sim/call_report.hpp>

namespace peal::sim {

namespace {

constexpr std::size_t kShares = 9;
constexpr std::size_t kMostLegs = 24;
constexpr std::size_t kMostRanks = 10;  // of a leg, in words

using Shares = std::array<double, kShares>;

/// Ops of one kind that follow one another on the path.
struct Leg {
  schedule::OpKind kind = schedule::OpKind::end_loop;
  std::vector<int> ranks;  // in the order of the path, each once as long as it stays
  std::size_t steps = 0;
  std::uint32_t last_step = 0;
  double start = 0;
  double end = 0;
  Shares shares = {};
};

Shares shares_of(const std::vector<PathPart>& path) {
  Shares shares = {};
  for (const PathPart& part : path) shares[static_cast<std::size_t>(part.what)] += part.end - part.start;
  return shares;
}

std::vector<Leg> legs_of(const std::vector<PathPart>& path) {
  std::vector<Leg> legs;
  for (const PathPart& part : path) {
    if (legs.empty() || legs.back().kind != part.kind) {
      legs.emplace_back();
      legs.back().kind = part.kind;
      legs.back().start = part.start;
    }
    Leg& leg = legs.back();
    if (leg.steps == 0 || leg.last_step != part.step) ++leg.steps;
    leg.last_step = part.step;
    if (leg.ranks.empty() || leg.ranks.back() != part.rank) leg.ranks.push_back(part.rank);
    leg.end = part.end;
    leg.shares[static_cast<std::size_t>(part.what)] += part.end - part.start;
  }
  return legs;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = fmt::format("rank{} ", ranks.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool is_left_out = ranks.size() > kMostRanks && i >= kMostRanks / 2 && i + kMostRanks / 2 < ranks.size();
    if (is_left_out && i > kMostRanks / 2) continue;
    text += fmt::format("{}{}", i == 0 ? "" : " > ", is_left_out ? "..." : fmt::to_string(ranks[i]));
  }
  return text;
}

/// "wire 80.1, latency 20.5 us", the largest first, what is worth a word.
std::string shares_text(const Shares& shares, double whole) {
  std::vector<std::size_t> order;
  for (std::size_t s = 0; s < kShares; ++s)
    if (shares[s] > 0.01 * whole) order.push_back(s);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  std::string text;
  for (std::size_t s : order)
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", name_of(static_cast<PathShare>(s)), shares[s] * 1e-3);
  return text;
}

std::string leg_text(const Leg& leg) {
  const bool is_op = leg.kind != schedule::OpKind::end_loop;
  const std::string what =
      is_op ? fmt::format("{} {}{}", leg.steps, schedule::name_of(leg.kind), leg.steps == 1 ? "" : "s") : "before the first op";
  return fmt::format("  {:>10.2f} {:>10.2f}  {}, {}: {}\n", leg.start * 1e-3, leg.end * 1e-3, ranks_text(leg.ranks), what,
                     shares_text(leg.shares, leg.end - leg.start));
}

nlohmann::json shares_tree(const Shares& shares) {
  nlohmann::json tree = nlohmann::json::object();
  for (std::size_t s = 0; s < kShares; ++s)
    if (shares[s] > 0) tree[std::string(name_of(static_cast<PathShare>(s)))] = shares[s] * 1e-3;
  return tree;
}

}  // namespace

std::string path_text(const Outcome& outcome) {
  if (outcome.path.empty()) return "There is no critical path: nothing was done.\n";
  const double whole = outcome.path.back().end;
  const Shares shares = shares_of(outcome.path);
  std::string text = fmt::format("Critical path: rank {} is the last, after {:.2f} us. It waited for\n", outcome.last_rank, whole * 1e-3);
  for (std::size_t s = 0; s < kShares; ++s)
    if (shares[s] > 5e-4 * whole)
      text += fmt::format("  {:>5.1f} % {:>10.2f} us  {}\n", 100 * shares[s] / whole, shares[s] * 1e-3, name_of(static_cast<PathShare>(s)));
  text += fmt::format("Its way:\n  {:>10} {:>10}\n", "from us", "to us");
  const std::vector<Leg> legs = legs_of(outcome.path);
  for (std::size_t i = 0; i < legs.size(); ++i) {
    const bool is_left_out = legs.size() > kMostLegs && i >= kMostLegs / 2 && i + kMostLegs / 2 < legs.size();
    if (is_left_out && i == kMostLegs / 2)
      text += fmt::format("  {:>10} {:>10}  and {} legs more, {:.2f} us\n", "...", "...", legs.size() - kMostLegs,
                          (legs[legs.size() - kMostLegs / 2].start - legs[i].start) * 1e-3);
    if (!is_left_out) text += leg_text(legs[i]);
  }
  return text;
}

std::string path_json(const Outcome& outcome) {
  nlohmann::json tree = {{"rank", outcome.path.empty() ? -1 : outcome.last_rank},
                         {"time_us", outcome.path.empty() ? 0 : outcome.path.back().end * 1e-3},
                         {"shares_us", shares_tree(shares_of(outcome.path))},
                         {"legs", nlohmann::json::array()}};
  for (const Leg& leg : legs_of(outcome.path))
    tree["legs"].push_back({{"op", leg.kind == schedule::OpKind::end_loop ? "" : schedule::name_of(leg.kind)},
                            {"ranks", leg.ranks},
                            {"steps", leg.steps},
                            {"start_us", leg.start * 1e-3},
                            {"end_us", leg.end * 1e-3},
                            {"shares_us", shares_tree(leg.shares)}});
  return tree.dump(2);
}

std::string failure_text(const Outcome& outcome, const RankFailure& failure) {
  const std::size_t others = outcome.rank_done.size() - 1;
  std::string text =
      fmt::format("Rank {} fails at {:.2f} us. {} of {} others never end", failure.rank, failure.time * 1e-3, outcome.stuck.size(), others);
  text += outcome.stuck.empty() ? ": nobody needed it any more.\n"
                                : fmt::format(":\n  {:>10}  {:>6}  {:<20} {}\n", "since us", "rank", "waits for", "stands at");
  for (std::size_t i = 0; i < std::min(outcome.stuck.size(), kMostLegs); ++i) {
    const StuckRank& s = outcome.stuck[i];
    const std::string whom = s.waits_for < 0               ? "its own other strand"
                             : s.waits_for == failure.rank ? fmt::format("rank {}, dead", s.waits_for)
                                                           : fmt::format("rank {}", s.waits_for);
    text += fmt::format("  {:>10.2f}  {:>6}  {:<20} {}\n", s.since * 1e-3, s.rank, whom, s.op);
  }
  if (outcome.stuck.size() > kMostLegs) text += fmt::format("  and {} more\n", outcome.stuck.size() - kMostLegs);
  if (outcome.stuck.empty()) return text;
  return text + fmt::format(
                    "All of them stand from {:.2f} us on, and no message tells them why. Under Peal every rank is told which one has died "
                    "within 2 s (5 s where it was stopped); what goes by a timeout alone waits for that.\n",
                    outcome.stuck.back().since * 1e-3);
}

std::string failure_json(const Outcome& outcome, const RankFailure& failure) {
  nlohmann::json tree = {{"rank", failure.rank},
                         {"time_us", failure.time * 1e-3},
                         {"finished", outcome.rank_done.size() - 1 - outcome.stuck.size()},
                         {"stuck", nlohmann::json::array()}};
  for (const StuckRank& s : outcome.stuck)
    tree["stuck"].push_back({{"rank", s.rank}, {"since_us", s.since * 1e-3}, {"waits_for", s.waits_for}, {"op", s.op}});
  return tree.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace peal::sim
