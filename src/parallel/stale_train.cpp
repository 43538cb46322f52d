#include <time.h>

#include <algorithm>
#include <base/clock.hpp>
#include <comm/window.hpp>
#include <cstring>
#include <parallel/adam.hpp>
#include <parallel/gpt_trainer.hpp>
#include <parallel/gradient_check.hpp>
#include <parallel/stale_train.hpp>

namespace peal::parallel {

double StaleReport::mean_staleness() const {
  double sum = 0, count = 0;
  for (std::size_t s = 0; s < staleness.size(); ++s) {
    sum += static_cast<double>(s) * static_cast<double>(staleness[s]);
    count += static_cast<double>(staleness[s]);
  }
  return count > 0 ? sum / count : 0;
}

namespace {

constexpr int kPushed = 0, kReleased = 1;                    // signals: to the server, and to a worker
constexpr std::int64_t kJudgedText = std::int64_t{1} << 40;  // a step that no worker comes to

// What a worker pushes, and finds released, in front of the floats.
struct Slip {
  std::int64_t version = 0;  // updates that the parameters have seen
  double loss = 0;
  std::int64_t is_over = 0;
};

// The window of the server: a slot a worker for its gradient, and one for its parameters.
struct Slots {
  std::size_t floats;
  std::size_t bytes() const { return sizeof(Slip) + floats * sizeof(float); }
  std::size_t pushed(int worker) const { return static_cast<std::size_t>(2 * (worker - 1)) * bytes(); }
  std::size_t released(int worker) const { return pushed(worker) + bytes(); }
};

// The whole model on one rank, that computes gradients when asked and is stepped by somebody else.
class Replica {
 public:
  static Result<std::unique_ptr<Replica>> make(const GptJob& job) {
    std::unique_ptr<Replica> replica(new Replica());
    GptJob own = serial_job(job);
    own.layout.global_batch = own.layout.micro_batch * job.layout.micro_batches();
    own.learning_rate = 0;
    PEAL_ASSIGN(replica->trainer_, GptTrainer::make(own, nullptr));
    for (const ParameterSpec& spec : all_parameters_of(job.model.transformer)) replica->elements_ += spec.elements();
    replica->specs_ = all_parameters_of(job.model.transformer);
    replica->trainer_->stage().on_gradients = [self = replica.get()]() -> Status {
      self->copy(Kept::gradient, self->gradients_.data(), false);
      return {};
    };
    replica->gradients_ = floats(replica->elements_);
    return replica;
  }
  std::int64_t elements() const { return elements_; }
  const Buffer& gradients() const { return gradients_; }
  /// Between the model and floats one behind the other.
  void copy(Kept kept, float* data, bool into_model) {
    for (const ParameterSpec& spec : specs_) {
      trainer_->stage().each_element(kept, spec.name, false, [&](std::int64_t index, float& value) {
        (into_model ? value : data[index]) = into_model ? data[index] : value;
      });
      data += spec.elements();
    }
  }
  Result<double> compute(std::int64_t number) {
    PEAL_TRY(trainer_->step(number));
    return trainer_->stage().loss();
  }

