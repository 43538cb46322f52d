// Errors in figures: classes of cases, and what the constants rest on.
#pragma once

#include <base/percentile.hpp>
#include <sim/case_words.hpp>
#include <sim/validate.hpp>

namespace peal::sim {

std::vector<const PredictedCase*> pointers_to(const std::vector<PredictedCase>& cases);

/// The constants of data/ where none are given.
Result<ValidateOptions> with_constants(ValidateOptions options);
/// The case on its cluster, with what the options say of both.
Result<PlacedCase> place(const PublishedCase& published, const ValidateOptions& options);

/// "dgx-h100" of "dgx-h100:2 (1 GPU a node)".
std::string machine_name(const PublishedCase& published);

/// Cases by wires, collective, generation of their GPUs, and by what the constants rest on. Needs weigh_evidence's answer.
std::vector<ErrorClass> classes_of(const Validation& validation);

/// Fills in the fitted constants that the predictions used.
void weigh_evidence(Validation& validation, const topology::LibraryConstants& constants);

}  // namespace peal::sim
