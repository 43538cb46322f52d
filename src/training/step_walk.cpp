// Lists are walked from front to back, all stages together: whatever a task waits for stands in front of it, so that one visit is enough.
#include "step_walk.hpp"

#include <algorithm>
#include <base/index.hpp>

namespace peal::training {

namespace {

int lane_of(const Task& task) {
  if (task.stream == Stream::compute) return 0;
  if (task.stream == Stream::data) return 1;
  return 2 + static_cast<int>(task.kind) - static_cast<int>(TaskKind::send_forward);
}

/// Whom a task that is no computation tells something.
Dimension dimension_of(const Task& task) { return task.peer < 0 ? Dimension::dp : Dimension::pp; }

/// Tasks of one kind are mostly alike: what the last one took.
struct Known {
  Task task;
  PassCost pass;
  double call = 0;
  bool is_filled = false;

  bool is_alike(const Task& other) const {
    return is_filled && task.layers == other.layers && task.has_embedding == other.has_embedding && task.has_head == other.has_head &&
           task.elements == other.elements && task.expert_elements == other.expert_elements && task.calls == other.calls &&
           task.peer == other.peer;
  }
};
constexpr int kTaskKinds = static_cast<int>(TaskKind::share_embeddings) + 1;

struct StageWalk {
  std::size_t next = 0;
  double free[kLanes] = {};          ///< when each lane has done what it had
  std::vector<double> starts, ends;  ///< of tasks
  Known known[kTaskKinds];
  std::vector<double> gathered;  ///< with gathers from the step before: when this piece's first pass may begin, by piece
};

class Walk {
 public:
  Walk(const StepGraph& graph, TaskCosts& costs, Trace* trace) : graph_(graph), costs_(costs), trace_(trace), stages_(graph.stages.size()) {
    const Layout& l = graph.layout;
    gathers_before_ = l.overlaps_gradients && (l.zero == 1 || l.zero == 2);
    times_.stages.resize(stages_.size());
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].starts.reserve(graph.stages[s].size());
      stages_[s].ends.reserve(graph.stages[s].size());
    }
  }

