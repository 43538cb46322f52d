#include <algorithm>
#include <base/clock.hpp>
#include <parallel/checkpoint.hpp>
#include <parallel/train.hpp>

namespace peal::parallel {

double TrainReport::hidden_share() const {
  double took = 0, waited = 0;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    took += steps[i].times.gradients_took;
    waited += steps[i].times.gradients_waited;
  }
  return took > 0 ? std::max(0.0, 1 - waited / took) : -1;
}

namespace {

class Run {
 public:
  Run(const TrainOptions& options, const std::shared_ptr<comm::Core>& world) : options_(options), world_(world), all_(world) {}

  Result<TrainReport> run(const std::function<void(const StepNote&)>& progress) {
    PEAL_TRY(open());
    const std::int64_t end = report_.first_step + options_.steps;
    for (std::int64_t number = report_.first_step; number < end; ++number) {
      PEAL_ASSIGN(const StepNote note, step(number));
      report_.steps.push_back(note);
      if (all_.rank() == 0 && progress) progress(note);
      const bool is_last = number + 1 == end || report_.was_stopped;
      const bool is_due = options_.save_every > 0 && (number + 1) % options_.save_every == 0;
      if (!options_.save.empty() && (is_last || is_due)) {
        PEAL_TRY(save_checkpoint(*trainer_, options_.save, world_));
        report_.saved = options_.save;
      }
      if (report_.was_stopped) break;
    }
    PEAL_TRY(note_memory());
    if (check_ != nullptr && all_.rank() == 0) report_.check = check_->result();
    return report_;
  }

 private:
  Status open() {
    PEAL_ASSIGN(trainer_, GptTrainer::make(options_.job, world_));
    if (!options_.resume.empty()) {
      PEAL_TRY(load_checkpoint(*trainer_, options_.resume));
      report_.first_step = trainer_->stage().steps_taken();
    }
    if (!options_.checks) return {};
    PEAL_ASSIGN(check_, GradientCheck::make(*trainer_, world_));
    if (report_.first_step > 0) PEAL_TRY(check_->begin_from(report_.first_step));
    return {};
  }

  Result<StepNote> step(std::int64_t number) {
    if (check_ != nullptr) {
      PEAL_TRY(check_->take_serial_step(number));
      float nothing = 0;  // the others wait for rank 0 here, and not in their first call of the step, whose time counts
      PEAL_TRY(all_.sum(&nothing, 1));
    }
    trainer_->forget_times();
    const std::int64_t from = now_ns();
    PEAL_TRY(trainer_->step(number));
    const StepTimes own = trainer_->times();
    const auto ranks = static_cast<float>(all_.size());
    const bool stops = options_.stop != nullptr && options_.stop->load();
    float sums[] = {static_cast<float>(trainer_->stage().loss()),    stops ? 1.0F : 0.0F,
                    static_cast<float>(own.gradients_took) / ranks,  static_cast<float>(own.gradients_waited) / ranks,
                    static_cast<float>(own.pipeline_waited) / ranks, static_cast<float>(own.tensor_waited) / ranks,
                    static_cast<float>(own.context_waited) / ranks,  static_cast<float>(own.experts_waited) / ranks};
    PEAL_TRY(all_.sum(sums, std::size(sums)));
    report_.was_stopped = sums[1] > 0;
    const double seconds = static_cast<double>(now_ns() - from) * 1e-9;
    const auto& job = options_.job;
    const double tokens = static_cast<double>(job.layout.global_batch) * static_cast<double>(job.layout.seq_len_of(job.model));
    if (check_ != nullptr) check_->compare_loss(sums[0]);
    return StepNote{number + 1, sums[0], seconds, tokens / seconds, {sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]}};
  }

  Status note_memory() {
    report_.state_bytes = trainer_->stage().state_bytes();
    if (world_ == nullptr) return {};
    comm::Call call;
    call.collective = Collective::all_reduce;
    call.send = call.receive = &report_.state_bytes;
    call.count = 1;
    call.type = DataType::i64;
    call.op = ReduceOp::max;
    return world_->run(call);
  }

  const TrainOptions& options_;
  std::shared_ptr<comm::Core> world_;
  Group all_;
  std::unique_ptr<GptTrainer> trainer_;
  std::unique_ptr<GradientCheck> check_;
  TrainReport report_;
};

}  // namespace

Result<TrainReport> train(const TrainOptions& options, const std::shared_ptr<comm::Core>& world,
                          const std::function<void(const StepNote&)>& progress) {
  return Run(options, world).run(progress);
}

}  // namespace peal::parallel
