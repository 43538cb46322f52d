#include "stage_tasks.hpp"

#include <algorithm>
#include <base/index.hpp>
#include <tuple>

namespace peal::training {

namespace {

bool is_forward(TaskKind kind) { return kind == TaskKind::forward || kind == TaskKind::send_forward || kind == TaskKind::receive_forward; }

}  // namespace

bool StageTasks::Event::operator<(const Event& other) const {
  // Both ends of a transfer see the same key.
  const auto key = [](const Event& e) {
    return std::tuple(e.time, e.is_computation, !is_forward(e.work.kind), e.work.chunk, e.work.micro_batch);
  };
  return key(*this) < key(other);
}

StageTasks::StageTasks(const Model& model, const Layout& layout, int stage)
    : model_(model), layout_(layout), stage_(stage), has_data_(layout.data_ranks() > 1) {
  for (int piece = 0; piece < layout.vpp; ++piece) buckets_.push_back(buckets_of(model, layout, stage + piece * layout.pp));
  shares_ = model.is_transformer() && model.transformer.ties_embeddings && layout.pp > 1 && (stage == 0 || stage == layout.pp - 1);
  if (model.is_transformer()) message_ = message_elements(model, layout);
  received_.assign(2 * at(layout.vpp) * at(layout.micro_batches()), -1);
}

std::vector<Task> StageTasks::list(const StageOrder& order) {
  if (layout_.zero == 3 && has_data_) find_units(order);
  const std::size_t most_parts = buckets_.empty() ? 1 : buckets_.front().size();
  tasks_.reserve(3 * order.works.size() + 4 * most_parts * at(layout_.vpp) + unit_gathers_.size() * 3 + 4);
  for (const Event& event : events_of(order)) {
    if (event.is_computation) {
      compute(event.work);
    } else {
      transfer(event.work);
    }
  }
  finish();
  return std::move(tasks_);
}

/// Messages of a chunk's transfers carry the chunk that takes them (forward: the next one, so that both ends name it alike).
std::vector<StageTasks::Event> StageTasks::events_of(const StageOrder& order) const {
  std::vector<Event> computations, sends, forwards, backwards;
  const int last = layout_.chunks() - 1;
  computations.reserve(3 * order.works.size());
  for (std::vector<Event>* list : {&sends, &forwards, &backwards}) list->reserve(order.works.size());
  for (std::size_t i = 0; i < order.works.size(); ++i) {
    const PipelineWork& work = order.works[i];
    computations.push_back({order.starts[i], true, work});
    if (work.kind == TaskKind::backward_weight) continue;
    const auto message = [&](TaskKind kind, int chunk) { return PipelineWork{kind, chunk, work.micro_batch}; };
    if (work.kind == TaskKind::forward) {
      if (work.chunk > 0) forwards.push_back({order.arrivals[i], false, message(TaskKind::receive_forward, work.chunk)});
      if (work.chunk < last) sends.push_back({order.ends[i], false, message(TaskKind::send_forward, work.chunk + 1)});
    } else {
      if (work.chunk < last) backwards.push_back({order.arrivals[i], false, message(TaskKind::receive_backward, work.chunk)});
      if (work.chunk > 0) sends.push_back({order.ends[i], false, message(TaskKind::send_backward, work.chunk - 1)});
    }
  }
  // Each list is in order already.
  std::vector<Event> events = std::move(computations);
  for (const std::vector<Event>* more : {&sends, &forwards, &backwards}) {
    const auto middle = static_cast<std::ptrdiff_t>(events.size());
    events.insert(events.end(), more->begin(), more->end());
    std::inplace_merge(events.begin(), events.begin() + middle, events.end());
  }
  return events;
}

void StageTasks::find_units(const StageOrder& order) {
  for (const PipelineWork& work : order.works) {
    if (!is_gathered_for(work)) continue;
    const std::vector<Bucket>& parts = buckets(work.chunk);
    for (std::size_t i = 0; i < parts.size(); ++i) units_.push_back(&parts[work.kind == TaskKind::forward ? i : parts.size() - 1 - i]);
  }
  unit_gathers_.assign(units_.size(), -1);
  unit_tasks_.assign(units_.size(), -1);
}

StageTasks::Number StageTasks::add(Task task) {
  const auto number = static_cast<Number>(tasks_.size());
  task.stream = is_computation(task.kind)                                                        ? Stream::compute
                : task.kind >= TaskKind::send_forward && task.kind <= TaskKind::receive_backward ? Stream::pipeline
                                                                                                 : Stream::data;
  if (task.stream == Stream::compute) last_compute_ = number;
  if (task.stream == Stream::data) last_data_ = number;
  tasks_.push_back(task);
  return number;
}

StageTasks::Number& StageTasks::received(bool is_forward, const PipelineWork& work) {
  const int place = (work.chunk / layout_.pp * 2 + (is_forward ? 0 : 1)) * layout_.micro_batches() + work.micro_batch;
  return received_[at(place)];
}

void StageTasks::transfer(const PipelineWork& work) {
  const bool is_ahead = is_forward(work.kind);
  const bool is_send = work.kind == TaskKind::send_forward || work.kind == TaskKind::send_backward;
  Task task;
  task.kind = work.kind;
  // The chunk of this stage that sends or takes it.
  task.chunk = is_send ? work.chunk - (is_ahead ? 1 : -1) : work.chunk;
  task.micro_batch = work.micro_batch;
  task.elements = message_;
  const int other = is_send ? work.chunk : work.chunk - (is_ahead ? 1 : -1);
  task.peer = static_cast<std::int16_t>(other % layout_.pp);
  if (is_send) {
    // It was what the stage computed last: whatever follows begins when it has ended.
    task.after.add(last_compute_);
    add(task);
  } else {
    received(is_ahead, work) = add(task);
  }
}

bool StageTasks::is_gathered_for(const PipelineWork& work) const {
  if (layout_.zero < 3 || !has_data_) return false;
  // A stage of a pipeline keeps what it has gathered, for all micro batches.
  return layout_.pp > 1 ? work.kind == TaskKind::forward && work.micro_batch == 0 : work.kind != TaskKind::backward_weight;
}

bool StageTasks::is_reduced(const PipelineWork& work) const {
  if (!has_data_ || work.kind == TaskKind::forward) return false;
  const bool makes_gradients = (work.kind == TaskKind::backward_weight) == (layout_.pipeline == PipelineKind::zero_bubble);
  if (!makes_gradients) return false;
  if (layout_.zero == 2 || (layout_.zero == 3 && layout_.pp == 1)) return true;
  return (layout_.overlaps_gradients || layout_.zero == 3) && work.micro_batch == layout_.micro_batches() - 1;
}

void StageTasks::compute(const PipelineWork& work) {
  const std::vector<Bucket>& parts = buckets(work.chunk);
  if (!is_gathered_for(work) && !is_reduced(work)) {
    Bucket whole = parts.front();
    whole.layers = layers_of(model_, layout_, work.chunk);
    whole.has_head = parts.back().has_head;
    return compute_part(work, whole, true);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Bucket& part = parts[work.kind == TaskKind::forward ? i : parts.size() - 1 - i];
    compute_part(work, part, i == 0);
    if (is_reduced(work)) reduce(part, work.micro_batch, last_compute_);
  }
}

void StageTasks::compute_part(const PipelineWork& work, const Bucket& part, bool is_first) {
  Task task;
  task.kind = work.kind;
  task.chunk = work.chunk;
  task.micro_batch = work.micro_batch;
  task.layers = part.layers;
  task.has_embedding = part.has_embedding;
  task.has_head = part.has_head;
  if (is_first && work.kind != TaskKind::backward_weight) task.after.add(received(work.kind == TaskKind::forward, work));
  task.after.add(std::exchange(hold_, -1));
  if (!is_gathered_for(work)) {
    add(task);
    return;
  }
  const std::size_t unit = unit_++;
  task.after.add(gather_unit(unit));
  if (unit + 1 < units_.size()) gather_unit(unit + 1);
  unit_tasks_[unit] = add(task);
}

StageTasks::Number StageTasks::gather_unit(std::size_t unit) {
  if (unit_gathers_[unit] >= 0) return unit_gathers_[unit];
  if (unit > 0 && units_[unit] == units_[unit - 1]) return unit_gathers_[unit] = unit_gathers_[unit - 1];
  // Two units are there at a time: what was computed before the last one makes room.
  add_bucket(TaskKind::gather_parameters, *units_[unit], -1, unit > 1 ? unit_tasks_[unit - 2] : -1);
  return unit_gathers_[unit] = last_data_;
}

void StageTasks::add_bucket(TaskKind kind, const Bucket& bucket, int micro_batch, Number after) {
  Task task;
  task.kind = kind;
  task.chunk = bucket.chunk;
  task.micro_batch = micro_batch;
  task.layers = bucket.layers;
  task.has_embedding = bucket.has_embedding;
  task.has_head = bucket.has_head;
  task.elements = bucket.elements;
  task.expert_elements = layout_.data_ranks() > layout_.ep ? bucket.expert_elements : 0;
  task.calls = bucket.calls;
  task.after.add(after);
  add(task);
}

void StageTasks::reduce(const Bucket& bucket, int micro_batch, Number after) {
  if (shares_ && layout_.zero < 2 && ((bucket.has_embedding && stage_ == 0) || bucket.has_head)) {
    late_ = &bucket;
    return;
  }
  add_bucket(TaskKind::reduce_gradients, bucket, micro_batch, after);
  if (!layout_.overlaps_gradients) hold_ = last_data_;
}

void StageTasks::finish() {
  if (has_data_ && layout_.zero < 2 && !layout_.overlaps_gradients)
    for (auto piece = buckets_.rbegin(); piece != buckets_.rend(); ++piece)
      for (auto bucket = piece->rbegin(); bucket != piece->rend(); ++bucket) reduce(*bucket, -1, last_compute_);
  if (shares_) {
    Task task;
    task.kind = TaskKind::share_embeddings;
    task.peer = static_cast<std::int16_t>(stage_ == 0 ? layout_.pp - 1 : 0);
    task.has_embedding = true;
    task.elements = embedding_elements(model_, layout_) / (layout_.zero >= 2 ? layout_.zero_ranks() : 1);
    task.after = {last_compute_};
    if (layout_.zero >= 2) task.after.add(last_data_);
    add(task);
    const Bucket* late = std::exchange(late_, nullptr);
    if (late != nullptr) add_bucket(TaskKind::reduce_gradients, *late, -1, last_data_);
  }
  optimize();
}

void StageTasks::optimize() {
  Task task;
  task.kind = TaskKind::optimizer;
  const int shards = layout_.zero_ranks(), expert_shards = layout_.expert_zero_ranks();
  for (const std::vector<Bucket>& piece : buckets_)
    for (const Bucket& bucket : piece) {
      task.elements += bucket.elements;
      task.expert_elements += bucket.expert_elements;
    }
  task.elements = (task.elements + shards - 1) / shards;
  task.expert_elements = (task.expert_elements + expert_shards - 1) / expert_shards;
  task.after = {last_compute_, last_data_};
  const Number done = add(task);
  if (!has_data_ || layout_.zero == 0 || layout_.zero == 3) return;
  for (const std::vector<Bucket>& piece : buckets_)
    for (const Bucket& bucket : piece) add_bucket(TaskKind::gather_parameters, bucket, -1, done);
}

}  // namespace peal::training
