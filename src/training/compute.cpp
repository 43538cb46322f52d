#include <set>
#include <training/compute.hpp>

#include "layer_work.hpp"
#include "rates.hpp"

namespace peal::training {

struct ComputeModel::State {
  std::vector<int> kinds;                        ///< by layer
  std::vector<PassWork> forward, input, weight;  ///< by kind
  PassWork embedding[2], head[2];
  double optimizer_ns = 0;  ///< a parameter
  Nanoseconds step_overhead;

  State(const Model& model, const LayerWork& work, const Rates& rates) {
    int seen[2] = {-1, -1};  // of a transformer's layers: without experts, with them
    for (int layer = 0; layer < layers_in(model); ++layer) {
      int* const kind = model.is_transformer() ? &seen[model.transformer.has_experts(layer) ? 1 : 0] : nullptr;
      if (kind != nullptr && *kind >= 0) {
        kinds.push_back(*kind);
        continue;
      }
      kinds.push_back(static_cast<int>(forward.size()));
      if (kind != nullptr) *kind = kinds.back();
      forward.push_back(finish(work.forward(layer), rates));
      input.push_back(finish(work.backward_input(layer), rates));
      weight.push_back(finish(work.backward_weight(layer), rates));
    }
    for (const bool is_backward : {false, true}) {
      embedding[is_backward ? 1 : 0] = finish(work.embedding(is_backward), rates);
      head[is_backward ? 1 : 0] = finish(work.head(is_backward), rates);
    }
    optimizer_ns = 1e3 * work.optimizer_us(1) * rates.optimizer_bytes / rates.memory;
    step_overhead = {1e3 * rates.step_us};
  }

  const PassWork& of(const std::vector<PassWork>& passes, int layer) const {
    return passes[static_cast<std::size_t>(kinds[static_cast<std::size_t>(layer)])];
  }
};

ComputeModel::ComputeModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
ComputeModel::ComputeModel(ComputeModel&&) noexcept = default;
ComputeModel& ComputeModel::operator=(ComputeModel&&) noexcept = default;
ComputeModel::~ComputeModel() = default;

Result<ComputeModel> ComputeModel::make(const Model& model, const Layout& layout, const Processor& processor, std::string_view name) {
  if (const Precision had = computed_in(processor, layout.precision); layout.precision == Precision::fp8 && had != Precision::fp8)
    return fail(ErrorCode::invalid_argument, "{} has no fp8 products; give --precision {}", processor.name, name_of(had));
  PEAL_ASSIGN(const Software software, software_of(name, layout));
  PEAL_ASSIGN(const topology::LibraryConstants* constants, training_constants());
  PEAL_ASSIGN(const RateKeys keys, keys_of(*constants, processor, software, layout));
  PEAL_ASSIGN(const KernelFacts* facts, kernel_facts());
  return ComputeModel(std::make_unique<State>(model, LayerWork(model, layout, processor, software, *facts), rates_of(*constants, keys)));
}

int ComputeModel::kind_of(int layer) const { return state_->kinds[static_cast<std::size_t>(layer)]; }
PassWork ComputeModel::forward(int layer) const { return state_->of(state_->forward, layer); }
PassWork ComputeModel::backward_input(int layer) const { return state_->of(state_->input, layer); }
PassWork ComputeModel::backward_weight(int layer) const { return state_->of(state_->weight, layer); }
PassWork ComputeModel::embedding(bool is_backward) const { return state_->embedding[is_backward ? 1 : 0]; }
PassWork ComputeModel::head(bool is_backward) const { return state_->head[is_backward ? 1 : 0]; }

Nanoseconds ComputeModel::optimizer(double elements) const { return {elements * state_->optimizer_ns}; }

Nanoseconds ComputeModel::step_overhead() const { return state_->step_overhead; }

std::string evidence_of(const Processor& processor, const Layout& layout, std::string_view name) {
  const auto read = training_constants();
  const auto software = software_of(name, layout);
  if (!read || !software) return {};
  const topology::LibraryConstants& constants = **read;
  const auto keys = keys_of(constants, processor, *software, layout);
  if (!keys) return {};
  std::set<std::string> sources;
  for (const int place : {keys->product, keys->forward}) {
    if (place < 0) continue;
    const std::vector<std::string>& own = constants.all()[static_cast<std::size_t>(place)].machines;
    sources.insert(own.begin(), own.end());
  }
  if (sources.empty())
    return fmt::format("no measured run has a {} GPU with this precision: its constants are assumed", processor.generation);
  if (constants.accuracy().empty()) return fmt::format("constants rest on runs of {}", fmt::join(sources, ", "));
  const topology::LibraryAccuracy& a = constants.accuracy().front();
  return fmt::format("rests on runs of {}; over {} runs the mean error is {:.0f} %, of sources that were kept out {:.0f} %",
                     fmt::join(sources, ", "), a.cases, 100 * a.median, 100 * a.kept_out);
}

}  // namespace peal::training