 private:
  Replica() = default;
  std::unique_ptr<GptTrainer> trainer_;
  std::vector<ParameterSpec> specs_;
  std::int64_t elements_ = 0;
  Buffer gradients_;
};

void sleep_s(double seconds) {
  const timespec time{static_cast<time_t>(seconds), static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  ::nanosleep(&time, nullptr);
}

Status work(const StaleOptions& options, comm::SharedWindow& window, Replica& replica, int worker) {
  const Slots slots{static_cast<std::size_t>(replica.elements())};
  const bool is_straggler = options.straggler > 1 && worker == options.job.layout.dp;
  Buffer parameters = floats(replica.elements());
  Slip slip;
  for (std::int64_t number = 0;; ++number) {
    PEAL_TRY(window.wait(0, kReleased, 1));
    PEAL_TRY(window.get(0, slots.released(worker), &slip, sizeof slip));
    if (slip.is_over != 0) return {};
    PEAL_TRY(window.get(0, slots.released(worker) + sizeof slip, parameters.data(), parameters.size() * sizeof(float)));
    replica.copy(Kept::parameter, parameters.data(), true);
    const std::int64_t from = now_ns();
    // Workers learn from different text.
    PEAL_ASSIGN(slip.loss, replica.compute(number * options.job.layout.dp + worker - 1));
    if (is_straggler) sleep_s((options.straggler - 1) * static_cast<double>(now_ns() - from) * 1e-9);
    slip.is_over = options.stop != nullptr && options.stop->load() ? 1 : 0;
    PEAL_TRY(window.put(0, slots.pushed(worker) + sizeof slip, replica.gradients().data(), replica.gradients().size() * sizeof(float)));
    PEAL_TRY(window.put(0, slots.pushed(worker), &slip, sizeof slip));
    PEAL_TRY(window.signal(0, kPushed));
  }
}

class Server {
 public:
  Server(const StaleOptions& options, comm::SharedWindow& window, Replica& replica)
      : options_(options), window_(window), replica_(replica), workers_(options.job.layout.dp) {
    parameters_ = first_ = second_ = floats(replica.elements());
    replica.copy(Kept::parameter, parameters_.data(), false);
    done_.assign(static_cast<std::size_t>(workers_) + 1, 0);
    is_waiting_.assign(done_.size(), true);
  }

  Result<StaleReport> run(const std::function<void(const StaleNote&)>& progress) {
    PEAL_ASSIGN(report_.first_loss, judged());
    const std::int64_t from = now_ns();
    for (int left = workers_; left > 0;) {
      for (int worker = 1; worker <= workers_; ++worker) PEAL_TRY(release(worker, left));
      if (left > 0) PEAL_TRY(take_next(progress));
    }
    const double seconds = static_cast<double>(now_ns() - from) * 1e-9;
    const auto& layout = options_.job.layout;
    report_.tokens_per_s = static_cast<double>(updates_ * layout.micro_batch * layout.micro_batches()) *
                           static_cast<double>(layout.seq_len_of(options_.job.model)) / seconds;
    PEAL_ASSIGN(report_.last_loss, judged());
    return report_;
  }

 private:
  std::int64_t slowest() const { return *std::min_element(done_.begin() + 1, done_.end()); }

  // Not while it would run too far ahead; at the end, to go home.
  Status release(int worker, int& left) {
    const auto w = static_cast<std::size_t>(worker);
    if (!is_waiting_[w]) return {};
    const bool is_over = report_.was_stopped || done_[w] >= options_.steps;
    if (!is_over && options_.bound >= 0 && done_[w] - slowest() > options_.bound) return {};
    Slip slip{updates_, 0, is_over ? 1 : 0};
    const Slots slots{parameters_.size()};
    std::byte* place = window_.own_data() + slots.released(worker);
    std::memcpy(place, &slip, sizeof slip);
    std::memcpy(place + sizeof slip, parameters_.data(), parameters_.size() * sizeof(float));
    is_waiting_[w] = false;
    if (is_over)
      --left;
    else
      report_.largest_lead = std::max(report_.largest_lead, done_[w] - slowest());
    return window_.signal(worker, kReleased);
  }

  // Whoever has pushed first, in turn.
  Status take_next(const std::function<void(const StaleNote&)>& progress) {
    PEAL_ASSIGN(const int worker, window_.wait_for_any(last_ + 1, kPushed));
    last_ = worker;
    const Slots slots{parameters_.size()};
    const std::byte* place = window_.own_data() + slots.pushed(worker);
    Slip slip;
    std::memcpy(&slip, place, sizeof slip);
    const auto stale = static_cast<std::size_t>(updates_ - slip.version);
    if (report_.staleness.size() <= stale) report_.staleness.resize(stale + 1);
    ++report_.staleness[stale];
    const auto* gradients = reinterpret_cast<const float*>(place + sizeof slip);
    step_adam({.rate = options_.job.learning_rate, .steps = ++updates_}, {gradients, parameters_.size()}, parameters_, first_, second_);
    ++done_[static_cast<std::size_t>(worker)];
    is_waiting_[static_cast<std::size_t>(worker)] = true;
    if (slip.is_over != 0 || (options_.stop != nullptr && options_.stop->load())) report_.was_stopped = true;
    round_loss_ += slip.loss / workers_;
    round_staleness_ += static_cast<double>(stale) / workers_;
    if (updates_ % workers_ != 0) return {};
    if (progress) progress({updates_, round_loss_, round_staleness_});
    round_loss_ = round_staleness_ = 0;
    return {};
  }

  Result<double> judged() {
    replica_.copy(Kept::parameter, parameters_.data(), true);
    return replica_.compute(kJudgedText);
  }

  const StaleOptions& options_;
  comm::SharedWindow& window_;
  Replica& replica_;
  int workers_;
  Buffer parameters_, first_, second_;
  std::vector<std::int64_t> done_;  // steps of each worker
  std::vector<bool> is_waiting_;    // it has pushed and is not released
  std::int64_t updates_ = 0;
  int last_ = 0;
  double round_loss_ = 0, round_staleness_ = 0;
  StaleReport report_;
};

}  // namespace

Result<StaleReport> train_stale(const StaleOptions& options, const std::shared_ptr<comm::Core>& world,
                                const std::function<void(const StaleNote&)>& progress) {
  PEAL_ASSIGN(const std::unique_ptr<Replica> replica, Replica::make(options.job));
  const Slots slots{static_cast<std::size_t>(replica->elements())};
  PEAL_ASSIGN(const auto window, comm::SharedWindow::create(world, slots.released(options.job.layout.dp) + slots.bytes()));
  StaleReport report;
  if (world->rank() > 0) {
    PEAL_TRY(work(options, *window, *replica, world->rank()));
  } else {
    PEAL_ASSIGN(report, Server(options, *window, *replica).run(progress));
  }
  // Nobody leaves while the server may wait for somebody.
  comm::Call barrier{Collective::barrier};
  PEAL_TRY(world->run(barrier));
  return report;
}

}  // namespace peal::parallel
