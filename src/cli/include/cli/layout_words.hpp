// A training layout as it is typed: what `peal sim step` takes and `peal layout` hands on.
#pragma once

#include <base/units.hpp>
#include <string>
#include <training/layout.hpp>

namespace CLI {
class App;
}

namespace peal::cli {

struct LayoutWords {
  training::Layout layout;  ///< numbers as they were given
  int dp = 0;               ///< 0: what the GPUs leave
  int global_batch = 0;     ///< 0: four micro batches a stage
  std::string pipeline, recompute = "none", precision = "bf16", order = "tp,cp,dp,pp", bucket;
  bool has_no_overlap = false;
};

/// Adds --tp, --cp, --dp, --pp and what else Layout has.
void add_layout_options(CLI::App& command, LayoutWords& words);

/// --pipeline; empty: interleaved where --vpp is above 1, else 1f1b.
Result<training::PipelineKind> pipeline_of(const std::string& words, int vpp);
/// Bytes of --bucket.
Result<double> bucket_of(const std::string& words);
/// Of so many GPUs, checked.
Result<training::Layout> layout_of(const LayoutWords& words, const training::Model& model, int gpus);

}  // namespace peal::cli
