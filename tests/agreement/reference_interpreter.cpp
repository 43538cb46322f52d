#include "reference_interpreter.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "reference_numbers.hpp"

namespace peal::agreement {

const char* name_of(Outcome outcome) {
  return outcome == Outcome::right ? "right" : outcome == Outcome::wrong ? "wrong bytes" : "deadlock";
}

void ReferenceInterpreter::reset(State& state) const {
  state.memory = initial_;
  state.at.assign(strands_.size(), 0);
  state.is_sending.assign(strands_.size(), 0);
  state.channels.resize(channel_keys_.size());
  state.taken.assign(channel_keys_.size(), 0);
  state.put.assign(channel_keys_.size(), 0);
  state.events.assign(event_keys_.size(), 0);
  state.has_entered.assign(static_cast<std::size_t>(request_.ranks), watches_entry_ ? 0 : 1);
  state.is_wrong = false;
  state.why = "";
}

bool ReferenceInterpreter::has_left(const State& state, std::int32_t rank) const {
  if (state.has_entered[static_cast<std::size_t>(rank)] == 0) return false;
  for (std::size_t s = 0; s < strands_.size(); ++s)
    if (strands_[s].rank == rank && state.at[s] < strands_[s].steps.size()) return false;
  return true;
}

void ReferenceInterpreter::check_entry(State& state) const {
  if (request_.collective != Collective::barrier || std::count(state.has_entered.begin(), state.has_entered.end(), 0) == 0) return;
  for (std::int32_t r = 0; r < request_.ranks; ++r)
    if (has_left(state, r)) state.is_wrong = true, state.why = "a rank leaves the barrier before all have come";
}

bool ReferenceInterpreter::stands_at_receive(const State& state, std::int32_t channel) const {
  for (std::size_t s = 0; s < strands_.size(); ++s) {
    if (state.is_sending[s] != 0 || state.at[s] >= strands_[s].steps.size()) continue;
    if (strands_[s].steps[state.at[s]].in == channel && state.has_entered[static_cast<std::size_t>(strands_[s].rank)] != 0) return true;
  }
  return false;
}

bool ReferenceInterpreter::is_ready(const State& state, std::size_t strand) const {
  const Strand& own = strands_[strand];
  if (state.at[strand] >= own.steps.size() || state.is_sending[strand] != 0) return false;
  if (state.has_entered[static_cast<std::size_t>(own.rank)] == 0) return false;
  const Step& step = own.steps[state.at[strand]];
  if (step.group >= 0) return at_switch(state, step).size() + 1 == groups_[static_cast<std::size_t>(step.group)].size();
  if (step.kind == Kind::wait) return state.events[static_cast<std::size_t>(step.event)] >= step.threshold;
  if (step.in >= 0) {
    const auto in = static_cast<std::size_t>(step.in);
    if (state.put[in] == state.taken[in]) return false;
  }
  if (step.out >= 0) {
    const auto out = static_cast<std::size_t>(step.out);
    const std::uint32_t held = state.put[out] - state.taken[out];
    if (rules_.slots > 0) return held < static_cast<std::uint32_t>(rules_.slots);
    return held == 0 && stands_at_receive(state, step.out);
  }
  return true;
}

std::uint64_t ReferenceInterpreter::load(const State& state, const Operand& at) const {
  const std::uint64_t value = state.memory[static_cast<std::size_t>(at.cell)];
  return at.holder >= 0 ? value * factor_[static_cast<std::size_t>(at.holder)] : value;
}

void ReferenceInterpreter::put_message(State& state, std::size_t strand, const Step& step,
                                       const std::vector<std::uint64_t>* results) const {
  const auto out = static_cast<std::size_t>(step.out);
  auto& queue = state.channels[out];
  if (queue.size() <= state.put[out]) queue.resize(state.put[out] + 1);
  Message& message = queue[state.put[out]++];
  message.strand = static_cast<std::int32_t>(strand);
  message.step = static_cast<std::int32_t>(state.at[strand]);
  message.values.clear();
  if (!rules_.snapshots) return;
  if (results != nullptr) {
    message.values = *results;
    return;
  }
  for (std::uint32_t i = 0; i < step.chunks; ++i) message.values.push_back(load(state, operands_[step.operands + i]));
}

void ReferenceInterpreter::receive(State& state, std::size_t strand, const Step& step) const {
  const auto in = static_cast<std::size_t>(step.in);
  const Message& message = state.channels[in][state.taken[in]];
  const auto sender = static_cast<std::size_t>(message.strand);
  const Step& sent = strands_[sender].steps[static_cast<std::size_t>(message.step)];
  const std::uint32_t apart = sent.kind == Kind::send ? 1 : 1 + sent.sources;
  const auto fault = [&](const char* why) {
    state.is_wrong = true;
    state.why = why;
  };
  if (sent.chunks != step.chunks) fault("a message has another number of chunks than its receiver takes");
  if (sent.sent_wire != step.wire || sent.piece != step.piece) fault("a message has another wire type or piece than its receiver takes");
  thread_local std::vector<std::uint64_t> results;
  results.clear();
  for (std::uint32_t i = 0; i < step.chunks; ++i) {
    std::uint64_t value = 0;
    const Operand& target = operands_[step.operands + i * (1 + step.sources)];
    if (i < sent.chunks) {
      const Operand& source = operands_[sent.operands + i * apart];
      if (source.length != target.length) fault("a chunk arrives where one of another length belongs");
      if (rules_.snapshots)
        value = message.values[i];
      else
        value = sent.kind == Kind::send ? load(state, source) : state.memory[static_cast<std::size_t>(source.cell)];
    }
    if (step.adds) value += load(state, operands_[step.operands + i * 2 + 1]);
    if (step.finishes) value = finish(value);
    if (step.stores) state.memory[static_cast<std::size_t>(target.cell)] = value;
    results.push_back(value);
  }
  ++state.taken[in];
  if (step.forwards) put_message(state, strand, step, &results);
  if (rules_.slots == 0) {
    state.is_sending[sender] = 0;
    ++state.at[sender];
  }
}

void ReferenceInterpreter::run_step(State& state, std::size_t strand) const {
  const Step& step = strands_[strand].steps[state.at[strand]];
  switch (step.kind) {
    case Kind::send: put_message(state, strand, step, nullptr); break;
    case Kind::receive: receive(state, strand, step); break;
    case Kind::copy:
    case Kind::reduce:
      for (std::uint32_t k = 0; step.is_remote && k < step.chunks * (1 + step.sources); ++k) {
        const std::int32_t owner = operands_[step.operands + k].cell / per_rank_;
        if (state.has_entered[static_cast<std::size_t>(owner)] == 0 || has_left(state, owner))
          state.is_wrong = true, state.why = "memory of a rank that is not in the call is touched";
      }
      for (std::uint32_t i = 0; i < step.chunks; ++i) {
        const Operand* at = &operands_[step.operands + i * (1 + step.sources)];
        std::uint64_t value = 0;
        for (std::uint32_t k = 1; k <= step.sources; ++k) {
          value += load(state, at[k]);
          if (at[k].length != at[0].length) state.is_wrong = true, state.why = "chunks of different lengths are combined";
        }
        state.memory[static_cast<std::size_t>(at[0].cell)] = step.finishes ? finish(value) : value;
      }
      break;
    case Kind::signal: ++state.events[static_cast<std::size_t>(step.event)]; break;
    case Kind::switch_sum:
    case Kind::switch_copy: return run_switch(state, step);
    case Kind::wait: break;
  }
  if (rules_.slots == 0 && step.out >= 0) {
    state.is_sending[strand] = 1;
  } else {
    ++state.at[strand];
  }
}

Outcome ReferenceInterpreter::judge(const State& state, bool is_stuck, std::string& why) const {
  if (state.is_wrong) {
    why = state.why;
    return Outcome::wrong;
  }
  if (is_stuck) {
    for (std::size_t s = 0; s < strands_.size(); ++s) {
      if (state.at[s] >= strands_[s].steps.size()) continue;
      why = "rank " + std::to_string(strands_[s].rank) + " blocks at step " + std::to_string(state.at[s]);
      return Outcome::deadlock;
    }
  }
  for (std::size_t c = 0; c < state.put.size(); ++c) {
    if (state.put[c] != state.taken[c]) {
      why = "a message is never received";
      return Outcome::wrong;
    }
  }
  for (const Expected& expected : outputs_) {
    if (state.memory[static_cast<std::size_t>(expected.cell)] != expected.value) {
      why = "rank " + std::to_string(expected.cell / per_rank_) + " has a wrong output";
      return Outcome::wrong;
    }
  }
  for (const Expected& expected : untouched_) {
    if (state.memory[static_cast<std::size_t>(expected.cell)] != expected.value) {
      why = "rank " + std::to_string(expected.cell / per_rank_) + " lost memory that is the caller's";
      return Outcome::wrong;
    }
  }
  return Outcome::right;
}

Judgement ReferenceInterpreter::sample(std::uint64_t seed, std::uint64_t count) {
  Judgement result;
  if (!malformed_.empty()) return {Outcome::wrong, 0, true, malformed_};
  const std::size_t actors = strands_.size() + (watches_entry_ ? static_cast<std::size_t>(request_.ranks) : 0);
  std::vector<std::size_t> order(actors);
  State state;
  for (std::uint64_t k = 0; k < count; ++k) {
    reset(state);
    std::uint64_t random = mix(seed, k);
    const auto draw = [&](std::uint64_t below) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      return (random >> 11) % below;
    };
    // Half of the runs hold strict priorities that change now and then: some strands run far ahead, others lag far behind.
    const bool by_priority = k % 2 == 1;
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = actors; i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
    bool is_stuck = false;
    while (!state.is_wrong && !is_stuck) {
      if (by_priority && draw(16) == 0 && actors > 1) std::swap(order[draw(actors)], order[draw(actors)]);
      const std::size_t first = by_priority || actors == 0 ? 0 : draw(actors);
      is_stuck = true;
      for (std::size_t i = 0; i < actors; ++i) {
        const std::size_t actor = order[first + i < actors ? first + i : first + i - actors];
        std::int32_t rank = -1;
        if (actor >= strands_.size()) {
          rank = static_cast<std::int32_t>(actor - strands_.size());
          if (state.has_entered[static_cast<std::size_t>(rank)] != 0) continue;
          state.has_entered[static_cast<std::size_t>(rank)] = 1;
        } else {
          if (!is_ready(state, actor)) continue;
          run_step(state, actor);
        }
        is_stuck = false;
        break;
      }
      if (watches_entry_ && !is_stuck) check_entry(state);
    }
    ++result.interleavings;
    result.outcome = judge(state, is_stuck, result.why);
    if (result.outcome != Outcome::right) return result;
  }
  return result;
}

