#include "slurm_lines.hpp"

#include <algorithm>
#include <base/names.hpp>

namespace peal::topology {
namespace {

constexpr std::size_t kMostJoinedBytes = 4u << 20;

/// Appends lines as long as they end in a backslash; false at the end of the file.
bool next_joined(LineReader& lines, TextLine& joined) {
  TextLine line;
  if (!lines.next(joined)) return false;
  while (trim(joined.text).ends_with('\\') && joined.text.size() < kMostJoinedBytes) {
    joined.text.erase(joined.text.find_last_of('\\'));
    if (!lines.next(line)) break;
    joined.text += ' ' + line.text;
  }
  return true;
}

}  // namespace

std::string_view SlurmLine::value(std::string_view key) const noexcept {
  for (const SlurmPair& pair : pairs)
    if (pair.key == key) return pair.value;
  return {};
}

bool SlurmLine::has(std::string_view key) const noexcept {
  return std::any_of(pairs.begin(), pairs.end(), [&](const SlurmPair& pair) { return pair.key == key; });
}

bool next_slurm_line(LineReader& lines, SlurmLine& line, Remarks& remarks) {
  line.pairs.clear();
  for (TextLine joined; line.pairs.empty() && next_joined(lines, joined);) {
    line.number = joined.number;
    const std::string_view text = std::string_view(joined.text).substr(0, joined.text.find('#'));
    for (std::string_view word : words_of(text)) {
      const auto equals = word.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        remarks.add(line.number, "'{}' is no KEY=VALUE pair: left out", short_name(word, 60));
        continue;
      }
      std::string_view value = word.substr(equals + 1);
      if (value.size() > 1 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      std::string key = lower_case(short_name(word.substr(0, equals), 60));
      if (line.has(key)) remarks.add(line.number, "{} comes twice in a line: the first counts", key);
      if (line.pairs.size() < 64) line.pairs.push_back({std::move(key), std::string(value)});
    }
  }
  return !line.pairs.empty();
}

void note_unknown_keys(const SlurmLine& line, std::initializer_list<std::string_view> known, Remarks& remarks) {
  for (const SlurmPair& pair : line.pairs) {
    if (std::find(known.begin(), known.end(), pair.key) != known.end()) continue;
    const std::string_view near = nearest(pair.key, known.begin(), known.size());
    if (near.empty()) {
      remarks.add(line.number, "key '{}' is not known: left out", pair.key);
    } else {
      remarks.add(line.number, "key '{}' is not known, did you mean '{}'? It is left out", pair.key, near);
    }
  }
}

}  // namespace peal::topology
