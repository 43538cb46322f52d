#include "slurm_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <topology/hostlist.hpp>
#include <tuple>

#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostDigits = 9;
constexpr int kMostNumber = 999'999'999;
constexpr std::size_t kLongestLine = 100;

std::size_t first_of_last_digits(std::string_view text) { return text.find_last_not_of("0123456789") + 1; }

}  // namespace

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
  return whole_number(std::string_view(d.id).substr(digits), kMostNumber).value_or(index);
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
  const auto parts = [](const std::string& name) {
    const std::size_t at = first_of_last_digits(name);
    const std::string_view digits = std::string_view(name).substr(at);
    const bool is_number = !digits.empty() && digits.size() <= kMostDigits;
    return std::tuple{is_number ? name.substr(0, at) : name, is_number ? whole_number(digits, kMostNumber).value_or(-1) : -1,
                      digits.size()};
  };
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) { return parts(a) < parts(b); });
  return fold_hostlist(names);
}

}  // namespace peal::topology
