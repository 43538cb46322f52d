#include <exception>
#include <parallel/gradient_reducer.hpp>
#include <parallel/linear.hpp>
#include <parallel/pipeline_runner.hpp>
#include <peal/parallel.hpp>

#include "handles.hpp"

namespace peal {

namespace {

// Null for a communicator of one rank: there is nobody to talk to.
std::shared_ptr<comm::Core> core_of_several(const Communicator& communicator) {
  return communicator.size() == 1 ? nullptr : communicator.impl().core;
}

HiddenTimes times_of(const parallel::CallStream::Times& times) { return {times.took_s, times.waited_s}; }

class CallersMultiplier final : public parallel::Multiplier {
 public:
  explicit CallersMultiplier(Multiply multiply) : multiply_(std::move(multiply)) {}
  void multiply(const parallel::Product& p, const float* a, const float* b, float* c) const override {
    if (!multiply_) return parallel::plain_arithmetic().multiply(p, a, b, c);
    multiply_({p.m, p.n, p.k, p.is_a_transposed, p.is_b_transposed, p.adds}, a, b, c);
  }

 private:
  Multiply multiply_;
};

void require_multiple(const char* what, std::int64_t size, int ranks) {
  if (size >= 1 && size % ranks == 0) return;
  const std::string size_text = std::to_string(size), ranks_text = std::to_string(ranks);
  if (size < 1) throw Error(ErrorCode::invalid_argument, size_text + " " + what + " are none; give 1 or more");
  throw Error(ErrorCode::invalid_argument,
              size_text + " " + what + " are not divided by " + ranks_text + " ranks; give a multiple of " + ranks_text);
}

// What a layer that is cut stands on.
template <class Linear>
struct CutLayer {
  parallel::Group group;
  CallersMultiplier multiplier;
  Linear layer;
  bool cuts_sequence;
  CutLayer(const Communicator& communicator, const LinearOptions& o)
      : group(core_of_several(communicator)),
        multiplier(o.multiply),
        layer(multiplier, group, {o.in, o.out}, o.is_sequence_parallel && group.size() > 1),
        cuts_sequence(o.is_sequence_parallel && group.size() > 1) {}
  void check_rows(std::int64_t rows) const { require_multiple("rows", rows, cuts_sequence ? group.size() : 1); }
  void check_rows(std::int64_t rows, const float* all) const {
    check_rows(rows);
    if (cuts_sequence && all == nullptr)
      throw Error(ErrorCode::invalid_argument, "sequence parallelism gathers all rows, and `all` is null; give memory for them");
  }
};

}  // namespace

struct GradientReducer::Impl {
  std::unique_ptr<parallel::GradientReducer> reducer;
};

GradientReducer::GradientReducer(Communicator& communicator, std::span<float> gradients, std::span<const std::size_t> sizes,
                                 const ReducerOptions& options)
    : impl_(std::make_unique<Impl>()) {
  communicator.size();  // throws for an empty one
  impl_->reducer =
      value_or_throw(parallel::GradientReducer::make(communicator.impl().core, gradients, sizes, options.bucket_bytes, options.op));
}
GradientReducer::GradientReducer(GradientReducer&&) noexcept = default;
GradientReducer& GradientReducer::operator=(GradientReducer&&) noexcept = default;
GradientReducer::~GradientReducer() = default;
void GradientReducer::ready(std::size_t parameter) { require(impl_->reducer->ready(parameter)); }
void GradientReducer::finish() { require(impl_->reducer->finish()); }
void GradientReducer::set_accumulating(bool is_accumulating) { impl_->reducer->set_accumulating(is_accumulating); }
HiddenTimes GradientReducer::times() const { return times_of(impl_->reducer->times()); }

struct ColumnLinear::Impl : CutLayer<parallel::ColumnLinear> {
  using CutLayer::CutLayer;
};

ColumnLinear::ColumnLinear(Communicator& communicator, const LinearOptions& options) {
  require_multiple("inputs", options.in, 1);
  require_multiple("outputs", options.out, communicator.size());
  impl_ = std::make_unique<Impl>(communicator, options);
}
ColumnLinear::ColumnLinear(ColumnLinear&&) noexcept = default;
ColumnLinear& ColumnLinear::operator=(ColumnLinear&&) noexcept = default;
ColumnLinear::~ColumnLinear() = default;
std::int64_t ColumnLinear::own_out() const { return impl_->layer.own_out(); }
void ColumnLinear::forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* all, float* y) {
  impl_->check_rows(rows, all);
  require(impl_->layer.forward(rows, weight, bias, x, all, y));
}
void ColumnLinear::backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* x_gradient) {
  impl_->check_rows(rows);
  require(impl_->layer.backward_input(rows, weight, y_gradient, x_gradient));
}
void ColumnLinear::backward_weight(std::int64_t rows, const float* all, const float* y_gradient, float* weight_gradient,
                                   float* bias_gradient) {
  impl_->check_rows(rows, all);
  impl_->layer.backward_weight(rows, all, y_gradient, weight_gradient, bias_gradient);
}

