#include <algorithm>
#include <base/csv.hpp>

namespace peal {
namespace {

constexpr std::size_t kMostBytes = 64u << 20;
constexpr std::size_t kMostRows = 1'000'000;
constexpr std::size_t kMostColumns = 1'000;
constexpr std::size_t kMostCell = 64u << 10;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Gives the rows of a text one by one.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    if (text_.substr(0, kMark.size()) == kMark) text_.remove_prefix(kMark.size());
  }

  bool is_at_end() const { return at_ >= text_.size(); }

  Result<CsvRow> row() {
    CsvRow row;
    row.line = line_;
    while (true) {
      PEAL_ASSIGN(std::string cell, starts_with('"') ? quoted() : plain());
      if (cell.size() > kMostCell) return bad("a cell of {} bytes: {} are the most, is a quote missing?", cell.size(), kMostCell);
      row.cells.push_back(std::move(cell));
      if (row.cells.size() > kMostColumns) return bad("more than {} cells in a row: is this a table?", kMostColumns);
      if (!starts_with(',')) break;
      ++at_;
    }
    end_line();
    return row;
  }

 private:
  template <class... Args>
  tl::unexpected<Failure> bad(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(ErrorCode::invalid_argument, "{}:{}: {}", name_, line_, fmt::format(text, std::forward<Args>(args)...));
  }

  bool starts_with(char c) const { return at_ < text_.size() && text_[at_] == c; }

  Result<std::string> plain() {
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    std::string cell(text_.substr(at_, end - at_));
    at_ = end;
    return cell;
  }

  Result<std::string> quoted() {
    const int first = line_;
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"' && at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        if (at_ < text_.size() && std::string_view(",\r\n").find(text_[at_]) == std::string_view::npos)
          return bad("text after a closing quote: write a quote inside a quoted cell twice (\"\")");
        return cell;
      }
      if (text_[at_] == '\n') ++line_;
      cell += text_[at_];
    }
    line_ = first;
    return bad("a quote is opened and never closed: close it, or write a quote inside a cell twice (\"\")");
  }

  void end_line() {
    if (starts_with('\r')) ++at_;
    if (starts_with('\n')) ++at_;
    ++line_;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
};

bool is_empty(const CsvRow& row) { return row.cells.size() == 1 && trimmed(row.cells[0]).empty(); }

Status take_columns(const CsvRow& row, CsvTable& table) {
  const auto bad = [&](const std::string& why) { return fail(ErrorCode::invalid_argument, "{}:{}: {}", table.name, row.line, why); };
  table.line = row.line;
  for (const std::string& cell : row.cells) {
    const std::string_view title = trimmed(cell);
    if (table.column(title)) return bad(fmt::format("there are two columns '{}': rename or drop one", title.substr(0, 64)));
    table.columns.emplace_back(title);
  }
  if (row.cells.size() > 1) return {};
  const std::size_t other = row.cells[0].find_first_of(";\t");
  if (other == std::string::npos) return {};
  return bad(fmt::format("cells are separated by {}: save the table with commas", row.cells[0][other] == ';' ? "semicolons" : "tabs"));
}

}  // namespace

std::optional<std::size_t> CsvTable::column(std::string_view title) const {
  const auto it = std::find(columns.begin(), columns.end(), title);
  if (it == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(it - columns.begin());
}

Result<CsvTable> read_csv_text(std::string_view text, const std::string& name) {
  if (text.size() > kMostBytes)
    return fail(ErrorCode::invalid_argument, "{} has {} bytes: {} are the most, split it", name, text.size(), kMostBytes);
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorCode::invalid_argument, "{} is no text (it holds bytes of zero): save it as UTF-8 with commas", name);
  CsvTable table;
  table.name = name;
  Reader reader(text, name);
  while (!reader.is_at_end()) {
    PEAL_ASSIGN(CsvRow row, reader.row());
    if (is_empty(row)) continue;
    if (table.columns.empty()) {
      PEAL_TRY(take_columns(row, table));
      continue;
    }
    if (row.cells.size() != table.columns.size())
      return fail(ErrorCode::invalid_argument, "{}:{}: {} cells, but line {} names {} columns: quote cells that hold commas", name,
                  row.line, row.cells.size(), table.line, table.columns.size());
    if (table.rows.size() == kMostRows) return fail(ErrorCode::invalid_argument, "{} has more than {} rows: split it", name, kMostRows);
    table.rows.push_back(std::move(row));
  }
  if (table.columns.empty()) return fail(ErrorCode::invalid_argument, "{} is empty: its first line names the columns", name);
  return table;
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace peal
