#include "system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace peal::discovery {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostBytes = 64u << 10;
constexpr int kMostNumbers = 8192;  // processors of the largest kernels

thread_local Notes* noted = nullptr;

}  // namespace

Notes::Notes() { noted = this; }
Notes::~Notes() { noted = nullptr; }
void Notes::add(const std::string& path) {
  if (noted != nullptr) noted->paths_.insert(path);
}

std::optional<std::string> read_text(const std::string& path) {
  Notes::add(path);
  std::error_code error;
  if (fs::is_directory(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::optional<std::string> read_line(const std::string& path) {
  auto text = read_text(path);
  if (!text) return std::nullopt;
  text->resize(std::min(text->size(), text->find('\n')));
  if (text->empty()) return std::nullopt;
  return text;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_text(path).value_or(""));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::optional<double> read_number(const std::string& path) {
  const auto line = read_line(path);
  if (!line) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(line->c_str(), &end);
  if (end == line->c_str() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<std::string> entries_of(const std::string& folder) {
  Notes::add(folder);
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int> parse_list(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc() || first < 0) break;
    int last = first;
    if (read.ptr < end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc()) break;
    for (int n = first; n <= last && std::ssize(numbers) < kMostNumbers; ++n) {
      numbers.push_back(n);
      if (n == last) break;  // the largest int has no next
    }
    if (read.ptr == end || *read.ptr != ',') break;
    at = read.ptr + 1;
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::string list_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string count_text(std::size_t count, std::string_view noun) {
  return count == 0 ? fmt::format("no {}", noun) : fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string counters_text(const std::vector<Counter>& counters) {
  std::string text;
  for (const Counter& c : counters) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", c.name, c.value);
  return text;
}

}  // namespace peal::discovery
