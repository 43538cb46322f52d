// Errors in figures: percentiles, classes of cases, and what the constants rest on.
#pragma once

#include <sim/validate.hpp>

namespace peal::sim {

/// Of `values`, which are not empty; `share` 0.5 is the median. Interpolates between neighbours.
double percentile(std::vector<double> values, double share);

/// Cases by wires, collective, generation of their GPUs, and by what the constants rest on. Needs weigh_evidence's answer.
std::vector<ErrorClass> classes_of(const Validation& validation);

/// Fills in the constants that the predictions used: which are free, and which cases each names.
void weigh_evidence(Validation& validation, const std::vector<topology::ConstantSource>& sources);

}  // namespace peal::sim
