// What switches compute, on concrete numbers: when all members stand at it, it happens to all of them at once.
#include <algorithm>

#include "reference_interpreter.hpp"

namespace peal::agreement {

void ReferenceInterpreter::add_switch_step(const schedule::Program& program, const schedule::Op& op, Step& step) {
  step.kind = op.kind == schedule::OpKind::switch_reduce ? Kind::switch_sum : Kind::switch_copy;
  step.brought = op.src.count;
  step.chunks = static_cast<std::uint32_t>(op.src.count) + op.dst.count;
  step.from = static_cast<std::uint32_t>(op.operand);
  std::vector<std::int32_t> group{op.channel};
  for (std::uint32_t k = 0; k < op.more_count; ++k) group.push_back(program.sources[op.more + k].peer);
  if (std::find(group.begin() + 1, group.end(), program.rank) == group.end()) malformed_ = "a group that its rank does not belong to";
  const auto known = std::find(groups_.begin(), groups_.end(), group);
  step.group = static_cast<std::int32_t>(known - groups_.begin());
  if (known == groups_.end()) groups_.push_back(std::move(group));
}

/// Strands that stand at the same op as `step`, in the order of their ranks.
std::vector<std::size_t> ReferenceInterpreter::at_switch(const State& state, const Step& step) const {
  std::vector<std::size_t> there;
  for (std::size_t s = 0; s < strands_.size(); ++s) {
    if (state.at[s] >= strands_[s].steps.size() || state.is_sending[s] != 0) continue;
    const Step& other = strands_[s].steps[state.at[s]];
    if (other.group == step.group && other.kind == step.kind) there.push_back(s);
  }
  return there;
}

void ReferenceInterpreter::run_switch(State& state, const Step& own) const {
  const auto fault = [&](const char* why) {
    state.is_wrong = true;
    state.why = why;
  };
  const std::vector<std::size_t> members = at_switch(state, own);
  std::vector<std::uint64_t> values;
  std::vector<std::uint64_t> lengths;
  for (const std::size_t member : members) {
    const Step& step = strands_[member].steps[state.at[member]];
    if (step.piece != own.piece || step.wire != own.wire) fault("members of a group are at different pieces or types");
    for (std::uint32_t i = 0; i < step.brought; ++i) {
      const Operand& source = operands_[step.operands + i];
      const bool is_first = own.kind == Kind::switch_copy || values.size() < own.brought;
      if (is_first) {
        values.push_back(load(state, source));
        lengths.push_back(source.length);
        continue;
      }
      if (step.brought != own.brought || lengths[i] != source.length) return fault("members of a group bring different chunks to a sum");
      values[i] += load(state, source);
    }
  }
  for (const std::size_t member : members) {
    const Step& step = strands_[member].steps[state.at[member]];
    const std::uint32_t from = own.kind == Kind::switch_sum ? step.from : 0;
    if (own.kind == Kind::switch_copy && step.chunks - step.brought != values.size()) fault("a member takes less than its group brings");
    for (std::uint32_t i = 0; i < step.chunks - step.brought && !state.is_wrong; ++i) {
      const Operand& target = operands_[step.operands + step.brought + i];
      if (from + i >= values.size() || lengths[from + i] != target.length)
        return fault("a chunk arrives where one of another length belongs");
      state.memory[static_cast<std::size_t>(target.cell)] = step.finishes ? finish(values[from + i]) : values[from + i];
    }
  }
  for (const std::size_t member : members) ++state.at[member];
}

}  // namespace peal::agreement
