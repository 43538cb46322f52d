#include "kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace peal::discovery {
namespace {

namespace fs = std::filesystem;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// One line of /proc/self/cgroup.
struct Group {
  std::string controllers;  // empty: version 2
  std::string path;
};

std::vector<Group> groups_of(const Roots& roots) {
  std::vector<Group> groups;
  for (const std::string& line : read_lines(roots.proc + "/self/cgroup")) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    groups.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return groups;
}

/// The folders of a group and of all above it, lowest first. A group outside of what is mounted here has only the top.
std::vector<fs::path> levels_of(const fs::path& top, const std::string& path) {
  std::vector<fs::path> levels;
  fs::path level = top;
  if (path.find("..") == std::string::npos) level = (top / fs::path(path).relative_path()).lexically_normal();
  for (int depth = 0; depth < 64 && level.native().size() > top.native().size(); ++depth, level = level.parent_path())
    levels.push_back(level);
  levels.push_back(top);
  return levels;
}

bool has_controller(const std::string& list, const std::string& name) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    if (word == name) return true;
  return false;
}

/// Periods that the group of `folder` was stopped in.
unsigned long long throttled_in(const fs::path& folder) {
  for (const std::string& line : read_lines((folder / "cpu.stat").string()))
    if (line.starts_with("nr_throttled ")) return std::strtoull(line.c_str() + 13, nullptr, 10);
  return 0;
}

void lower(CpuQuota& quota, double time, double period, const fs::path& file) {
  if (!(time > 0 && period > 0)) return;
  const double cpus = time / period;
  if (quota.cpus > 0 && quota.cpus <= cpus) return;
  quota = {cpus, file.string(), throttled_in(file.parent_path())};
}

}  // namespace

std::string cpuinfo_value(const Roots& roots, const std::string& key) {
  std::ifstream file(roots.proc + "/cpuinfo");
  // To the end of the first processor: the kernel writes the others, hundreds of them, as they are read.
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) return trimmed(line.substr(colon + 1));
  }
  return {};
}

std::string processor_of(const Roots& roots) {
  const std::string vendor = cpuinfo_value(roots, "vendor_id"), family = cpuinfo_value(roots, "cpu family");
  return vendor.empty() || family.empty() ? std::string() : fmt::format("{} {} {}", vendor, family, cpuinfo_value(roots, "model"));
}

bool is_virtual_machine(const Roots& roots) {
  std::istringstream flags(cpuinfo_value(roots, "flags"));
  for (std::string flag; flags >> flag;)
    if (flag == "hypervisor") return true;
  return false;
}

std::string container_sign(const Roots& roots) {
  for (const Group& group : groups_of(roots))
    for (const char* maker : {"docker", "kubepods", "containerd", "libpod", "lxc", "crio"})
      if (group.path.find(maker) != std::string::npos) return fmt::format("the control group {} in {}/self/cgroup", group.path, roots.proc);
  for (const std::string& line : read_lines(roots.proc + "/self/mountinfo")) {
    std::istringstream words(line);
    std::string id, parent, device, root, point;
    words >> id >> parent >> device >> root >> point;
    if (point == "/" && line.find(" - overlay ") != std::string::npos)
      return fmt::format("a root file system made of layers (overlay) in {}/self/mountinfo", roots.proc);
  }
  return {};
}

CpuQuota cpu_quota(const Roots& roots) {
  CpuQuota quota;
  const fs::path mounted = fs::path(roots.sys) / "fs" / "cgroup";
  std::vector<Group> groups = groups_of(roots);
  if (groups.empty()) groups.push_back({"", "/"});
  for (const Group& group : groups) {
    if (group.controllers.empty()) {
      for (const char* top : {"", "unified"}) {
        for (const fs::path& level : levels_of(*top == '\0' ? mounted : mounted / top, group.path)) {
          std::istringstream words(read_line((level / "cpu.max").string()).value_or(""));
          double time = 0, period = 0;
          if (words >> time >> period) lower(quota, time, period, level / "cpu.max");  // "max 100000": no limit
        }
      }
    } else if (has_controller(group.controllers, "cpu")) {
      for (const fs::path& level : levels_of(mounted / group.controllers, group.path))
        lower(quota, read_number((level / "cpu.cfs_quota_us").string()).value_or(-1),
              read_number((level / "cpu.cfs_period_us").string()).value_or(0), level / "cpu.cfs_quota_us");
    }
  }
  return quota;
}

