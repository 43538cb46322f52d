#include "slurm_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <tuple>

namespace peal::topology {
namespace {

constexpr std::size_t kMostDigits = 9;
constexpr std::size_t kLongestLine = 100;

std::size_t first_of_last_digits(std::string_view text) { return text.find_last_not_of("0123456789") + 1; }

}  // namespace

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_bus_before(std::string_view a, std::string_view b) {
  const auto fields = [](std::string_view text) {
    std::vector<unsigned long> numbers;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(":."), text.size());
      unsigned long value = 0;
      std::from_chars(text.data(), text.data() + end, value, 16);
      numbers.push_back(value);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return numbers;
  };
  return fields(a) < fields(b);
}

int numa_of_cpu(const Graph& graph, int cpu, int index) {
  const Device& d = graph.device(cpu);
  if (d.numa >= 0) return d.numa;
  const std::size_t digits = first_of_last_digits(d.id);
  if (digits == d.id.size() || d.id.size() - digits > kMostDigits) return index;
  return number_in(std::string_view(d.id).substr(digits)).value_or(index);
}

std::string slurm_name(std::string_view text) {
  std::string out;
  for (char c : text) out += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ? c : '_';
  return out.empty() ? "_" : out;
}

std::string one_line(std::string_view text) {
  std::string out(text.substr(0, kLongestLine));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return out;
}

std::vector<std::string> machine_names(const Graph& graph) {
  std::vector<std::string> names(static_cast<std::size_t>(graph.node_count()));
  std::vector<bool> is_given(names.size(), false);
  for (const Device& d : graph.devices()) {
    if (d.node < 0) continue;
    const auto n = static_cast<std::size_t>(d.node);
    const std::string_view host = d.attribute("host");
    const std::size_t slash = d.id.find('/');
    if (!host.empty() && !is_given[n]) {
      names[n] = slurm_name(host);
      is_given[n] = true;
    } else if (names[n].empty() && slash != std::string::npos && slash > 0) {
      names[n] = slurm_name(std::string_view(d.id).substr(0, slash));
    }
  }
  // Copies of one described machine all carry its `host`: then only their numbers tell them apart.
  const bool is_clear = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  for (std::size_t n = 0; n < names.size(); ++n)
    if (names[n].empty() || !is_clear) names[n] = fmt::format("n{}", n);
  return names;
}

std::string fold_names(std::vector<std::string> names) {
  struct Part {
    std::string stem;
    std::size_t digits = 0;  // 0: a name without a number
    long number = -1;
    bool is_padded = false;
  };
  std::vector<Part> parts;
  for (const std::string& name : names) {
    const std::size_t at = first_of_last_digits(name);
    const std::size_t digits = name.size() - at;
    if (digits == 0 || digits > kMostDigits) {
      parts.push_back({name, 0, -1, false});
    } else {
      parts.push_back({name.substr(0, at), digits, std::stol(name.substr(at)), digits > 1 && name[at] == '0'});
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return std::tie(a.stem, a.number, a.digits) < std::tie(b.stem, b.number, b.digits); });
  std::string out;
  for (std::size_t i = 0; i < parts.size();) {
    const Part& first = parts[i];
    if (!out.empty()) out += ",";
    if (first.digits == 0) {
      out += first.stem;
      ++i;
      continue;
    }
    // Ranges of one stem share a bracket. A number may follow another where both have the same width, or neither is padded.
    std::string ranges;
    int count = 0;
    while (i < parts.size() && parts[i].stem == first.stem && parts[i].digits > 0) {
      std::size_t end = i + 1;
      const auto follows = [&](std::size_t j) {
        return j < parts.size() && parts[j].stem == first.stem && parts[j].number == parts[j - 1].number + 1 &&
               (parts[j].digits == parts[j - 1].digits || (!parts[j].is_padded && !parts[j - 1].is_padded));
      };
      while (follows(end) && (parts[end].digits == parts[i].digits || !parts[i].is_padded)) ++end;
      const auto written = [](const Part& p) { return fmt::format("{:0{}}", p.number, p.digits); };
      ranges += (ranges.empty() ? "" : ",") + written(parts[i]);
      if (end - i > 1) ranges += "-" + written(parts[end - 1]);
      count += static_cast<int>(end - i);
      i = end;
    }
    out += count == 1 ? first.stem + ranges : fmt::format("{}[{}]", first.stem, ranges);
  }
  return out;
}

}  // namespace peal::topology
