// The two forms of a model file, behind training/model.hpp's read_model.
#pragma once

#include <training/model.hpp>

namespace peal::training {

Result<Model> read_model_yaml(std::string_view text, const std::string& where);
/// A Hugging Face config.json.
Result<Model> read_model_config(std::string_view text, const std::string& where);

/// Of a head where the model does not say; 0: heads do not divide `hidden`, which check_transformer() refuses.
std::int64_t usual_head_dim(std::int64_t hidden, int heads);

/// Fails where something is missing, does not divide, or is too large to be counted.
Status check_transformer(const Transformer& transformer, const std::string& where);

/// "llama" of "llama.yaml", and of "llama/config.json".
std::string model_name_of(const std::string& where);

}  // namespace peal::training
