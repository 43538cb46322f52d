// Errors in figures: percentiles, classes of cases, and what the constants rest on.
#pragma once

#include <sim/validate.hpp>

namespace peal::sim {

/// Of `values`, which are not empty; `share` 0.5 is the median. Interpolates between neighbours.
double percentile(std::vector<double> values, double share);

/// The constants of data/ where none are given.
Result<ValidateOptions> with_constants(ValidateOptions options);

/// "dgx-h100" of "dgx-h100:2 (1 GPU a node)".
std::string machine_name(const PublishedCase& published);

/// Cases by wires, collective, generation of their GPUs, and by what the constants rest on. Needs weigh_evidence's answer.
std::vector<ErrorClass> classes_of(const Validation& validation);

/// Fills in the fitted constants that the predictions used.
void weigh_evidence(Validation& validation, const topology::LibraryConstants& constants);

}  // namespace peal::sim
