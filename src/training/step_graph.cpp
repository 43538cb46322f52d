// From orders to lists of tasks: an even pipeline is walked once in virtual time, which puts transfers and computations of all stages into
// one order; then every stage writes down its own.
#include <algorithm>
#include <base/index.hpp>
#include <training/step_graph.hpp>

#include "stage_tasks.hpp"

namespace peal::training {

namespace {

constexpr std::string_view kTaskWords[] = {"forward",          "backward",          "backward_input",   "backward_weight",
                                           "optimizer",        "send_forward",      "receive_forward",  "send_backward",
                                           "receive_backward", "gather_parameters", "reduce_gradients", "share_embeddings"};

/// Parts of a forward pass: 1; a backward pass takes twice as long, thrice with what is computed anew.
int even_time(const Layout& layout, TaskKind kind) {
  const int again = layout.recompute == Recompute::full ? 1 : 0;
  if (kind == TaskKind::backward) return 2 + again;
  return kind == TaskKind::backward_input ? 1 + again : 1;
}

/// Ends of forward and (input) backward passes by chunk and micro batch, in an even pipeline.
class Ends {
 public:
  Ends(int chunks, int micro_batches) : micro_batches_(micro_batches), ends_(2 * at(chunks) * at(micro_batches), -1) {}
  int& of(bool is_forward, int chunk, int micro_batch) {
    return ends_[(at(chunk) * 2 + (is_forward ? 0 : 1)) * at(micro_batches_) + at(micro_batch)];
  }

 private:
  int micro_batches_;
  std::vector<int> ends_;
};

/// When what a pass needs from another stage is there; below 0: not yet.
int ready(const Layout& layout, Ends& ends, const PipelineWork& work) {
  const int last = layout.chunks() - 1;
  if (work.kind == TaskKind::forward) return work.chunk == 0 ? 0 : ends.of(true, work.chunk - 1, work.micro_batch);
  if (work.kind == TaskKind::backward_weight) return 0;
  return work.chunk == last ? 0 : ends.of(false, work.chunk + 1, work.micro_batch);
}

Result<std::vector<StageOrder>> walk(const Layout& layout) {
  std::vector<StageOrder> stages(at(layout.pp));
  for (int s = 0; s < layout.pp; ++s)
    stages[at(s)].works = pipeline_order(layout.pipeline, layout.pp, layout.vpp, layout.micro_batches(), s);
  Ends ends(layout.chunks(), layout.micro_batches());
  std::vector<int> now(stages.size());
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      StageOrder& stage = stages[s];
      while (stage.starts.size() < stage.works.size()) {
        const PipelineWork& work = stage.works[stage.starts.size()];
        const int from = ready(layout, ends, work);
        if (from < 0) break;
        const int start = std::max(now[s], from);
        now[s] = start + even_time(layout, work.kind);
        stage.starts.push_back(start);
        stage.arrivals.push_back(from);
        stage.ends.push_back(now[s]);
        if (work.kind != TaskKind::backward_weight) ends.of(work.kind == TaskKind::forward, work.chunk, work.micro_batch) = now[s];
        has_moved = true;
      }
    }
  }
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (stages[s].starts.size() < stages[s].works.size())
      return fail(ErrorCode::internal, "the {} order of stage {} waits for ever", name_of(layout.pipeline), s);
  return stages;
}

}  // namespace

std::string_view name_of(TaskKind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(kTaskWords) ? kTaskWords[number] : std::string_view();
}

bool is_computation(TaskKind kind) noexcept { return kind <= TaskKind::optimizer; }

std::int64_t message_elements(const Model& model, const Layout& layout) {
  const std::int64_t tokens = layout.micro_batch * layout.seq_len_of(model) / layout.cp;
  return tokens * model.transformer.hidden / (layout.has_sequence_parallel ? layout.tp : 1);
}

Result<StepGraph> build_step_graph(const Model& model, const Layout& layout) {
  PEAL_ASSIGN(const std::vector<StageOrder> orders, walk(layout));
  StepGraph graph{layout, {}};
  for (int s = 0; s < layout.pp; ++s) graph.stages.push_back(StageTasks(model, layout, s).list(orders[at(s)]));
  return graph;
}

}  // namespace peal::training
