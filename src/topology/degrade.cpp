#include <fmt/format.h>

#include <algorithm>
#include <base/names.hpp>
#include <topology/degrade.hpp>

namespace peal::topology {
namespace {

constexpr std::size_t kMostSuggested = 20'000;  // names that a wrong one is compared with
constexpr int kMostSearchedDevices = 20'000;    // of a cluster that is spelled out: every pair's path is searched

std::string_view without_tail(std::string_view name) {
  const std::size_t tail = name.rfind(" (");
  return tail == std::string_view::npos || !name.ends_with(")") ? name : name.substr(0, tail);
}

/// The two ends of a link as its resource's name says them, by ids of the cluster spelled out; the second is empty for a port of a NIC.
struct Ends {
  std::string a, b;
  std::optional<LinkKind> kind = {};
};

Result<Ends> ends_of_resource(const Resources& resources, ResourceId id) {
  const Cluster& cluster = resources.cluster();
  const std::string name = resources.name(id);
  std::string_view local = without_tail(name);
  // "(nvlink x18)"
  const std::string_view tail = std::string_view(name).substr(std::min(name.size(), local.size() + 2));
  const std::optional<LinkKind> kind = link_kind_of(tail.substr(0, tail.find(' ')));
  std::string copy;
  if (cluster.copies() > 1) {
    copy = fmt::format("n{}/", id / resources.per_copy());
    local.remove_prefix(local.find(": ") + 2);
  }
  for (std::string_view side : {" port out", " port in"})
    if (local.ends_with(side)) return Ends{copy + std::string(local.substr(0, local.size() - side.size())), {}};
  for (std::string_view arrow : {" > ", " = "})
    if (const std::size_t middle = local.find(arrow); middle != std::string_view::npos)
      return Ends{copy + std::string(local.substr(0, middle)), copy + std::string(local.substr(middle + arrow.size())), kind};
  return fail(ErrorCode::invalid_argument, "{} is no link: it cannot be dead, only slow", name);
}

}  // namespace

Result<ResourceId> find_resource(const Resources& resources, std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t id = 0; id < resources.count(); ++id) {
    std::string known = resources.name(static_cast<ResourceId>(id));
    if (known == name || without_tail(known) == name) return static_cast<ResourceId>(id);
    if (names.size() < kMostSuggested) names.push_back(std::move(known));
  }
  std::vector<std::string_view> choices;
  for (const std::string& known : names) choices.push_back(without_tail(known));
  std::string_view near = nearest(name, choices.data(), choices.size());
  if (near.empty() && !choices.empty()) near = choices.front();
  return fail(ErrorCode::invalid_argument,
              "there is no link or port \"{}\" here; names are like \"{}\": `peal sim ... --utilisation` prints those that are used", name,
              near);
}

Result<Cluster> without_link(const Resources& resources, ResourceId id) {
  const Cluster& cluster = resources.cluster();
  if (cluster.copies() > 1 && cluster.fabric() != nullptr && cluster.fabric()->resource_count() > 0)
    return fail(ErrorCode::unsupported,
                "the routes over a {} are arithmetic and know no detour around {}: make it slow instead (--slow-link NAME=0.01), or leave "
                "--fabric away",
                cluster.fabric()->name(), resources.name(id));
  PEAL_ASSIGN(const Ends ends, ends_of_resource(resources, id));
  Graph whole = cluster.machine();
  if (cluster.copies() > 1) {
    PEAL_ASSIGN(whole, cluster.graph(kMostSearchedDevices));
  }
  const PathFinder finder(whole);
  const int a = whole.find(ends.a);
  const int b = whole.find(ends.b);
  Graph rest;
  rest.title = whole.title;
  rest.rank_kind = whole.rank_kind;
  for (const Device& device : whole.devices()) PEAL_TRY(rest.add_device(device));
  for (const Link& link : whole.links()) {
    const int from = finder.place_of(link.a);
    const int to = finder.place_of(link.b);
    const bool is_port = b < 0 && is_network(link.kind) && (link.a == a || link.b == a);
    const bool joins_ends = (from == a && to == b) || (from == b && to == a);
    if (is_port || (joins_ends && link.kind == ends.kind)) continue;
    PEAL_TRY(rest.add_link(link));
  }
  for (const std::string& warning : whole.warnings()) rest.add_warning(warning);
  return Cluster(std::move(rest));
}

}  // namespace peal::topology
