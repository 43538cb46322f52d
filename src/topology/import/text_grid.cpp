#include "text_grid.hpp"

#include <algorithm>
#include <set>

#include "class_table.hpp"
#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostCellBytes = 16;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// "GPU3", "NPU0", "Phy-ID12".
bool is_compute_name(std::string_view word) {
  for (std::string_view stem : {"GPU", "NPU", "Phy-ID"}) {
    if (!word.starts_with(stem) || word.size() == stem.size() || word.size() > stem.size() + 6) continue;
    return std::all_of(word.begin() + static_cast<std::ptrdiff_t>(stem.size()), word.end(), is_digit);
  }
  return false;
}

/// "0000:c1:00.0", as amd-smi names GPUs.
bool is_bus_id(std::string_view word) {
  return word.size() >= 12 && word.size() <= 16 && word.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos &&
         std::count(word.begin(), word.end(), ':') == 2 && word[word.size() - 2] == '.';
}

/// Stands where somebody cut out columns or rows.
bool is_gap(std::string_view word) { return word == "..." || word == "\xe2\x80\xa6"; }

/// Begins the name of a column behind the cells: CPU Affinity, NUMA Affinity, Node Affinity, GPU NUMA ID.
bool is_column_word(std::string_view word) { return word == "CPU" || word == "NUMA" || word == "Node" || word == "GPU"; }

/// A name such as mlx5_0, NIC12, rocep1s0f0: begins with a letter, ends with a digit.
bool is_device_name(std::string_view word) { return word.size() <= 64 && is_letter(word.front()) && is_digit(word.back()); }

/// Blanks where the tabs between names were lost: "GPU7NIC0", "mlx5_1CPU Affinity".
std::string unglue(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_inside = i > 0 && (is_digit(text[i - 1]) || is_letter(text[i - 1]));
    for (std::string_view word : {"GPU", "NPU", "NIC", "mlx", "CPU", "NUMA"})
      if (is_inside && out.back() != ' ' && text.substr(i).starts_with(word)) out += ' ';
    out += text[i];
  }
  return out;
}

struct Header {
  std::vector<std::string> names;
  std::vector<std::string> columns;
  bool has_gap = false;
};

/// What stands behind a command that was pasted together with its output, "nvidia-smi topo -m   GPU0 GPU1", or all.
std::string_view behind_command(std::string_view text) {
  const auto command = text.find(" topo -");
  const auto option = command == std::string_view::npos ? command : text.find_first_of(" \t", command + 6);
  return option == std::string_view::npos ? text : text.substr(option);
}

std::optional<Header> read_header(std::string_view text, const GridForm& form) {
  const std::string spaced = unglue(behind_command(text));
  std::vector<std::string_view> words = words_of(spaced);
  if (words.empty() || !(is_compute_name(words[0]) || is_bus_id(words[0]))) return std::nullopt;
  Header header;
  header.has_gap = std::erase_if(words, is_gap) > 0;
  const auto is_name = [](std::string_view word) { return is_device_name(word) || is_bus_id(word); };
  if (words.size() > 1) {  // a row?
    if (form.cell_length(words[1]) == words[1].size() || !(is_name(words[1]) || is_column_word(words[1]))) return std::nullopt;
  }
  std::size_t i = 0;
  for (; i < words.size() && is_name(words[i]); ++i) header.names.emplace_back(words[i]);
  for (; i < words.size(); ++i) {
    if (words[i] == "CPU") header.columns.emplace_back("cpu_affinity");
    if (words[i] == "Node" || (words[i] == "NUMA" && words[i - 1] != "GPU")) header.columns.emplace_back("numa_affinity");
    if (words[i] == "GPU") header.columns.emplace_back("gpu_numa_id");
  }
  return header;
}

/// What one row says before it is known where its cells belong.
struct Row {
  std::vector<std::string> cells;
  std::vector<std::string> trailing;
};

/// Cells that stand in fields of their own between tabs; nothing where a tab was lost.
std::optional<Row> read_fields(std::string_view text, std::size_t count, const GridForm& form) {
  Row row;
  for (std::size_t field = 0;; ++field) {
    const auto tab = text.find('\t');
    const std::string_view word = trim(text.substr(0, tab));
    if (field < count && !word.empty() && form.cell_length(word) != word.size()) return std::nullopt;
    (field < count ? row.cells : row.trailing).emplace_back(word);
    if (tab == std::string_view::npos) break;
    text.remove_prefix(tab + 1);
  }
  while (!row.cells.empty() && row.cells.back().empty()) row.cells.pop_back();
  return row;
}

