#include "table_fields.hpp"

#include <charconv>
#include <cmath>
#include <fstream>
#include <sim/published.hpp>
#include <sstream>

#include "phrases.hpp"

namespace peal::sim {

std::string_view TableFields::text(std::string_view column) const {
  const auto index = table_.column(column);
  return index ? trim(row_.cells[*index]) : std::string_view();
}

Result<std::optional<double>> TableFields::number(std::string_view column, double most) const {
  const std::string_view cell = text(column);
  if (cell.empty() || cell == "-" || cell == "N/A") return std::optional<double>();
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value) || value < 0 || value > most)
    return bad(column, fmt::format("a number from 0 to {:g} belongs there", most));
  return std::optional<double>(value);
}

Result<int> TableFields::count(std::string_view column) const {
  const std::string_view cell = text(column);
  int value = 0;
  if (cell.empty()) return value;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || value < 1 || value > kMostRanks)
    return bad(column, fmt::format("a whole number from 1 to {} belongs there", kMostRanks));
  return value;
}

std::string TableFields::quality_apart() const {
  const std::string_view quality = text("quality");
  if (quality.empty() || quality == "good" || quality == "ok") return {};
  const std::string_view notes = text("notes");
  return notes.empty() ? std::string(quality) : fmt::format("{}: {}", quality, notes);
}

tl::unexpected<Failure> TableFields::bad(std::string_view column, std::string_view mend) const {
  return fail(ErrorCode::invalid_argument, "{}:{}: {} is '{}': {}", table_.name, row_.line, column, text(column).substr(0, 64), mend);
}

Result<std::string> read_table_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.str().empty())
    return fail(ErrorCode::invalid_argument, "cannot read {}, or it is empty: give a table of measurements (CSV)", path);
  return text.str();
}

}  // namespace peal::sim
