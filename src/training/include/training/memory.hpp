// What a stage's device has to hold (arXiv 1910.02054 for what ZeRO divides; 2205.05198, equations 1 to 6, for activations).
#pragma once

#include <base/result.hpp>
#include <string>
#include <training/compute.hpp>
#include <training/layout.hpp>

namespace peal::training {

/// Bytes of one device of a stage, at its fullest moment.
struct StageMemory {
  int stage = 0;
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;  ///< kept between forward and backward passes, of all micro batches under way
  double working = 0;      ///< what one layer, or the head with its logits, needs while it is computed
  double buffers = 0;      ///< of communication: gathered parameters, buckets, pipeline messages, the library's own
  double reserved = 0;     ///< context and fragmentation
  double total() const { return parameters + gradients + optimizer + activations + working + buffers + reserved; }
};

/// One a stage, of a layout that check() has passed. `software` as ComputeModel::make has it: what is kept depends on it.
Result<std::vector<StageMemory>> memory_of(const Model& model, const Layout& layout, std::string_view software = {});

/// The stage that needs most.
const StageMemory& fullest(const std::vector<StageMemory>& stages);

/// Fails with one sentence where the fullest stage does not fit: what it needs, what there is, and what would make it fit.
Status fits(const Model& model, const Layout& layout, const Processor& processor, std::string_view software = {});

}  // namespace peal::training
