// Causal attention of the heads that this rank holds. With context parallelism every rank has the queries of its own positions and,
// gathered over the group, keys and values of all (as Llama 3 was trained: arXiv 2407.21783, section 3.3.2).
#pragma once

#include <parallel/gpt_unit.hpp>

namespace peal::parallel {

struct AttentionTape {
  Buffer queries, keys, values;  ///< samples x heads x positions x head_dim; keys and values of all positions
  Buffer probabilities;          ///< samples x heads x own positions x all positions
};

/// `qkv` is rows x heads x (query, key, value) x head_dim, `output` rows x heads x head_dim.
Status attend(const GptContext& context, const float* qkv, AttentionTape& tape, float* output);
Status attend_backward(const GptContext& context, const float* output_gradient, const AttentionTape& tape, float* qkv_gradient);

}  // namespace peal::parallel