struct RowLinear::Impl : CutLayer<parallel::RowLinear> {
  using CutLayer::CutLayer;
};

RowLinear::RowLinear(Communicator& communicator, const LinearOptions& options) {
  require_multiple("inputs", options.in, communicator.size());
  require_multiple("outputs", options.out, 1);
  impl_ = std::make_unique<Impl>(communicator, options);
}
RowLinear::RowLinear(RowLinear&&) noexcept = default;
RowLinear& RowLinear::operator=(RowLinear&&) noexcept = default;
RowLinear::~RowLinear() = default;
std::int64_t RowLinear::own_in() const { return impl_->layer.own_in(); }
void RowLinear::forward(std::int64_t rows, const float* weight, const float* bias, const float* x, float* y) {
  impl_->check_rows(rows);
  require(impl_->layer.forward(rows, weight, bias, x, y));
}
void RowLinear::backward_input(std::int64_t rows, const float* weight, const float* y_gradient, float* all, float* x_gradient) {
  impl_->check_rows(rows, all);
  require(impl_->layer.backward_input(rows, weight, y_gradient, all, x_gradient));
}
void RowLinear::backward_weight(std::int64_t rows, const float* x, const float* all, const float* y_gradient, float* weight_gradient,
                                float* bias_gradient) {
  impl_->check_rows(rows, all);
  impl_->layer.backward_weight(rows, x, all, y_gradient, weight_gradient, bias_gradient);
}

struct PipelineRunner::Impl {
  std::shared_ptr<comm::Core> core;
  std::size_t elements = 0;
  PipelineWork work;
  std::exception_ptr thrown;  // by the caller's work
  std::unique_ptr<parallel::PipelineRunner> runner;

  // No exception crosses the rooms below: it is kept here, and thrown again where the caller waits.
  template <class Body>
  Status guarded(Body&& body) {
    try {
      body();
      return {};
    } catch (...) {
      thrown = std::current_exception();
      return fail(ErrorCode::aborted, "a stage of the pipeline threw an exception");
    }
  }
  std::span<const float> in(const float* data) const { return {data, data == nullptr ? 0 : elements}; }
  std::span<float> out(float* data) const { return {data, data == nullptr ? 0 : elements}; }
  parallel::PipelineCalls calls() {
    parallel::PipelineCalls made;
    if (work.forward)
      made.forward = [this](int chunk, int batch, const float* x, float* y) {
        return guarded([&] { work.forward(chunk, batch, in(x), out(y)); });
      };
    if (work.backward)
      made.backward = [this](int chunk, int batch, const float* y, float* x) {
        return guarded([&] { work.backward(chunk, batch, in(y), out(x)); });
      };
    if (work.backward_weight)
      made.backward_weight = [this](int chunk, int batch) { return guarded([&] { work.backward_weight(chunk, batch); }); };
    return made;
  }
};

PipelineRunner::PipelineRunner(Communicator& communicator, const PipelineOptions& options, PipelineWork work)
    : impl_(std::make_unique<Impl>()) {
  impl_->core = core_of_several(communicator);
  impl_->elements = options.elements;
  impl_->work = std::move(work);
  impl_->runner =
      value_or_throw(parallel::PipelineRunner::make(impl_->core, static_cast<training::PipelineKind>(options.order), options.micro_batches,
                                                    options.pieces, static_cast<std::int64_t>(options.elements), impl_->calls()));
}
PipelineRunner::PipelineRunner(PipelineRunner&&) noexcept = default;
PipelineRunner& PipelineRunner::operator=(PipelineRunner&&) noexcept = default;
PipelineRunner::~PipelineRunner() = default;

void PipelineRunner::step() {
  const Status done = impl_->runner->step();
  if (done) return;
  if (impl_->core != nullptr) impl_->core->abort(done.error().message);  // the others wait for this stage in vain
  if (impl_->thrown != nullptr) std::rethrow_exception(std::exchange(impl_->thrown, nullptr));
  require(done);
}

int PipelineRunner::chunks() const { return impl_->runner->chunks(); }
HiddenTimes PipelineRunner::times() const { return times_of(impl_->runner->times()); }

static_assert(static_cast<int>(PipelineOrder::zero_bubble) == static_cast<int>(training::PipelineKind::zero_bubble) &&
              static_cast<int>(PipelineOrder::gpipe) == static_cast<int>(training::PipelineKind::gpipe) &&
              static_cast<int>(PipelineOrder::interleaved) == static_cast<int>(training::PipelineKind::interleaved));

}  // namespace peal