  Result<StepTimes> run() {
    if (gathers_before_)
      for (std::size_t s = 0; s < stages_.size(); ++s) PEAL_TRY(gather_before(s));
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        while (true) {
          PEAL_ASSIGN(const bool is_done, visit(s));
          if (!is_done) break;
          has_moved = true;
        }
    }
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if (stages_[s].next < graph_.stages[s].size())
        return fail(ErrorCode::internal, "task {} of stage {} waits for ever", stages_[s].next, s);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (const double free : stages_[s].free) times_.stages[s].end = std::max(times_.stages[s].end, free);
      times_.stages[s].behind = times_.stages[s].end - stages_[s].free[0];
      times_.time = std::max(times_.time, times_.stages[s].end);
    }
    return std::move(times_);
  }

 private:
  /// What is gathered after the optimiser goes on beside the first passes of the next step: a pass may begin when all its buckets come
  /// before their layers are reached.
  Status gather_before(std::size_t s) {
    StageWalk& stage = stages_[s];
    stage.gathered.assign(at(graph_.layout.vpp), 0);
    LayerRange before;
    int chunk = -1;
    for (const Task& task : graph_.stages[s]) {
      if (task.kind != TaskKind::gather_parameters) continue;
      PEAL_ASSIGN(const double time, call_time(s, task));
      note(s, task, stage.free[1], time);
      stage.free[1] += time;
      times_.stages[s].called[static_cast<std::size_t>(Dimension::dp)] += time;
      if (task.chunk != chunk) before = {task.layers.first, 0};
      chunk = task.chunk;
      Task pass;
      pass.layers = before;
      double& from = stage.gathered[at(chunk / graph_.layout.pp)];
      from = std::max(from, stage.free[1] - costs_.pass(pass).time());
      before.count += task.layers.count;
    }
    return {};
  }

  /// False where the list is at its end or its next task waits for another stage.
  Result<bool> visit(std::size_t s) {
    StageWalk& stage = stages_[s];
    if (stage.next == graph_.stages[s].size()) return false;
    const Task& task = graph_.stages[s][stage.next];
    if (is_computation(task.kind)) {
      compute(s, task);
      return true;
    }
    if (task.peer >= 0) return transfer(s, task);
    PEAL_TRY(call(s, task));
    return true;
  }

  double ready(std::size_t s, const Task& task) const {
    const StageWalk& stage = stages_[s];
    double from = stage.free[lane_of(task)];
    for (const std::int32_t before : task.after) from = std::max(from, stage.ends[at(before)]);
    return from;
  }

  void compute(std::size_t s, const Task& task) {
    StageWalk& stage = stages_[s];
    StageTimes& times = times_.stages[s];
    double start = ready(s, task);
    if (gathers_before_ && task.kind == TaskKind::forward && task.micro_batch == 0)
      start = std::max(start, stage.gathered[at(task.chunk / graph_.layout.pp)]);
    const PassCost& cost = pass_cost(s, task);
    attribute(s, task, start);
    if (task.kind == TaskKind::optimizer) {
      times.optimizer = cost.compute;
    } else {
      times.passes.add(cost);
    }
    finish(s, task, start, cost.time());
  }

  const PassCost& pass_cost(std::size_t s, const Task& task) {
    Known& known = stages_[s].known[static_cast<std::size_t>(task.kind)];
    if (!known.is_alike(task)) known = {task, costs_.pass(task), 0, true};
    return known.pass;
  }

  Result<double> call_time(std::size_t s, const Task& task) {
    Known& known = stages_[s].known[static_cast<std::size_t>(task.kind)];
    if (known.is_alike(task)) return known.call;
    PEAL_ASSIGN(const double time, costs_.call(static_cast<int>(s), task));
    known = {task, {}, time, true};
    return time;
  }

  /// Why a computation did not begin when the one before it had ended; what no call explains is the bubble.
  void attribute(std::size_t s, const Task& task, double start) {
    const StageWalk& stage = stages_[s];
    StageTimes& times = times_.stages[s];
    const double gap = start - stage.free[0];
    if (gap <= 0) return;
    const auto dp = static_cast<std::size_t>(Dimension::dp);
    auto dimension = Dimension::dp;  // gathered for the step before
    double took = gap, reduced = 0;
    for (const std::int32_t before : task.after) {
      if (stage.ends[at(before)] < start) continue;
      const Task& call = graph_.stages[s][at(before)];
      dimension = dimension_of(call);
      if (dimension != Dimension::pp) continue;
      took = stage.ends[at(before)] - stage.starts[at(before)];
      // With ZeRO 2 and 3, tied embeddings are shared when all else is reduced.
      for (const std::int32_t earlier : call.after)
        if (graph_.stages[s][at(earlier)].stream == Stream::data) reduced = std::max(reduced, stage.ends[at(earlier)] - stage.free[0]);
    }
    if (dimension == Dimension::dp) took = times.called[dp] - times.waited[dp];
    const double called = std::min(gap, took);
    reduced = dimension == Dimension::pp ? std::clamp(reduced, 0.0, gap - called) : 0;
    times.waited[static_cast<std::size_t>(dimension)] += called;
    times.waited[dp] += reduced;
    constexpr double kRounding = 1e-9;  // of sums of calls
    if (const double rest = gap - called - reduced; rest > kRounding * gap) times.idle += rest;
  }

  Status call(std::size_t s, const Task& task) {
    if (gathers_before_ && task.kind == TaskKind::gather_parameters) {
      finish(s, task, stages_[s].free[0], 0, false);
      return {};
    }
    PEAL_ASSIGN(const double time, call_time(s, task));
    finish(s, task, ready(s, task), time);
    return {};
  }

  /// True where both ends have come to it.
  Result<bool> transfer(std::size_t s, const Task& task) {
    const auto peer = static_cast<std::size_t>(task.peer);
    StageWalk& other = stages_[peer];
    if (other.next == graph_.stages[peer].size()) return false;
    const Task& end = graph_.stages[peer][other.next];
    if (end.peer != static_cast<std::int16_t>(s) || end.micro_batch != task.micro_batch || end.stream != task.stream) return false;
    const double start = std::max(ready(s, task), ready(peer, end));
    PEAL_ASSIGN(const double time, call_time(s, task));
    finish(s, task, start, time);
    finish(peer, end, start, time);
    return true;
  }

  void finish(std::size_t s, const Task& task, double start, double time, bool is_shown = true) {
    StageWalk& stage = stages_[s];
    stage.starts.push_back(start);
    stage.ends.push_back(start + time);
    double& free = stage.free[lane_of(task)];
    free = std::max(free, start + time);
    if (task.stream != Stream::compute) times_.stages[s].called[static_cast<std::size_t>(dimension_of(task))] += time;
    ++stage.next;
    if (is_shown) note(s, task, start, time);
  }

  void note(std::size_t s, const Task& task, double start, double time) {
    if (trace_ == nullptr) return;
    std::string name(name_of(task.kind));
    if (task.micro_batch >= 0) name += fmt::format(" {}", task.micro_batch);
    if (task.chunk >= 0 && graph_.layout.vpp > 1) name += fmt::format(" of chunk {}", task.chunk);
    if (task.layers.count == 1) name += fmt::format(", layer {}", task.layers.first);
    if (task.layers.count > 1) name += fmt::format(", layers {} to {}", task.layers.first, task.layers.first + task.layers.count - 1);
    trace_->add({std::move(name), std::string(name_of(task.kind)), static_cast<int>(s), lane_of(task), start * 1e-3, time * 1e-3});
  }

  const StepGraph& graph_;
  TaskCosts& costs_;
  Trace* trace_;
  bool gathers_before_ = false;
  std::vector<StageWalk> stages_;
  StepTimes times_;
};

}  // namespace

Result<StepTimes> walk_step(const StepGraph& graph, TaskCosts& costs, Trace* trace) {
  StepTimes times;
  PEAL_ASSIGN(times, Walk(graph, costs, trace).run());
  for (std::size_t s = 0; trace != nullptr && s < graph.stages.size(); ++s)
    trace->name_process(static_cast<int>(s), fmt::format("stage {} (0 computing, 1 data parallel, 2 to 5 transfers)", s));
  return times;
}

}  // namespace peal::training
