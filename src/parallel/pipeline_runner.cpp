#include <parallel/pipeline_runner.hpp>

namespace peal::parallel {

using training::Task;
using training::TaskKind;

namespace {

// A layer a chunk; what is in a layer is the caller's.
training::Model model_of(int chunks) {
  training::Model model;
  model.name = "pipeline";
  training::Transformer& t = model.transformer;
  t.layers = chunks;
  t.hidden = t.ffn = t.vocab = t.seq_len = t.head_dim = 1;
  t.heads = t.kv_heads = 1;
  return model;
}

// What training::check() says of a command line, in the words of a program.
Status check_order(training::PipelineKind kind, int stages, int micro_batches, int pieces) {
  if (micro_batches < 1)
    return fail(ErrorCode::invalid_argument, "{} micro batches are no step of a pipeline; give 1 or more", micro_batches);
  if (kind != training::PipelineKind::interleaved) {
    if (pieces == 1) return {};
    return fail(ErrorCode::invalid_argument,
                "a stage holds 1 piece of this order's pipeline, and {} were asked for; give pieces 1, or the "
                "interleaved order",
                pieces);
  }
  if (pieces < 2 || stages < 2)
    return fail(ErrorCode::invalid_argument,
                "an interleaved pipeline of {} stages with {} pieces each has nothing to interleave; give 2 "
                "or more of both, or another order",
                stages, pieces);
  if (micro_batches % stages == 0) return {};
  return fail(ErrorCode::invalid_argument, "{} micro batches do not divide by {} stages, as the interleaved order needs; give {}",
              micro_batches, stages, (micro_batches + stages - 1) / stages * stages);
}

}  // namespace

Result<std::unique_ptr<PipelineRunner>> PipelineRunner::make(std::shared_ptr<comm::Core> core, training::PipelineKind kind,
                                                             int micro_batches, int pieces, std::int64_t elements, PipelineCalls calls) {
  const int stages = core == nullptr ? 1 : core->size();
  PEAL_TRY(check_order(kind, stages, micro_batches, pieces));
  if (!calls.forward || !calls.backward || (kind == training::PipelineKind::zero_bubble && !calls.backward_weight))
    return fail(ErrorCode::invalid_argument, "a pipeline needs forward and backward, and a zero-bubble one backward_weight, too");
  if (elements < 1 && stages * pieces > 1) return fail(ErrorCode::invalid_argument, "chunks send one another no elements; give 1 or more");
  training::Layout layout;
  layout.pp = stages;
  layout.vpp = pieces;
  layout.pipeline = kind;
  layout.global_batch = micro_batches;
  const training::Model model = model_of(layout.chunks());
  PEAL_TRY(training::check(model, layout));
  std::unique_ptr<PipelineRunner> runner(new PipelineRunner());
  PEAL_ASSIGN(runner->graph_, training::build_step_graph(model, layout));
  runner->elements_ = elements;
  runner->calls_ = std::move(calls);
  const int stage = core == nullptr ? 0 : core->rank();
  if (layout.pp == 1) core.reset();
  StageWork& work = *runner;
  runner->runner_ = std::make_unique<StepRunner>(runner->graph_, stage, StepRunner::Links{std::move(core), {}}, work);
  return runner;
}

Status PipelineRunner::compute(const Task& task, const float* input, float* output) {
  switch (task.kind) {
    case TaskKind::forward: return calls_.forward(task.chunk, task.micro_batch, input, output);
    case TaskKind::backward:
    case TaskKind::backward_input: return calls_.backward(task.chunk, task.micro_batch, input, output);
    case TaskKind::backward_weight: return calls_.backward_weight(task.chunk, task.micro_batch);
    default: return {};
  }
}

}  // namespace peal::parallel
