// Who says each number of data/constants, and which of them were chosen so that a model meets measurements: the free constants.
//
// A number's source is the comment on its line, else the `source:` of the nearest mapping around it:
//
//   host:
//     core_switch_ns: 1900       # measured: ...
//   constants:
//     - {scope: nvlink-a100, protocol: line, launch_ns: 6600, source: "fitted: case_a, case_b"}
//
// A source with the word "fit" or "fitted" makes its numbers free, and so does "assumed" ("slice assumed": those whose key has that word);
// the cases that a fit rests on are named in it by the case_id of a table of measurements.
#pragma once

#include <base/result.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace peal::topology {

enum class Ground : std::uint8_t { stated, fitted, assumed };

struct ConstantSource {
  std::string file;  ///< "nccl.yaml"
  int line = 0;
  /// Keys from the top, joined by dots; an item of a list goes by its `name`, else by its "scope/protocol", else by its number:
  /// "constants.nvlink-a100/line.launch_ns".
  std::string name;
  std::string source;
  Ground ground = Ground::stated;

  /// True for a whole part of the name: "nvlink-a100/line", "constants.nvlink-a100/line", "launch_ns".
  bool is_named(std::string_view part) const;
  /// True where the source names `word` (letters, digits, "_", "-" and "." belong to a word).
  bool names(std::string_view word) const;
};

/// Every number of data/constants.
Result<std::vector<ConstantSource>> constant_sources();
/// Of one file's text; `file` stands for it. Takes any bytes.
Result<std::vector<ConstantSource>> read_constant_sources(std::string_view text, const std::string& file);

}  // namespace peal::topology
