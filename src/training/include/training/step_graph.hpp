// The step graph: what every rank computes and communicates in one training step, in order, with what each task waits for.
// One graph is simulated (step.hpp) and really run (room `parallel`): what runs is what is simulated.
//
// Ranks of one pipeline stage have the same tasks, so the graph has one list a stage. A task of a chunk covers some of its layers and one
// micro batch; calls inside layers that the computation itself waits for (tensor, context and expert parallel) belong to the task, and
// are not tasks. Tasks of one stage and stream run in the order of the list, each when all that it waits for has ended; of the pipeline's
// stream, those of one kind do (NCCL's batches of sends and receives). A task waits for earlier ones of its list only, and transfers stand
// in all lists in the order of their computations' ends in an even pipeline: who runs every list from front to back, one task after the
// other and each transfer when both ends have come to it, finishes too.
//
// When gradients travel: once a step without ZeRO and with ZeRO 1, beside the last micro batch's backward pass, whose tasks are cut at the
// buckets; with ZeRO 2 and 3 after every micro batch, because nobody keeps whole gradients. With ZeRO 3 a layer is a unit: gathered before
// it is computed, one unit ahead of the computation, and a unit that was just computed is there still. In a pipeline (pp above 1) a stage
// with ZeRO 3 keeps its units and their gradients whole from the first micro batch to the last: it gathers and reduces them once a step
// (as torchtitan does).
#pragma once

#include <array>
#include <base/result.hpp>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <training/layout.hpp>
#include <vector>

namespace peal::training {

enum class TaskKind : std::uint8_t {
  forward,
  backward,        ///< with respect to inputs and weights
  backward_input,  ///< zero-bubble pipelines divide it
  backward_weight,
  optimizer,
  send_forward,  ///< a chunk's output to the stage that holds the next chunk
  receive_forward,
  send_backward,  ///< the gradient of a chunk's input to the stage that holds the chunk before
  receive_backward,
  gather_parameters,  ///< all_gather over dp: ZeRO 3 before layers, ZeRO 1 and 2 after the optimiser
  reduce_gradients,   ///< over dp: all_reduce, or reduce_scatter with ZeRO 2 and 3 (and 1, as Megatron has it)
  share_embeddings,   ///< all_reduce of the gradient of tied embeddings between the first stage and the last
};
std::string_view name_of(TaskKind kind) noexcept;
bool is_computation(TaskKind kind) noexcept;

/// A stream of a rank does one task at a time, in order.
enum class Stream : std::uint8_t { compute, pipeline, data };
inline constexpr int kStreams = 3;

/// Numbers of tasks that one waits for, at most four, without memory of their own.
class Waits {
 public:
  Waits() = default;
  Waits(std::initializer_list<std::int32_t> tasks) {
    for (const std::int32_t task : tasks) add(task);
  }
  /// Below 0: nothing is added.
  void add(std::int32_t task) {
    if (task >= 0) tasks_[count_++] = task;
  }
  const std::int32_t* begin() const { return tasks_.data(); }
  const std::int32_t* end() const { return tasks_.data() + count_; }
  std::size_t size() const { return count_; }

 private:
  std::array<std::int32_t, 4> tasks_ = {};
  std::uint8_t count_ = 0;
};

struct Task {
  TaskKind kind = TaskKind::forward;
  Stream stream = Stream::compute;
  std::int16_t peer = -1;         ///< the other stage of a send or receive
  std::int32_t chunk = -1;        ///< -1: of the stage as a whole
  std::int32_t micro_batch = -1;  ///< -1: of all
  LayerRange layers;              ///< of the model; count 0: none, or all of the stage's
  bool has_embedding = false;     ///< the word embedding is part of it
  bool has_head = false;          ///< final norm, head and loss are part of it
  /// That it communicates, of one rank: activations of a micro batch; gradients or parameters of a bucket, whole, as dp ranks without ZeRO
  /// hold them, tensor parallel's share of them. Of the optimiser: parameters that it updates (its share with ZeRO).
  std::int64_t elements = 0;
  std::int64_t expert_elements = 0;  ///< the same of experts, which their own group (expert_group_of) reduces
  std::int32_t calls = 1;            ///< in which a bucket travels: a layer may be larger than largest_bucket()
  Waits after;                       ///< tasks of the same stage, by number in its list; lower than its own
};

struct StepGraph {
  Layout layout;
  std::vector<std::vector<Task>> stages;  ///< one list a pipeline stage
};

/// Elements that a rank sends to the next stage, and gets back the gradient of, for one micro batch of a transformer.
std::int64_t message_elements(const Model& model, const Layout& layout);

/// Of a layout that check() has passed. Deadlock-free: can_finish() holds. O(tasks).
Result<StepGraph> build_step_graph(const Model& model, const Layout& layout);

/// Walks all lists together from front to back, one task of a stage after the other, a transfer when both ends have come to it (rendezvous:
/// the strictest reading). Fails where tasks wait for one another for ever, naming the stage and task that stands first.
Status can_finish(const StepGraph& graph);

/// The order in which a stage takes up the forward and backward passes of its chunks: GPipe (arXiv 1811.06965), 1F1B (2006.09503),
/// interleaved 1F1B (2104.04473), zero-bubble ZB-H1 (2401.10241).
struct PipelineWork {
  TaskKind kind = TaskKind::forward;
  int chunk = 0;  ///< of the model: piece p of a stage is chunk stage + p * stages
  int micro_batch = 0;
  bool operator==(const PipelineWork&) const = default;
};
std::vector<PipelineWork> pipeline_order(PipelineKind kind, int stages, int vpp, int micro_batches, int stage);

}  // namespace peal::training
