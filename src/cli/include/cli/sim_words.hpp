// What `peal sim` takes beside its question.
#pragma once

#include <cli/fault_options.hpp>
#include <cli/question_words.hpp>
#include <functional>
#include <sim/overlap.hpp>

namespace peal::cli {

struct SimWords {
  QuestionWords question;
  FaultWords faults;
  std::string first = "8", last, trace, json, svg;
  std::uint64_t factor = 2;
  bool utilisation = false, critical_path = false, is_unfolded = false;
  std::string rates = "auto";  ///< how rates of messages are worked out
  std::vector<std::string> compare;
  std::vector<std::string> messages;
  std::string compute;  ///< a call after each part of it
  int ctas = -1;        ///< processors that a call holds; below 0: what the GPU's own library takes
};

/// What one call of `peal sim` needs: the question, whose behaviour, the (smallest) size, what is computed beside it.
void add_sim_question(CLI::App& command, SimWords& words);

/// From the smallest to the largest, at least one; of a barrier the first alone.
Result<std::vector<Bytes>> sizes_of(const SimWords& words);

/// A formula of another library knows nothing of faults and of calls at the same time.
Status refuse_faults(const SimWords& words, std::string_view library);

/// What is worked out and what is spared: ranks that are alike, as `is_unfolded` says, and rates, as `rates` says; fails where that is no
/// such word.
Status set_effort(const SimWords& words, sim::InterpretOptions& options);

/// Says on standard error every few seconds how far a long simulation is.
std::function<void(const sim::Progress&)> progress_on_stderr();

/// What `--compute` and `--ctas` ask for; `call` is the largest.
Result<sim::Overlapping> overlapping_of(const SimWords& words, const sim::Scene& scene, const tuning::Call& call);
/// Calls of several sizes beside computing.
struct OverlapCase {
  sim::Scene scene;
  tuning::Question question;
  sim::InterpretOptions options;
  sim::Overlapping asked;
  sim::Table table;

  Result<sim::OverlapStudy> study(Bytes size, bool keeps_trace = false);
};
/// Refuses what cannot be asked beside computing.
Result<OverlapCase> overlap_case(const SimWords& words, Bytes largest);
/// `--compute`: calls beside computing.
Result<int> simulate_overlap(const SimWords& words);

/// `--compare`: several simulations that differ in what is named, beside one another.
Result<int> compare(const SimWords& words);

}  // namespace peal::cli