/// Cells one after the other, whatever stands between them.
Row read_words(std::string_view text, std::size_t count, const GridForm& form) {
  Row row;
  for (std::string_view word : words_of(text)) {
    if (is_gap(word)) continue;
    const bool is_behind = row.cells.size() >= count || !row.trailing.empty();
    while (!is_behind && !word.empty() && row.cells.size() < count) {
      const std::size_t length = form.cell_length(word);
      if (length == 0) break;
      row.cells.emplace_back(word.substr(0, length));
      word.remove_prefix(length);
    }
    if (word.empty()) continue;
    if (!is_behind && row.cells.size() < count && is_letter(word.front())) {
      row.cells.push_back(short_name(word, kMostCellBytes));  // a word that is none of the form's stands where one should be
    } else {
      row.trailing.emplace_back(word);
    }
  }
  return row;
}

/// Puts values under their columns: in tables without tabs an empty one leaves no trace.
void place_trailing(Grid& grid, std::size_t index, std::vector<std::string> values, bool has_fields) {
  std::vector<std::string>& out = grid.trailing[index];
  out.assign(grid.columns.size(), {});
  // Two tabs stand before the last of three columns.
  if (has_fields && out.size() == 3 && values.size() > 3 && values[2].empty()) values.erase(values.begin() + 2);
  if (!has_fields) std::erase_if(values, [](const std::string& v) { return v.empty(); });
  // With fewer words than columns it is the first, CPU Affinity, that is empty under a control group, if there is a number for the second.
  const bool lacks_first = !has_fields && out.size() == 3 && values.size() == 2 && values[0].find_first_of("-,") == std::string::npos;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const std::size_t column = i + (lacks_first ? 1 : 0); column < out.size()) out[column] = short_name(values[i]);
}

/// The device's own cell tells which cells are missing in front of it or behind it.
void place_cells(Grid& grid, std::size_t index, const std::vector<std::string>& cells, const GridForm& form, int line, Remarks& remarks) {
  const std::size_t count = grid.size();
  std::size_t self = index;
  if (index >= cells.size() || cells[index] != form.self) {
    const auto found = std::find(cells.begin(), cells.end(), form.self);
    if (found == cells.end() && index < cells.size()) {
      remarks.add(line, "the row of {} has no {} where it meets its own column: the row is left out", grid.names[index], form.self);
      return;
    }
    self = static_cast<std::size_t>(found - cells.begin());
  }
  const bool has_self = self < cells.size();
  if (has_self && self != index) {
    remarks.add(line, "the row of {} has {} cells before its own instead of {}: they are left out", grid.names[index], self, index);
  } else if (cells.size() < count) {
    remarks.add(line, "the row of {} has {} cells of {}: the rest is taken from the columns", grid.names[index], cells.size(), count);
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (has_self && i < self && self != index) continue;
    const std::size_t column = has_self ? index + i - self : i;
    if (column < count) grid.cells[index * count + column] = cells[i];
  }
}

void read_row(Grid& grid, std::size_t index, std::string_view rest, const GridForm& form, int line, Remarks& remarks) {
  if (grid.row_lines[index] > 0) {
    remarks.add(line, "a second row of {}: the first one counts", grid.names[index]);
    return;
  }
  grid.row_lines[index] = line;
  // The blanks of " X " lie inside its field.
  std::optional<Row> row;
  const std::size_t tab = rest.find('\t');
  if (tab != std::string_view::npos && trim(rest.substr(0, tab)).empty()) row = read_fields(rest.substr(tab + 1), grid.size(), form);
  const bool has_fields = row.has_value();
  if (!row) row = read_words(rest, grid.size(), form);
  place_cells(grid, index, row->cells, form, line, remarks);
  place_trailing(grid, index, std::move(row->trailing), has_fields);
}

/// Row that the line begins, with the rest behind its label; grid.size() when it is none.
std::size_t row_of(const Grid& grid, const GridForm& form, std::string_view text, std::string_view& rest) {
  const std::string_view label = text.substr(0, text.find_first_of(" \t"));
  std::size_t found = grid.size();
  std::size_t length = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const std::string& name = grid.names[i];
    if (!label.starts_with(name) || name.size() <= length) continue;
    // "GPU1" is no row "GPU10", but "GPU1SYS" is one whose tab was lost.
    if (label.size() > name.size() && (is_digit(label[name.size()]) || form.cell_length(label.substr(name.size())) == 0)) continue;
    found = i;
    length = name.size();
  }
  rest = text.substr(length);
  return found;
}

