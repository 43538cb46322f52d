#include <parallel/gpt_trainer.hpp>

namespace peal::parallel {

Result<std::unique_ptr<GptTrainer>> GptTrainer::make(const GptJob& job, const std::shared_ptr<comm::Core>& world) {
  std::unique_ptr<GptTrainer> trainer(new GptTrainer(job));
  PEAL_ASSIGN(trainer->graph_, training::build_step_graph(job.model, job.layout));
  PEAL_ASSIGN(trainer->groups_, GptGroups::make(job, world));
  GptGroups& groups = trainer->groups_;
  trainer->stage_ = std::make_unique<GptStage>(trainer->job_, trainer->graph_, groups);
  trainer->runner_ = std::make_unique<StepRunner>(
      trainer->graph_, groups.position.pp, StepRunner::Links{groups.pipeline, {groups.data.core(), groups.copies.core(), groups.ends}},
      *trainer->stage_);
  trainer->stage_->look = [runner = trainer->runner_.get()] { runner->look(); };
  return trainer;
}

Status GptTrainer::step(std::int64_t number) {
  stage_->begin_step(number);
  return runner_->run();
}

StepTimes GptTrainer::times() const {
  const CallStream::Times data = runner_->data_times();
  return {data.took_s,
          data.waited_s,
          runner_->pipeline().times().waited_s,
          groups_.tensor.waited_s(),
          groups_.context.waited_s(),
          groups_.experts.waited_s()};
}

void GptTrainer::forget_times() {
  runner_->forget_times();
  groups_.tensor.forget_times();
  groups_.context.forget_times();
  groups_.experts.forget_times();
}

GptJob serial_job(const GptJob& job) {
  GptJob serial = job;
  serial.layout = {};
  serial.layout.micro_batch = job.layout.micro_batch;
  serial.layout.global_batch = job.layout.global_batch;
  serial.layout.seq_len = job.layout.seq_len;
  serial.layout.precision = job.layout.precision;
  serial.broken_rank = -1;
  return serial;
}

Result<Buffer> collect_whole(GptStage& stage, Kept kept, const ParameterSpec& spec, const std::shared_ptr<comm::Core>& world) {
  Buffer whole = floats(spec.elements());
  stage.each_element(kept, spec.name, true, [&](std::int64_t index, float& value) { whole[static_cast<std::size_t>(index)] = value; });
  if (world == nullptr || world->size() == 1) return whole;
  // Every element has one owner and is 0 elsewhere, so the sum is the value.
  comm::Call call;
  call.collective = Collective::reduce;
  call.send = call.receive = whole.data();
  call.count = whole.size();
  call.type = DataType::f32;
  call.op = ReduceOp::sum;
  call.root = 0;
  PEAL_TRY(world->run(call));
  return whole;
}

}  // namespace peal::parallel
