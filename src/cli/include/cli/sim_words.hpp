// What `peal sim` takes beside its question.
#pragma once

#include <cli/fault_options.hpp>
#include <cli/question_words.hpp>

namespace peal::cli {

struct SimWords {
  QuestionWords question;
  FaultWords faults;
  std::string first = "8", last = "64M", trace, json, svg;
  std::uint64_t factor = 2;
  bool utilisation = false, critical_path = false, is_unfolded = false;
  std::vector<std::string> compare;
};

/// What one call of `peal sim` needs: the question, whose behaviour, and the (smallest) size.
void add_sim_question(CLI::App& command, SimWords& words);

/// From the smallest to the largest, at least one; of a barrier the first alone.
Result<std::vector<Bytes>> sizes_of(const SimWords& words);

/// A formula of another library knows nothing of faults and of calls at the same time.
Status refuse_faults(const SimWords& words, std::string_view library);

/// `--compare`: several simulations that differ in what is named, beside one another.
Result<int> compare(const SimWords& words);

}  // namespace peal::cli
