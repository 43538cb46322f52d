#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sim/call_report.hpp>
#include <tuple>

namespace peal::sim {

namespace {

constexpr std::size_t kMostLines = 16;
constexpr std::size_t kMostNames = 200'000;  // of resources that are looked through to say how many there are of a kind
constexpr double kBusy = 0.8;

/// A name without its numbers: equal for the same wire of another GPU or node. Counts of wires (x18) stay.
std::string shape_of(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  std::string shape;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t end = std::min(name.find_first_not_of(kDigits, i), name.size());
    if (end == i)
      shape += name[i++];
    else
      shape += std::string_view(shape).ends_with(" x") ? name.substr(i, end - i) : "#";
    i = std::max(i, end);
  }
  return shape;
}

struct Line {
  const ResourceUse* first = nullptr;
  std::string shape;
  std::size_t alike = 0;
};

std::vector<Line> lines_of(const Outcome& outcome) {
  std::vector<Line> lines;
  std::map<std::tuple<std::string, double, std::int64_t>, std::size_t> known;
  for (const ResourceUse& use : outcome.resources) {
    std::string shape = shape_of(use.name);
    const auto [it, is_new] = known.try_emplace({shape, use.capacity.value, std::llround(use.utilisation * 1e4)}, lines.size());
    if (is_new)
      lines.push_back({&use, std::move(shape), 0});
    else
      ++lines[it->second].alike;
  }
  return lines;
}

/// How many resources there are of each shape; empty where they are too many to look at.
std::map<std::string, std::size_t> count_shapes(const topology::Resources& resources) {
  std::map<std::string, std::size_t> counts;
  if (resources.count() > kMostNames) return counts;
  for (topology::ResourceId id = 0; id < resources.count(); ++id) ++counts[shape_of(resources.name(id))];
  return counts;
}

std::string bytes_text(double bytes) {
  return bytes < 1024                   ? fmt::format("{:.0f} B", bytes)
         : bytes < 1024.0 * 1024        ? fmt::format("{:.1f} KiB", bytes / 1024)
         : bytes < 1024.0 * 1024 * 1024 ? fmt::format("{:.1f} MiB", bytes / (1024.0 * 1024))
                                        : fmt::format("{:.1f} GiB", bytes / (1024.0 * 1024 * 1024));
}

std::string rate_text(Bandwidth capacity) { return capacity.value > 0 ? fmt::format("{:.4g}", capacity.gigabytes()) : "no limit"; }

std::string bottleneck_text(const std::vector<Line>& lines) {
  if (lines.empty()) return "No wire was crossed: only software took time.\n";
  const Line& top = lines.front();
  const std::string alike = top.alike > 0 ? fmt::format(" and {} alike", top.alike) : "";
  const double percent = 100 * top.first->utilisation;
  if (top.first->utilisation >= kBusy)
    return fmt::format("The bottleneck is {}{}: busy for {:.3g} % of the call.\n", top.first->name, alike, percent);
  return fmt::format(
      "No wire is the bottleneck: {}{}, the busiest, carries bytes for {:.2g} % of the call; --critical-path says what the "
      "rest goes into.\n",
      top.first->name, alike, percent);
}

}  // namespace

std::string use_text(const Outcome& outcome, const topology::Resources& resources) {
  const std::vector<Line> lines = lines_of(outcome);
  const std::map<std::string, std::size_t> shapes = count_shapes(resources);
  std::string text =
      fmt::format("Use of {} of {} wires, ports and memories, {:.2f} us:\n  {:>8} {:>11} {:>9}  {}\n", outcome.resources.size(),
                  resources.count(), outcome.time.microseconds(), "share", "bytes", "GB/s", "what");
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    const ResourceUse& use = *lines[i].first;
    text += fmt::format("  {:>6.1f} % {:>11} {:>9}  {}", 100 * use.utilisation, bytes_text(use.bytes), rate_text(use.capacity), use.name);
    const auto all = shapes.find(lines[i].shape);
    if (lines[i].alike > 0) text += fmt::format(" and {} alike", lines[i].alike);
    if (all != shapes.end() && all->second > lines[i].alike + 1) text += fmt::format(" (of {})", all->second);
    text += '\n';
  }
  if (lines.size() > kMostLines)
    text += fmt::format("  and {} kinds more, each below {:.1f} %\n", lines.size() - kMostLines,
                        100 * lines[kMostLines].first->utilisation + 0.05);
  return text + bottleneck_text(lines);
}

std::string use_json(const Outcome& outcome) {
  nlohmann::json tree = nlohmann::json::array();
  for (const ResourceUse& use : outcome.resources)
    tree.push_back({{"name", use.name}, {"bytes", use.bytes}, {"GBps", use.capacity.gigabytes()}, {"share", use.utilisation}});
  return tree.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace peal::sim
