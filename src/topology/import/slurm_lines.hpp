// Slurm's configuration files: lines of KEY=VALUE pairs, keys in any case, '#' to the end of the line, a backslash continues a line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text_lines.hpp"

namespace peal::topology {

struct SlurmPair {
  std::string key;  ///< in lower case
  std::string value;
};

struct SlurmLine {
  int number = 0;  ///< of its first line
  std::vector<SlurmPair> pairs;

  /// Value of a key in lower case, or an empty text.
  std::string_view value(std::string_view key) const noexcept;
  bool has(std::string_view key) const noexcept;
};

/// The next line that has pairs; false at the end. Words that are no pairs are left out with a warning.
bool next_slurm_line(LineReader& lines, SlurmLine& line, Remarks& remarks);

/// Warns of keys that are not among `known`, with the nearest one.
void note_unknown_keys(const SlurmLine& line, std::initializer_list<std::string_view> known, Remarks& remarks);

}  // namespace peal::topology
