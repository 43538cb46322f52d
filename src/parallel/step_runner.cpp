#include <algorithm>
#include <parallel/step_runner.hpp>

namespace peal::parallel {

using training::LayerRange;
using training::Stream;
using training::Task;
using training::TaskKind;

namespace {

bool is_send(TaskKind kind) { return kind == TaskKind::send_forward || kind == TaskKind::send_backward; }

bool goes_back(TaskKind kind) { return kind == TaskKind::backward || kind == TaskKind::backward_input; }

}  // namespace

StepRunner::StepRunner(const training::StepGraph& graph, int stage, Links links, StageWork& work)
    : tasks_(graph.stages[static_cast<std::size_t>(stage)]),
      chunks_(graph.layout.chunks()),
      work_(&work),
      pipeline_(std::move(links.pipeline)),
      data_{CallStream(links.data[0]), CallStream(links.data[1]), CallStream(links.data[2])} {
  for (const Task& task : tasks_) {
    if (task.kind != TaskKind::forward) continue;
    LayerRange& all = layers_.emplace(task.chunk, task.layers).first->second;
    const int first = std::min(all.first, task.layers.first);
    all = {first, std::max(all.first + all.count, task.layers.first + task.layers.count) - first};
  }
}

StepRunner::~StepRunner() {
  pipeline_.drain();
  for (CallStream& stream : data_) stream.drain();
}

void StepRunner::look() {
  pipeline_.look();
  for (CallStream& stream : data_) stream.look();
}

void StepRunner::forget_times() {
  pipeline_.forget_times();
  for (CallStream& stream : data_) stream.forget_times();
}

CallStream::Times StepRunner::data_times() const {
  CallStream::Times sum;
  for (const CallStream& stream : data_) {
    sum.took_s += stream.times().took_s;
    sum.waited_s += stream.times().waited_s;
  }
  return sum;
}

// A chunk's pass may be several tasks, a part of its layers each.
bool StepRunner::is_first_part(const Task& task) const {
  const LayerRange& all = layers_.at(task.chunk);
  return goes_back(task.kind) ? task.layers.first + task.layers.count == all.first + all.count : task.layers.first == all.first;
}

bool StepRunner::is_last_part(const Task& task) const {
  const LayerRange& all = layers_.at(task.chunk);
  return goes_back(task.kind) ? task.layers.first == all.first : task.layers.first + task.layers.count == all.first + all.count;
}

// By the chunk that takes it.
StepRunner::MessageName StepRunner::message_of(const Task& task) const {
  switch (task.kind) {
    case TaskKind::send_forward: return {false, task.chunk + 1, task.micro_batch};
    case TaskKind::send_backward: return {true, task.chunk - 1, task.micro_batch};
    case TaskKind::receive_forward: return {false, task.chunk, task.micro_batch};
    default: return {true, task.chunk, task.micro_batch};
  }
}

Status StepRunner::run() {
  if (has_failed_) return fail(ErrorCode::aborted, "a step of this pipeline has failed before; make another one");
  has_failed_ = true;
  PEAL_TRY(walk());
  has_failed_ = false;
  return {};
}

Status StepRunner::walk() {
  flights_.assign(tasks_.size(), {});
  messages_.clear();
  next_call_ = 0;
  for (int number = 0; number < static_cast<int>(tasks_.size()); ++number) {
    const Task& next = task(number);
    for (const std::int32_t before : next.after) PEAL_TRY(await(before));
    if (next.stream == Stream::compute)
      PEAL_TRY(compute(next));
    else
      PEAL_TRY(begin(number));
    flights_[static_cast<std::size_t>(number)].has_begun = true;
  }
  for (int number = 0; number < static_cast<int>(tasks_.size()); ++number) PEAL_TRY(await(number));
  return {};
}

Status StepRunner::await(int number) {
  Flight& flight = flights_[static_cast<std::size_t>(number)];
  if (!flight.has_begun)
    return fail(ErrorCode::internal, "the step graph has a task that waits for one further down: {}", name_of(task(number).kind));
  if (task(number).stream == Stream::compute || flight.has_ended) return {};
  if (task(number).stream == Stream::data) return end_calls_to(number);
  flight.has_ended = true;
  PEAL_TRY(pipeline_.wait(flight.number));
  leaving_.erase(number);
  return {};
}

// Calls of a stream end in their order: with one, all before it.
Status StepRunner::end_calls_to(int number) {
  for (; next_call_ <= number; ++next_call_) {
    Flight& flight = flights_[static_cast<std::size_t>(next_call_)];
    if (task(next_call_).stream != Stream::data) continue;
    for (std::size_t among = 0; among < kAmongs; ++among)
      if (flight.calls[among] >= 0) PEAL_TRY(data_[among].wait(flight.calls[among]));
    PEAL_TRY(work_->end_calls(task(next_call_)));
    flight.has_ended = true;
  }
  return {};
}

Status StepRunner::begin(int number) {
  Flight& flight = flights_[static_cast<std::size_t>(number)];
  if (task(number).stream == Stream::data) {
    PEAL_ASSIGN(const std::vector<DataCall> calls, work_->calls_of(task(number)));
    for (const DataCall& each : calls) {
      const auto among = static_cast<std::size_t>(each.among);
      PEAL_ASSIGN(flight.calls[among], data_[among].start(each.call));
    }
    return {};
  }
  const Task& message = task(number);
  const auto count = static_cast<std::uint64_t>(work_->boundary());
  comm::PairTransfer transfer{nullptr, nullptr, is_send(message.kind), count, DataType::f32, message.peer};
  if (transfer.is_send) {
    const auto made = messages_.extract(message_of(message));
    if (made.empty()) return fail(ErrorCode::internal, "the step graph sends what was not computed: {}", name_of(message.kind));
    transfer.send = (leaving_[number] = std::move(made.mapped())).data();
  } else {
    Buffer& arriving = messages_[message_of(message)];
    arriving.resize(count);
    transfer.receive = arriving.data();
  }
  PEAL_ASSIGN(flight.number, pipeline_.start({&transfer, 1}));
  return {};
}

Status StepRunner::compute(const Task& task) {
  const bool is_back = goes_back(task.kind);
  if (task.kind != TaskKind::forward && !is_back) return work_->compute(task, nullptr, nullptr);
  const bool at_start = task.chunk == 0, at_end = task.chunk + 1 == chunks_;
  const bool has_input = !is_first_part(task) || !(is_back ? at_end : at_start);
  const bool has_output = !is_last_part(task) || !(is_back ? at_start : at_end);
  const MessageName own{is_back, task.chunk, task.micro_batch};
  const MessageName next{is_back, is_back ? task.chunk - 1 : task.chunk + 1, task.micro_batch};
  const auto taken = messages_.extract(own);
  if (has_input && taken.empty()) return fail(ErrorCode::internal, "the step graph computes without input: {}", name_of(task.kind));
  Buffer output(has_output ? static_cast<std::size_t>(work_->boundary()) : 0);
  PEAL_TRY(work_->compute(task, has_input ? taken.mapped().data() : nullptr, has_output ? output.data() : nullptr));
  if (has_output) messages_[is_last_part(task) ? next : own] = std::move(output);
  return {};
}

}  // namespace peal::parallel
