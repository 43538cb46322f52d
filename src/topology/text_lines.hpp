// Text that other tools print, line by line: numbered, without the escapes of a terminal; and the warnings that name those lines.
#pragma once

#include <base/result.hpp>
#include <base/text.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

inline constexpr std::size_t kMostTextBytes = 64u << 20;
inline constexpr int kMostTextDevices = 100'000;
inline constexpr int kMostTextLinks = 1'000'000;

/// Of ASCII, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct TextLine {
  int number = 0;  ///< from 1
  std::string text;
};

/// Gives the lines of `text`, which must outlive it. Escape sequences, a byte order mark and carriage returns are dropped; other control
/// characters and no-break spaces become blanks, tabs stay. What is longer than 4 MiB in one line is cut off.
class LineReader {
 public:
  explicit LineReader(std::string_view text);
  /// False at the end.
  bool next(TextLine& line);
  /// The line that `next` gave last comes again.
  void put_back() { is_put_back_ = true; }

 private:
  std::string_view rest_;
  TextLine last_;
  bool is_put_back_ = false;
};

/// Refuses more than 64 MiB.
Status check_text_size(std::string_view text, const std::string& name);

/// Without blanks and the marks of a comment, a quotation or a table in front ("# ", "// ", "> ", "| ").
std::string_view without_comment_mark(std::string_view text) noexcept;
/// Decimal digits only, at most `most`.
std::optional<int> whole_number(std::string_view text, int most) noexcept;
/// At most `most` bytes of a name that comes from a file.
std::string short_name(std::string_view text, std::size_t most = 200);
/// `wanted`, or `wanted~2`, `wanted~3` ... where the graph has it already.
std::string free_id(const Graph& graph, const std::string& wanted);

/// Warnings of one file into a graph: the first fifty as "FILE:LINE: ...", then how many more there are (`finish`).
class Remarks {
 public:
  Remarks(Graph& graph, const std::string& name) : graph_(graph), name_(name) {}
  /// Line 0: of the whole file.
  template <class... Args>
  void add(int line, fmt::format_string<Args...> text, Args&&... args) {
    if (++count_ > kMost) return;
    const std::string where = line > 0 ? fmt::format("{}:{}", name_, line) : name_;
    graph_.add_warning(where + ": " + fmt::format(text, std::forward<Args>(args)...));
  }
  void finish();

 private:
  static constexpr int kMost = 50;
  Graph& graph_;
  const std::string& name_;
  int count_ = 0;
};

}  // namespace peal::topology
