// Small files of /sys and /proc. Missing files are missing facts, never errors; whatever they hold, no more than 64 KiB of it is read.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace peal::discovery {

/// First line of a small file without the newline; nothing when it cannot be read or is empty.
std::optional<std::string> read_line(const std::string& path);
/// All of a small file, binary or not; nothing when it cannot be read.
std::optional<std::string> read_text(const std::string& path);
/// Lines of a small file; none when it cannot be read.
std::vector<std::string> read_lines(const std::string& path);
/// The number that a small file begins with.
std::optional<double> read_number(const std::string& path);

/// While it lives, the files and folders that this thread asks for are noted.
class Notes {
 public:
  Notes();
  ~Notes();
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  const std::set<std::string>& paths() const { return paths_; }
  /// Called by the functions of this header, and by those that look at a path in another way.
  static void add(const std::string& path);

 private:
  std::set<std::string> paths_;
};

/// Names in a folder, sorted; none when it cannot be read.
std::vector<std::string> entries_of(const std::string& folder);

/// "0-3,8" as the kernel writes sets of processors and domains, ascending; what is not understood ends the list, at most 8192.
std::vector<int> parse_list(std::string_view text);
/// {0, 1, 2, 8} -> "0-2,8".
std::string list_text(const std::vector<int>& numbers);

/// "1 GPU", "2 GPUs", "no GPU".
std::string count_text(std::size_t count, std::string_view noun);

/// What a counter of the kernel stands at.
struct Counter {
  std::string name;  ///< "symbol_error"
  unsigned long long value = 0;
};
/// "symbol_error 12, link_downed 1"; empty for none.
std::string counters_text(const std::vector<Counter>& counters);

}  // namespace peal::discovery
