#include "estimate.hpp"

#include <algorithm>
#include <cmath>

#include "layer_work.hpp"
#include "stage_parameters.hpp"

namespace peal::training {

namespace {

Result<TimedPass> timed(Pass pass, Communication& communication) {
  TimedPass timed_pass{std::move(pass), {}};
  for (const InnerCall& call : timed_pass.pass.calls) {
    PEAL_ASSIGN(const Nanoseconds time, communication.time(call.over, call.collective, call.bytes));
    timed_pass.calls.push_back(time);
  }
  return timed_pass;
}

double us_of(const TimedPass& timed_pass, const Rates& rates) {
  double us = pass_us(timed_pass.pass, rates);
  if (timed_pass.calls.empty()) return us;
  const PassWork work = finish(timed_pass.pass, rates);
  for (std::size_t i = 0; i < work.calls.size(); ++i) us += work.calls[i].times * exposed_us(work.calls[i], timed_pass.calls[i]);
  return us;
}

std::vector<int> kinds_of(const Model& model) {
  std::vector<int> kinds;
  if (!model.is_transformer())
    for (std::size_t i = 0; i < model.convolutions.size(); ++i) kinds.push_back(static_cast<int>(i));
  for (int layer = 0; layer < model.transformer.layers; ++layer) kinds.push_back(model.transformer.has_experts(layer) ? 1 : 0);
  return kinds;
}

StageLoad load_of(const TrainingRun& run, const std::vector<int>& kinds, int stage) {
  StageLoad load;
  load.layers.resize(static_cast<std::size_t>(*std::max_element(kinds.begin(), kinds.end())) + 1);
  const Layout& l = run.layout;
  for (int chunk = stage; chunk < l.chunks(); chunk += l.pp) {
    const LayerRange range = layers_of(run.model, l, chunk);
    for (int i = range.first; i < range.first + range.count; ++i)
      ++load.layers[static_cast<std::size_t>(kinds[static_cast<std::size_t>(i)])];
    load.has_embedding |= chunk == 0;
    load.has_head |= chunk == l.chunks() - 1;
  }
  return load;
}

/// Of the stage that holds most.
StageParameters most_parameters(const TrainingRun& run) {
  StageParameters most;
  for (int stage = 0; stage < run.layout.pp; ++stage) {
    const StageParameters its = stage_parameters(run.model, run.layout, stage);
    if (its.total() > most.total()) most = its;
  }
  return most;
}

Status add_sharing(const TrainingRun& run, OpenRun& open, Communication& communication) {
  const Layout& l = run.layout;
  const StageParameters held = most_parameters(run);
  const double bytes = held.total() * bytes_of(l.precision);
  const int group = l.zero_group;
  open.optimizer_us = (held.dense / l.zero_ranks() + held.experts / l.expert_zero_ranks()) / (run.processor.memory_GBps * 1e3);
  if (l.data_ranks() <= 1) return {};
  const auto time = [&](Collective collective, double size, int of) -> Result<double> {
    PEAL_ASSIGN(const Nanoseconds t, communication.time_of_data(Talkers::same_parameters, collective, size, of));
    return t.microseconds();
  };
  double layers = 0;
  for (const int count : open.stages[0].layers) layers += count;
  if (l.zero >= 2) {
    PEAL_ASSIGN(open.gather_us, time(Collective::all_gather, bytes / layers, group));
    PEAL_ASSIGN(open.reduce_us, time(Collective::reduce_scatter, bytes / layers, group));
    return {};
  }
  PEAL_ASSIGN(open.reduce_us, time(Collective::all_reduce, bytes, 0));
  if (l.zero == 1) {
    PEAL_ASSIGN(open.gather_us, time(Collective::all_gather, bytes, group));
  }
  return {};
}

struct StageTimes {
  double forward = 0, backward = 0, layers_backward = 0;
};

/// Beside what a layer computes, its parameters are gathered and its gradients scattered.
double beside(double compute, double call) { return std::max(compute, call); }

StageTimes stage_times(const OpenRun& run, const StageLoad& load, const Rates& rates) {
  StageTimes t;
  const bool is_cut = run.layout.zero >= 3;
  for (std::size_t kind = 0; kind < load.layers.size(); ++kind) {
    if (load.layers[kind] == 0) continue;
    const double forward = us_of(run.forward[kind], rates);
    const double backward = us_of(run.input[kind], rates) + us_of(run.weight[kind], rates);
    const double gathers = is_cut && run.layout.pp == 1 ? run.gather_us : 0;
    const double scatters = run.layout.zero >= 2 && run.layout.pp == 1 ? run.reduce_us : 0;
    t.forward += load.layers[kind] * beside(forward, gathers);
    t.layers_backward += load.layers[kind] * beside(backward, gathers + scatters);
  }
  t.backward = t.layers_backward;
  if (load.has_embedding) t.forward += us_of(run.embedding[0], rates);
  if (load.has_embedding) t.backward += us_of(run.embedding[1], rates);
  if (load.has_head) t.forward += us_of(run.head[0], rates);
  if (load.has_head) t.backward += us_of(run.head[1], rates);
  return t;
}

}  // namespace

Result<OpenRun> open_run(const TrainingRun& run, const topology::LibraryConstants& constants, Communication& communication) {
  OpenRun open;
  open.layout = run.layout;
  PEAL_ASSIGN(const Software software, software_of(run.software, run.layout));
  PEAL_ASSIGN(open.keys, keys_of(constants, run.processor, software, run.layout));
  PEAL_ASSIGN(const KernelFacts* facts, kernel_facts());
  const LayerWork work(run.model, run.layout, run.processor, software, *facts);
  const std::vector<int> kinds = kinds_of(run.model);
  for (int kind = 0; kind <= *std::max_element(kinds.begin(), kinds.end()); ++kind) {
    const auto first = std::find(kinds.begin(), kinds.end(), kind);
    const int layer = first == kinds.end() ? 0 : static_cast<int>(first - kinds.begin());
    PEAL_ASSIGN(TimedPass forward, timed(work.forward(layer), communication));
    PEAL_ASSIGN(TimedPass input, timed(work.backward_input(layer), communication));
    PEAL_ASSIGN(TimedPass weight, timed(work.backward_weight(layer), communication));
    open.forward.push_back(std::move(forward));
    open.input.push_back(std::move(input));
    open.weight.push_back(std::move(weight));
  }
  for (const bool is_backward : {false, true}) {
    PEAL_ASSIGN(open.embedding[is_backward ? 1 : 0], timed(work.embedding(is_backward), communication));
    PEAL_ASSIGN(open.head[is_backward ? 1 : 0], timed(work.head(is_backward), communication));
  }
  for (int stage = 0; stage < run.layout.pp; ++stage) open.stages.push_back(load_of(run, kinds, stage));
  if (run.layout.pp > 1) {
    const double bytes = static_cast<double>(message_elements(run.model, run.layout)) * bytes_of(run.layout.precision);
    PEAL_ASSIGN(const Nanoseconds send, communication.time(Dimension::pp, Collective::send_recv, bytes));
    open.send_us = send.microseconds();
  }
  PEAL_TRY(add_sharing(run, open, communication));
  return open;
}

double estimate(const OpenRun& run, const Rates& rates) {
  const Layout& l = run.layout;
  double sum = 0, most = 0, backward = 0;
  for (const StageLoad& load : run.stages) {
    const StageTimes t = stage_times(run, load, rates);
    sum += t.forward + t.backward;
    if (t.forward + t.backward <= most) continue;
    most = t.forward + t.backward;
    backward = t.layers_backward;
  }
  double us = l.micro_batches() * most + (sum - most) / l.vpp;
  if (l.pp > 1) us += 2 * run.send_us * (l.pp * l.vpp - 1);
  if (l.zero >= 2 && l.pp == 1) us += run.gather_us + run.reduce_us;
  if (l.zero >= 2 && l.pp > 1) us += run.stages[0].layers[0] * (run.gather_us + run.reduce_us);
  if (l.zero < 2) us += run.gather_us + (l.overlaps_gradients ? std::max(0.05 * run.reduce_us, run.reduce_us - backward) : run.reduce_us);
  us += run.optimizer_us * rates.optimizer_bytes / rates.memory + rates.step_us;
  return us * 1e-6 * run.ratio;
}

}  // namespace peal::training
