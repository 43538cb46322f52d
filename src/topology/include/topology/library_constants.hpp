// What collective libraries (NCCL, RCCL, HCCL) plan with and what their calls were found to take: data/constants/libraries/*.yaml.
//
// Figures of networks and of GPUs have the same form: data/constants/network, data/constants/gpu.
//
// A constant has a name ("plan.base.Ring", "hop.Simple.nvlink"), one value or several, and a source. Fitted ones carry where the fit starts
// from (`prior`), how far it may go (`spread`, a standard deviation of the natural logarithm) and the machines whose cases determined them.
#pragma once

#include <base/result.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peal::topology {

struct LibraryConstant {
  std::string name;
  std::vector<double> values;  ///< at least one, none below zero
  std::string what;            ///< unit and meaning
  std::string source;
  double prior = 0;
  double spread = 0;                       ///< zero: a fact, not fitted
  std::vector<std::string> machines = {};  ///< catalogue names; of fitted ones
  std::vector<std::string> cases = {};     ///< of a table of measurements; of fitted ones

  bool is_fitted() const { return spread > 0; }
};

/// How far predictions were from what was measured, over the cases that the constants were fitted to.
struct LibraryAccuracy {
  bool is_between_nodes = false;
  double from = 0, to = 0;  ///< bytes of a call, `to` not included
  double median = 0;        ///< of the cases' median errors; 0.1 is 10 %
  double ninth_decile = 0;  ///< of all rows
  double kept_out = 0;      ///< median as above of cases whose machine was left out of the fit; 0: not known
  int cases = 0;
  int most_nodes = 1;  ///< of a case
};

/// A value. Numbers of constants are their places in `all()` and stay the same while values change.
class LibraryConstants {
 public:
  /// Of all files in data/; read once a process.
  static Result<LibraryConstants> from_data();
  /// Of networks, in the same form: data/constants/network.
  static Result<LibraryConstants> of_networks();
  /// Of GPUs, in the same form: data/constants/gpu.
  static Result<LibraryConstants> of_gpus();
  /// Adds one file's text; refuses a name that is there twice and whatever is not a constant, with FILE:LINE. `file` stands for it in
  /// messages. Not thread-safe.
  Status add_text(std::string_view text, const std::string& file);

  std::span<const LibraryConstant> all() const { return constants_; }
  std::span<const LibraryAccuracy> accuracy() const { return accuracy_; }
  void set_accuracy(std::vector<LibraryAccuracy> accuracy) { accuracy_ = std::move(accuracy); }
  /// Place of a constant; fails with the names that begin alike.
  Result<int> find(std::string_view name) const;
  bool has(std::string_view name) const { return index_of(name) >= 0; }
  double value(int constant) const { return constants_[static_cast<std::size_t>(constant)].values.front(); }
  /// For who fits; names stay as they are.
  LibraryConstant& at(int constant) { return constants_[static_cast<std::size_t>(constant)]; }

 private:
  int index_of(std::string_view name) const;
  std::vector<LibraryConstant> constants_;
  std::vector<LibraryAccuracy> accuracy_;
};

/// Streaming multiprocessors or compute units of a GPU of that name ("H100-SXM5"); fails where they are not known.
Result<int> processors_of(std::string_view gpu);

/// The file that a fit writes: every fitted constant and the accuracy, under `heading` (comment lines).
std::string to_yaml(const LibraryConstants& constants, std::string_view heading);

}  // namespace peal::topology
