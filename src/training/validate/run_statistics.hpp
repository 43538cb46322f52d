#pragma once

#include <training/validate_training.hpp>

namespace peal::training {

/// Of pairs (predicted, measured).
RunErrors errors_of(const std::vector<std::pair<double, double>>& pairs);
/// Spearman's rank correlation, equal values, and predictions that three digits do not tell apart, with their mean rank; 0 for fewer than
/// two pairs or where one side is constant.
double spearman_of(const std::vector<std::pair<double, double>>& pairs);
/// Fills in all figures that follow from `runs`.
void summarise(TrainingValidation& validation);

}  // namespace peal::training
