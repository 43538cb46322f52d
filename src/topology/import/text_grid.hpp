// Square tables with a header of device names, as nvidia-smi, rocm-smi and npu-smi print them and people paste them: with tabs, with
// blanks, with tabs lost, indented, commented out, with rows missing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text_lines.hpp"

namespace peal::topology {

struct GridForm {
  /// Length of the cell word at the front of `text`, 0 when there is none.
  std::size_t (*cell_length)(std::string_view text) = nullptr;
  std::string_view self = "X";  ///< the cell of a device to itself
};

struct Grid {
  std::vector<std::string> names;  ///< of the header, in order; a name that comes again has a number appended
  int header_line = 0;
  std::vector<int> row_lines;                      ///< 0 where the row is missing
  std::vector<std::string> cells;                  ///< row by row; empty where the file has none
  std::vector<std::string> columns;                ///< "cpu_affinity", "numa_affinity", "gpu_numa_id" in the order of the header
  std::vector<std::vector<std::string>> trailing;  ///< of each row, by column

  std::size_t size() const { return names.size(); }
  const std::string& cell(std::size_t row, std::size_t column) const { return cells[row * size() + column]; }
  /// Of the row, or of the column where the row is missing or cut. Empty when both are.
  const std::string& either(std::size_t row, std::size_t column) const {
    return cell(row, column).empty() ? cell(column, row) : cell(row, column);
  }
  std::string trailing_of(std::size_t row, std::string_view column) const;
  int line_of(std::size_t row) const { return row_lines[row] > 0 ? row_lines[row] : header_line; }
};

/// Reads on until a table and its rows have been read, and stops before the line that ends it. Nothing when there is no table with at
/// least one row any more; `stops` (may be empty) ends the search at lines that hold it. At most kMostTableDevices columns.
std::optional<Grid> read_grid(LineReader& lines, const GridForm& form, std::string_view stops, Remarks& remarks);

/// Warns of each pair whose two cells differ; the upper row's is used.
void compare_halves(const Grid& grid, Remarks& remarks);

/// The first table of an output that has only one of `form`, with warnings of missing rows, of halves that differ and of words that are
/// no cells. `command` printed it ("nvidia-smi topo -m"), `stem` begins its columns ("GPU").
Result<Grid> read_only_grid(LineReader& lines, const GridForm& form, std::string_view command, std::string_view stem,
                            const std::string& name, Remarks& remarks);

/// Length of the first of `words` that `text` begins with (the longest must come first), or 0.
std::size_t word_length(std::string_view text, std::initializer_list<std::string_view> words);

}  // namespace peal::topology