std::vector<std::uint64_t> ReferenceInterpreter::outputs(std::uint64_t seed) {
  if (sample(seed, 1).outcome != Outcome::right) return {};
  std::vector<std::uint64_t> values;
  for (const Expected& expected : outputs_) values.push_back(expected.value);
  return values;
}

std::uint64_t ReferenceInterpreter::hash(const State& state) const {
  std::uint64_t h = 14695981039346656037ULL;
  const auto add = [&](std::uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 29;
  };
  for (const std::uint32_t at : state.at) add(at);
  for (const std::uint64_t value : state.memory) add(value);
  for (const std::int64_t count : state.events) add(static_cast<std::uint64_t>(count));
  for (const std::uint8_t flag : state.is_sending) add(flag);
  for (const std::uint8_t flag : state.has_entered) add(flag);
  for (std::size_t c = 0; c < state.put.size(); ++c) {
    add(state.put[c]);
    for (std::uint32_t m = state.taken[c]; m < state.put[c]; ++m) {
      const Message& message = state.channels[c][m];
      add(static_cast<std::uint64_t>(message.strand) << 32 | static_cast<std::uint32_t>(message.step));
      for (const std::uint64_t value : message.values) add(value);
    }
  }
  return h;
}

Judgement ReferenceInterpreter::explore(std::uint64_t most_states) {
  Judgement result;
  if (!malformed_.empty()) return {Outcome::wrong, 0, true, malformed_};
  std::unordered_set<std::uint64_t> seen;
  std::vector<State> stack(1);
  reset(stack.back());
  while (!stack.empty()) {
    State state = std::move(stack.back());
    stack.pop_back();
    // Steps that meet nobody commute with all others: only one order of them is needed.
    for (bool has_moved = true; has_moved && !state.is_wrong;) {
      has_moved = false;
      for (std::size_t s = 0; s < strands_.size() && !state.is_wrong; ++s)
        while (is_ready(state, s) && !strands_[s].steps[state.at[s]].meets) {
          run_step(state, s);
          has_moved = true;
        }
    }
    if (!state.is_wrong && !seen.insert(hash(state)).second) continue;
    if (++result.interleavings > most_states) return result;
    std::vector<std::size_t> ready;
    for (std::size_t s = 0; s < strands_.size(); ++s)
      if (is_ready(state, s)) ready.push_back(s);
    std::vector<std::size_t> outside;
    for (std::size_t r = 0; r < state.has_entered.size(); ++r)
      if (state.has_entered[r] == 0) outside.push_back(r);
    check_entry(state);
    if (state.is_wrong || (ready.empty() && outside.empty())) {
      result.outcome = judge(state, !state.is_wrong, result.why);
      if (result.outcome != Outcome::right) return result;
      continue;
    }
    for (const std::size_t s : ready) {
      stack.push_back(state);
      run_step(stack.back(), s);
    }
    for (const std::size_t r : outside) {
      stack.push_back(state);
      stack.back().has_entered[r] = 1;
    }
  }
  result.exhausted = true;
  return result;
}

}  // namespace peal::agreement
