// Causal attention of the heads that this rank holds. With context parallelism every rank has the queries of its own positions and,
// gathered over the group, keys and values of all (as Llama 3 was trained: arXiv 2407.21783, section 3.3.2): both in one call in the
// forward pass, in one more on the way back, because only a rank's own are kept between, and one reduce-scatter for both gradients. These
// are the calls of training::build_step_graph()'s passes.
#pragma once

#include <parallel/gpt_unit.hpp>

namespace peal::parallel {

struct AttentionTape {
  Buffer queries;        ///< samples x heads x own positions x head_dim
  Buffer keys_values;    ///< the same of the keys, and behind them of the values
  Buffer probabilities;  ///< samples x heads x own positions x all positions
};

/// `qkv` is rows x heads x (query, key, value) x head_dim, `output` rows x heads x head_dim.
Status attend(const GptContext& context, const float* qkv, AttentionTape& tape, float* output);
Status attend_backward(const GptContext& context, const float* output_gradient, const AttentionTape& tape, float* qkv_gradient);

}  // namespace peal::parallel
