#include <base/index.hpp>
#include <training/step_graph.hpp>

namespace peal::training {

namespace {

std::string words_for(const Task& task, std::size_t stage, std::size_t number) {
  std::string text = fmt::format("stage {}, task {}: {}", stage, number, name_of(task.kind));
  if (task.chunk >= 0) text += fmt::format(" of chunk {}", task.chunk);
  if (task.micro_batch >= 0) text += fmt::format(", micro batch {}", task.micro_batch);
  if (task.peer >= 0) text += fmt::format(", with stage {}", task.peer);
  return text;
}

/// What the other end of a transfer is called there; the task itself where it needs nobody.
TaskKind other_end(TaskKind kind) {
  switch (kind) {
    case TaskKind::send_forward: return TaskKind::receive_forward;
    case TaskKind::receive_forward: return TaskKind::send_forward;
    case TaskKind::send_backward: return TaskKind::receive_backward;
    case TaskKind::receive_backward: return TaskKind::send_backward;
    default: return kind;
  }
}

bool needs_other(TaskKind kind) { return other_end(kind) != kind || kind == TaskKind::share_embeddings; }

/// Chunks of the two ends follow one another.
bool are_ends(const Task& task, const Task& other) {
  if (other.kind != other_end(task.kind) || task.micro_batch != other.micro_batch || task.elements != other.elements) return false;
  const bool goes_up = task.kind == TaskKind::send_forward || task.kind == TaskKind::receive_backward;
  return task.kind == TaskKind::share_embeddings || other.chunk - task.chunk == (goes_up ? 1 : -1);
}

Status check_waits(const StepGraph& graph) {
  for (std::size_t s = 0; s < graph.stages.size(); ++s)
    for (std::size_t i = 0; i < graph.stages[s].size(); ++i) {
      const Task& task = graph.stages[s][i];
      for (const std::int32_t before : task.after)
        if (before < 0 || at(before) >= i)
          return fail(ErrorCode::corrupt, "{} waits for task {}, which is not in front of it", words_for(task, s, i), before);
      if (needs_other(task.kind) && (task.peer < 0 || at(task.peer) >= graph.stages.size() || at(task.peer) == s))
        return fail(ErrorCode::corrupt, "{} needs another stage of the {} that there are", words_for(task, s, i), graph.stages.size());
    }
  return {};
}

}  // namespace

Status can_finish(const StepGraph& graph) {
  PEAL_TRY(check_waits(graph));
  std::vector<std::size_t> next(graph.stages.size());
  const auto moves = [&](std::size_t stage) {
    const std::vector<Task>& tasks = graph.stages[stage];
    if (next[stage] == tasks.size()) return false;
    const Task& task = tasks[next[stage]];
    if (!needs_other(task.kind)) return ++next[stage] > 0;
    const auto peer = at(task.peer);
    if (next[peer] == graph.stages[peer].size()) return false;
    const Task& other = graph.stages[peer][next[peer]];
    if (at(other.peer) != stage || !are_ends(task, other)) return false;
    ++next[peer];
    return ++next[stage] > 0;
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t s = 0; s < graph.stages.size(); ++s)
      while (moves(s)) has_moved = true;
  }
  for (std::size_t s = 0; s < graph.stages.size(); ++s)
    if (next[s] < graph.stages[s].size())
      return fail(ErrorCode::corrupt, "{} waits for ever", words_for(graph.stages[s][next[s]], s, next[s]));
  return {};
}

}  // namespace peal::training