Grid grid_of(Header header, int line, Remarks& remarks) {
  Grid grid;
  if (header.names.size() > kMostTableDevices) {
    remarks.add(line, "the table has {} columns: the first {} are read", header.names.size(), kMostTableDevices);
    header.names.resize(kMostTableDevices);
  }
  grid.header_line = line;
  if (header.has_gap) remarks.add(line, "columns were cut out here (...): devices are missing");
  for (std::string& name : header.names) {
    const auto times = std::count(grid.names.begin(), grid.names.end(), name);
    if (times > 0) remarks.add(line, "the header names {} twice", name);
    grid.names.push_back(times > 0 ? fmt::format("{}~{}", name, grid.names.size()) : name);
  }
  grid.columns = std::move(header.columns);
  grid.row_lines.assign(grid.size(), 0);
  grid.cells.assign(grid.size() * grid.size(), {});
  grid.trailing.resize(grid.size());
  return grid;
}

void note_missing_rows(const Grid& grid, Remarks& remarks) {
  std::string missing;
  for (std::size_t i = 0; i < grid.size(); ++i)
    if (grid.row_lines[i] == 0) missing += (missing.empty() ? "" : " ") + grid.names[i];
  if (!missing.empty()) remarks.add(grid.header_line, "the header names devices that have no row: {}", missing);
}

/// One warning a word.
void note_unknown_words(const Grid& grid, const GridForm& form, Remarks& remarks) {
  std::set<std::string> known;
  for (std::size_t i = 0; i < grid.size(); ++i)
    for (std::size_t j = 0; j < grid.size(); ++j) {
      const std::string& word = grid.cell(i, j);
      if (word.empty() || form.cell_length(word) == word.size() || !known.insert(word).second) continue;
      remarks.add(grid.line_of(i), "{} to {} is {}, a word that is not known here: nothing is drawn for it, wherever it stands",
                  grid.names[i], grid.names[j], word);
    }
}

}  // namespace

std::string Grid::trailing_of(std::size_t row, std::string_view column) const {
  for (std::size_t i = 0; i < columns.size() && i < trailing[row].size(); ++i)
    if (columns[i] == column) return trailing[row][i];
  return {};
}

std::size_t word_length(std::string_view text, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words)
    if (text.starts_with(word)) return word.size();
  return 0;
}

std::optional<Grid> read_grid(LineReader& lines, const GridForm& form, std::string_view stops, Remarks& remarks) {
  std::optional<Grid> grid;
  std::size_t rows = 0;
  for (TextLine line; lines.next(line);) {
    std::replace(line.text.begin(), line.text.end(), '|', ' ');  // tables of Markdown
    const std::string_view text = without_comment_mark(line.text);
    const bool is_end =
        text.starts_with("Legend") || text.starts_with("NIC Legend") || (!stops.empty() && text.find(stops) != std::string_view::npos);
    std::optional<Header> header = is_end ? std::nullopt : read_header(text, form);
    if (is_end || (header && rows > 0)) {
      lines.put_back();
      break;
    }
    if (header) {
      grid = grid_of(std::move(*header), line.number, remarks);
      continue;
    }
    std::string_view rest;
    if (!grid) continue;
    const std::size_t row = row_of(*grid, form, text, rest);
    if (row == grid->size()) continue;
    rows += grid->row_lines[row] == 0 ? 1 : 0;
    read_row(*grid, row, rest, form, line.number, remarks);
    if (rows == grid->size()) break;
  }
  if (rows == 0) return std::nullopt;
  return grid;
}

Result<Grid> read_only_grid(LineReader& lines, const GridForm& form, std::string_view command, std::string_view stem,
                            const std::string& name, Remarks& remarks) {
  std::optional<Grid> grid = read_grid(lines, form, {}, remarks);
  if (!grid) {
    return fail(ErrorCode::corrupt, "{}:1: no table of {}: a header {}0 {}1 ... and rows that begin with those names are needed", name,
                command, stem, stem);
  }
  note_missing_rows(*grid, remarks);
  compare_halves(*grid, remarks);
  note_unknown_words(*grid, form, remarks);
  return std::move(*grid);
}

void compare_halves(const Grid& grid, Remarks& remarks) {
  for (std::size_t i = 0; i < grid.size(); ++i)
    for (std::size_t j = i + 1; j < grid.size(); ++j) {
      const std::string& upper = grid.cell(i, j);
      const std::string& lower = grid.cell(j, i);
      if (!upper.empty() && !lower.empty() && upper != lower)
        remarks.add(grid.line_of(j), "{} to {} is {} here and {} in line {}, which is used", grid.names[j], grid.names[i], lower, upper,
                    grid.line_of(i));
    }
}

}  // namespace peal::topology
