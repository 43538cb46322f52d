// Runs one stage of a step graph: the very tasks that training::simulate_step times, in the same order, over real ranks.
//
// Computing goes on in the caller's thread, in the order of the list. Messages between stages are one stream, calls over data-parallel
// ranks others; all fly beside computing until a task that waits for them comes. What
// is computed, StageWork knows.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <parallel/call_stream.hpp>
#include <parallel/zone.hpp>
#include <training/step_graph.hpp>

namespace peal::parallel {

/// Of a stage's stream of data: over all ranks that share parameters, over those that hold the same experts, and over the two ends of a
/// pipeline, which share a tied embedding. Each has a communicator of its own.
enum class Among : std::uint8_t { data, copies, ends };
inline constexpr std::size_t kAmongs = 3;

struct DataCall {
  comm::Call call;
  Among among = Among::data;
};

/// What one rank of a stage computes. Buffers are the runner's.
class StageWork {
 public:
  virtual ~StageWork() = default;
  /// Elements of the messages between chunks.
  virtual std::int64_t boundary() const = 0;
  /// forward: input to output of some layers of a chunk, for one micro batch; backward and backward_input: gradient of the output to that
  /// of the input. Null where there is none: at the model's ends, for weights and for the optimiser.
  virtual Status compute(const training::Task& task, const float* input, float* output) = 0;
  /// The calls over data-parallel ranks that a task of that stream stands for.
  virtual Result<std::vector<DataCall>> calls_of(const training::Task& task) = 0;
  /// They have ended.
  virtual Status end_calls(const training::Task& task) = 0;
};

class StepRunner {
 public:
  struct Links {
    std::shared_ptr<comm::Core> pipeline;                   ///< its ranks are the stages; null for one stage
    std::array<std::shared_ptr<comm::Core>, kAmongs> data;  ///< by Among; null where that is nobody else
  };
  /// `graph` and `work` outlive the runner.
  StepRunner(const training::StepGraph& graph, int stage, Links links, StageWork& work);
  /// Waits for what flies still, after a failure.
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;
  /// One step. After a failure the runner is of no more use: buffers of that step may be on their way still.
  Status run();
  /// For StageWork to ask between pieces of its work: what flies notes its end.
  void look();

  const CallStream& pipeline() const { return pipeline_; }
  /// Of all calls that are no messages between stages.
  CallStream::Times data_times() const;
  void forget_times();

 private:
  struct Flight {
    bool has_begun = false, has_ended = false;
    std::int64_t number = -1;                                // of its message, or
    std::array<std::int64_t, kAmongs> calls = {-1, -1, -1};  // the last of its calls; -1: it had none
  };
  struct MessageName {
    bool is_gradient;
    int chunk;  // whose input it is, or the gradient of whose output
    int micro_batch;
    auto operator<=>(const MessageName&) const = default;
  };
  const training::Task& task(int number) const { return tasks_[static_cast<std::size_t>(number)]; }
  Status walk();
  Status await(int number);
  Status begin(int number);
  Status end_calls_to(int number);
  Status compute(const training::Task& task);
  MessageName message_of(const training::Task& task) const;
  bool is_first_part(const training::Task& task) const;
  bool is_last_part(const training::Task& task) const;

  const std::vector<training::Task>& tasks_;
  int chunks_;
  StageWork* work_;
  CallStream pipeline_;
  std::array<CallStream, kAmongs> data_;
  std::vector<Flight> flights_;
  bool has_failed_ = false;
  int next_call_ = 0;                           // the first task whose calls may not have ended
  std::map<int, training::LayerRange> layers_;  // of each chunk
  std::map<MessageName, Buffer> messages_;
  std::map<int, Buffer> leaving_;  // what is sent, by task, until it has left
};

}  // namespace peal::parallel
