// Tables of comma-separated values (RFC 4180) as spreadsheets and scripts write them: quoted cells that hold commas, quotes and ends of
// lines, LF or CRLF, a byte order mark, empty lines between rows.
#pragma once

#include <base/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peal {

struct CsvRow {
  int line = 0;                    ///< where it begins, from 1
  std::vector<std::string> cells;  ///< as many as there are columns
};

struct CsvTable {
  std::string name;  ///< the file, for messages
  int line = 0;      ///< of the names of the columns
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  std::optional<std::size_t> column(std::string_view title) const;
};

/// Parses a table whose first row names the columns; `name` stands for the file in messages. Takes any bytes: at most 64 MiB, 1,000,000
/// rows, 1,000 columns, 64 KiB a cell. A row that is shorter or longer than the first is refused. Errors name file, line and the mend.
Result<CsvTable> read_csv_text(std::string_view text, const std::string& name);

/// A cell for writing: quoted where it has to be.
std::string csv_cell(std::string_view text);

}  // namespace peal
