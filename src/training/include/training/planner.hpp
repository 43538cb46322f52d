// The planner: which layouts of a model on a cluster are best, and why the others are not.
//
// Every layout of a space of choices is looked at: what does not divide is set apart (check()), then what does not fit (memory.hpp); of the
// rest a time is computed that no simulation goes below (step_bound.hpp), and they are simulated in its order until the best ones known are
// faster than whatever is left could be. Families (tp 16; pp 1; ...) of which none is best are then asked for their best member.
#pragma once

#include <base/result.hpp>
#include <functional>
#include <optional>
#include <string>
#include <topology/cluster.hpp>
#include <training/placement.hpp>
#include <training/step.hpp>
#include <vector>

namespace peal::training {

/// What is fixed of a layout; what is not is looked for.
struct LayoutSpace {
  int gpus = 1;
  int gpus_per_node = 1;
  int global_batch = 0;      ///< 0: usual_batch()
  std::int64_t seq_len = 0;  ///< 0: the model's
  Precision precision = Precision::bf16;
  std::optional<int> tp, cp, pp, ep, vpp, zero, micro_batch;
  std::optional<Recompute> recompute;
  std::optional<PipelineKind> pipeline;
};

/// About four million tokens, or 1,024 a GPU where that is more (of an image network 32 images a GPU), in samples that data-parallel ranks
/// can divide.
int usual_batch(const Model& model, const LayoutSpace& space);

/// Who answers what the search asks. Called from several threads at once.
struct LayoutEvaluator {
  double memory_limit = 0;
  std::function<Result<double>(const Layout&)> memory;        ///< bytes of the fullest device
  std::function<Result<double>(const Layout&)> bound;         ///< seconds that a step takes at least
  std::function<Result<StepReport>(const Layout&)> simulate;  ///< a step
  /// Of its ranks, that are worth looking at, at least one; empty: Layout's own.
  std::function<Result<std::vector<std::array<Dimension, 4>>>(const Layout&)> orders;
  std::function<Result<std::vector<std::string>>(const Layout&)> placement;  ///< a sentence a dimension; may be empty
};
/// Memory by memory_of, time by simulate_step. `model` and `cluster` outlive it.
Result<LayoutEvaluator> make_evaluator(const Model& model, const topology::Cluster& cluster, sim::Library whose);

/// One line: a choice that no best layout makes.
struct RejectedFamily {
  std::string choice;  ///< "tp 16", "zero 3", "full recomputation"
  enum class Why : std::uint8_t { does_not_divide, does_not_fit, is_slower } why = Why::is_slower;
  std::string reason;
  std::optional<StepReport> best;  ///< of its members; where it is slower
};

struct LayoutPlan {
  /// The fastest first. Of layouts that differ in recomputation, ZeRO or the order of ranks alone, those that are no better in time and no
  /// better in memory are left out.
  std::vector<StepReport> best;
  std::vector<RejectedFamily> rejected;
  std::vector<std::string> placement;  ///< a sentence a dimension of the best
  std::size_t looked_at = 0, divide = 0, fit = 0, simulated = 0;
  double seconds = 0;  ///< that the search took
};

struct PlanOptions {
  int best = 10;
  int threads = 0;           ///< 0: one a processor
  int most_simulated = 512;  ///< beside the members of families
  std::function<void(const std::string&)> progress = {};
};

/// Fails with one sentence and the nearest thing that works where no layout divides or fits.
Result<LayoutPlan> plan_layouts(const Model& model, const LayoutSpace& space, const LayoutEvaluator& evaluator,
                                const PlanOptions& options = {});

/// `replay`: the command that simulates a layout again, without the layout's own options: "peal sim step --model M --machine C --nodes N".
std::string plan_text(const Model& model, const LayoutSpace& space, const LayoutPlan& plan, const std::string& replay);
/// Schema peal.layout/1.
std::string plan_json(const Model& model, const LayoutSpace& space, const LayoutPlan& plan, const std::string& replay);
/// A bar a layout: what its step is made of.
std::string plan_svg(const Model& model, const LayoutPlan& plan);

}  // namespace peal::training
