// Models as tables for people and as JSON.
#pragma once

#include <training/model.hpp>

namespace peal::training {

/// One line a model: parameters, of which active, layers, hidden, FLOPs a token.
std::string models_text(const std::vector<Model>& models);
/// One model, part by part.
std::string model_text(const Model& model);
/// Schema peal.models/1: a list, also of one.
std::string models_json(const std::vector<Model>& models);

}  // namespace peal::training
