// What the words of a row mean: software, GPU, machine, precision, recomputation, sharding.
#pragma once

#include <string>
#include <string_view>
#include <training/validate_training.hpp>

namespace peal::training {

bool has_word(std::string_view text, std::string_view word);  ///< letters of either case

/// Generation of software; empty: none is known.
std::string software_word(const PublishedRun& run);
/// Name of a processor of data/constants/training: "A100-SXM4-40GB".
std::string processor_word(const PublishedRun& run);
/// A machine of the catalogue with such GPUs; empty: none. `is_named`: the row names that machine.
std::string machine_word(const PublishedRun& run, bool& is_named);
Result<Precision> precision_word(const PublishedRun& run);

}  // namespace peal::training
