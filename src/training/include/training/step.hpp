// One training step on a cluster, simulated: the step graph in virtual time, computing by compute.hpp, calls by the library's formula or by
// Peal's simulated schedules.
#pragma once

#include <base/result.hpp>
#include <base/trace.hpp>
#include <base/units.hpp>
#include <memory>
#include <sim/library.hpp>
#include <span>
#include <training/compute.hpp>
#include <training/memory.hpp>
#include <training/step_graph.hpp>

namespace peal::training {

/// Data-parallel ranks: those that hold the same parameters beside experts (dp x cp), or the same experts (every ep-th of them).
enum class Talkers : std::uint8_t { same_parameters, same_experts };

/// A layout's ranks on the devices of a cluster, and how long they need to tell one another something. Times of calls are kept: asking
/// again for what was asked before costs nothing. Not thread-safe.
class Communication {
 public:
  /// Rank r is on the cluster's r-th compute device. `whose` calls: of nccl, rccl, hccl by their formula; of peal the schedule that would
  /// be selected, simulated with all groups of the dimension at the same time.
  static Result<Communication> make(const topology::Cluster& cluster, const Layout& layout, sim::Library whose);
  /// Of another layout on the same cluster; what is known of the cluster is shared with this one (then neither is thread-safe beside the
  /// other).
  Result<Communication> with(const Layout& layout) const;
  Communication(Communication&&) noexcept;
  Communication& operator=(Communication&&) noexcept;
  ~Communication();

  /// All groups of a dimension make the call at the same time; `bytes` as nccl-tests counts them. dp: the dp x cp ranks that hold the same
  /// parameters. pp: send_recv between stages that follow one another, the slowest.
  Result<Nanoseconds> time(Dimension over, Collective collective, double bytes);
  /// Of data-parallel ranks; `group` of ranks above 0: as many neighbours among them only (hybrid sharding).
  Result<Nanoseconds> time_of_data(Talkers who, Collective collective, double bytes, int group = 0);
  /// The same of the ranks that are equal in such groups.
  Result<Nanoseconds> time_between(Talkers who, int group, Collective collective, double bytes);
  /// From a stage to another, every rank to its counterpart.
  Result<Nanoseconds> time_of_send(int from_stage, int to_stage, double bytes);
  /// Of all_reduce between every rank of the first stage and its counterpart in the last.
  Result<Nanoseconds> time_of_ends(double bytes);

 private:
  struct Pool;
  struct State;
  explicit Communication(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Seconds, of the busiest stage unless said otherwise.
struct StepReport {
  Layout layout;
  double time = 0;                        ///< of the step
  double tokens_per_s = 0;                ///< of all GPUs (images: samples)
  double model_flops_utilisation = 0;     ///< 0 to 1, causal attention counted whole, nothing recomputed counted
  double hardware_flops_utilisation = 0;  ///< with what is recomputed
  double compute = 0;                     ///< without calls
  double bubble = 0;                      ///< that the stages stand still for others, mean over stages, as a share of the time
  double optimizer = 0;
  double overhead = 0;               ///< once a step: data loader, logging
  double exposed[kDimensions] = {};  ///< communication that computing waits for, by dimension
  double hidden[kDimensions] = {};   ///< communication beside computing
  int busiest = 0;                   ///< stage that computes longest
  std::vector<StageMemory> memory;
  double memory_limit = 0;  ///< bytes a device has
  bool fits() const { return memory.empty() || fullest(memory).total() <= memory_limit; }
  std::string evidence;  ///< what the prediction is worth, one sentence
  std::vector<std::string> notes;
};

struct StepOptions {
  sim::Library whose = sim::Library::nccl;  ///< calls, as Communication::make has it
  std::string software = {};                ///< whose kernels compute (ComputeModel::make); empty: today's
  bool keeps_trace = false;
};

struct StepStudy {
  StepReport report;
  Trace trace;  ///< microseconds; process: stage, thread: 0 computing, 1 calls over dp, 2 to 5 transfers by kind; empty unless asked for
};

/// Of a layout that check() has passed, on as many of the cluster's GPUs as it has. A layout that does not fit is simulated all the same
/// (StepReport::fits()).
///
/// Tasks of a stage and stream follow one another as the graph has them. Calls inside layers lengthen their task by what computing waits
/// for. With ZeRO 1 and 2, where gradients overlap, what the optimiser has made is gathered beside the next step's first micro batch: the
/// time is from step to step in a long run. O(tasks).
Result<StepStudy> simulate_step(const Model& model, const topology::Cluster& cluster, const Layout& layout,
                                const StepOptions& options = {});
/// The same with `communication` at hand, made with the same cluster and layouts of equal dimensions and order.
Result<StepStudy> simulate_step(const Model& model, const topology::Cluster& cluster, const Layout& layout, Communication& communication,
                                const StepOptions& options = {});

std::string step_text(const Model& model, const StepReport& report);
/// Schema peal.step/1.
std::string step_json(const Model& model, const StepReport& report);
/// A row a stage: what it computes above, what it tells others below; `lines` stand below the title.
std::string step_svg(const std::string& title, std::span<const std::string> lines, const Trace& trace, int stages);

}  // namespace peal::training
