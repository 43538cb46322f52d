// The cells of one row of a table by the names of their columns.
#pragma once

#include <base/csv.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace peal::sim {

inline constexpr int kMostRanks = 1'000'000;

class TableFields {
 public:
  TableFields(const CsvTable& table, const CsvRow& row) : table_(table), row_(row) {}

  /// Without blanks around it; empty where there is no such column.
  std::string_view text(std::string_view column) const;
  /// From 0 to `most`; none where the cell is empty, "-" or "N/A".
  Result<std::optional<double>> number(std::string_view column, double most) const;
  /// From 1 to kMostRanks; 0 where the cell is empty.
  Result<int> count(std::string_view column) const;
  /// Why a row is not judged, by its columns quality and notes; empty: it is.
  std::string quality_apart() const;

  /// "FILE:LINE: COLUMN is 'CELL': MEND"
  tl::unexpected<Failure> bad(std::string_view column, std::string_view mend) const;

 private:
  const CsvTable& table_;
  const CsvRow& row_;
};

}  // namespace peal::sim