CpuFacts find_cpus(const Roots& roots) {
  const fs::path all = fs::path(roots.sys) / "devices" / "system" / "cpu";
  CpuFacts facts;
  facts.online = parse_list(read_line((all / "online").string()).value_or(""));
  const std::vector<int> listed = parse_list(status_field(roots, "Cpus_allowed_list"));
  for (int cpu : listed)  // the mask may hold processors that are not there
    if (facts.online.empty() || std::binary_search(facts.online.begin(), facts.online.end(), cpu)) facts.allowed.push_back(cpu);
  if (listed.empty()) facts.allowed = facts.online;
  std::set<std::string> cores, packages;
  for (int cpu : facts.allowed) {
    const fs::path folder = all / fmt::format("cpu{}", cpu) / "topology";
    auto siblings = read_line((folder / "core_cpus_list").string());
    if (!siblings) siblings = read_line((folder / "thread_siblings_list").string());
    cores.insert(siblings.value_or(std::to_string(cpu)));
  }
  for (int cpu : facts.online)
    if (const auto id = read_line((all / fmt::format("cpu{}", cpu) / "topology" / "physical_package_id").string())) packages.insert(*id);
  facts.cores = static_cast<int>(cores.size());
  facts.packages = static_cast<int>(packages.size());
  return facts;
}

std::vector<NumaFact> find_domains(const Roots& roots) {
  const fs::path all = fs::path(roots.sys) / "devices" / "system" / "node";
  std::vector<NumaFact> domains;
  for (const std::string& name : entries_of(all.string())) {
    const std::vector<int> index = name.starts_with("node") ? parse_list(name.substr(4)) : std::vector<int>();
    if (index.size() != 1) continue;
    NumaFact fact{.index = index.front(), .folder = (all / name).string()};
    fact.cpus = parse_list(read_line((all / name / "cpulist").string()).value_or(""));
    for (const std::string& line : read_lines((all / name / "meminfo").string())) {
      const auto at = line.find("MemTotal:");
      if (at != std::string::npos) fact.memory_bytes = std::strtoull(line.c_str() + at + 9, nullptr, 10) * 1024;
    }
    domains.push_back(std::move(fact));
  }
  std::sort(domains.begin(), domains.end(), [](const NumaFact& a, const NumaFact& b) { return a.index < b.index; });
  return domains;
}

std::optional<double> soft_limit(const Roots& roots, const std::string& name) {
  for (const std::string& line : read_lines(roots.proc + "/self/limits")) {
    if (!line.starts_with(name)) continue;
    const std::string value = trimmed(line.substr(name.size()));
    if (value.starts_with("unlimited")) return std::numeric_limits<double>::infinity();
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (end != value.c_str()) return number;
  }
  return std::nullopt;
}

std::string status_field(const Roots& roots, const std::string& name) {
  for (const std::string& line : read_lines(roots.proc + "/self/status"))
    if (line.starts_with(name + ":")) return trimmed(line.substr(name.size() + 1));
  return {};
}

std::string chosen_word(const std::string& path) {
  const std::string text = read_line(path).value_or("");
  const auto open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos || close < open ? std::string() : text.substr(open + 1, close - open - 1);
}

std::string use_of_huge_pages(const Roots& roots) { return chosen_word(roots.sys + "/kernel/mm/transparent_hugepage/enabled"); }

}  // namespace peal::discovery
