#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuning/environment.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_mixture.hpp>
#include <tuning/ring_report.hpp>

namespace peal::tuning {

namespace {

constexpr std::size_t kShownWires = 8;

Result<Rings> rings_of(const topology::Resources& resources, std::span<const int> devices, bool is_one_node) {
  schedule::Placement placement;
  if (is_one_node) {
    placement = place(resources, devices);
    placement.rings = find_rings(wiring_of(resources, devices), placement.ring);
  } else {
    PEAL_ASSIGN(Environment environment, environment_of(resources, devices, {}));
    placement = std::move(environment.placement);
  }
  if (!placement.rings.empty()) return std::move(placement.rings);
  if (placement.ring.empty()) {
    placement.ring.resize(devices.size());
    std::iota(placement.ring.begin(), placement.ring.end(), 0);
  }
  return Rings{std::move(placement.ring)};
}

double share_of(const RingReport& report, const RingReport::Load& load) {
  return load.crossings * report.rate / static_cast<double>(report.rings.size()) / load.capacity;
}

}  // namespace

Result<RingReport> report_rings(const topology::Resources& resources, std::span<const int> device_of_rank) {
  if (device_of_rank.size() < 2)
    return fail(ErrorCode::invalid_argument, "a ring needs two ranks; here there are {}", device_of_rank.size());
  const topology::Cluster& cluster = resources.cluster();
  const bool is_one_node = std::all_of(device_of_rank.begin(), device_of_rank.end(),
                                       [&](int d) { return cluster.node_of(d) == cluster.node_of(device_of_rank.front()); });
  RingReport report;
  PEAL_ASSIGN(report.rings, rings_of(resources, device_of_rank, is_one_node));
  std::map<topology::ResourceId, int> crossings;
  topology::Route route;
  for (const std::vector<std::int32_t>& ring : report.rings) {
    for (std::size_t p = 0; p < ring.size(); ++p) {
      const int from = device_of_rank[static_cast<std::size_t>(ring[p])];
      const int to = device_of_rank[static_cast<std::size_t>(ring[(p + 1) % ring.size()])];
      resources.route(from, to, topology::Via::any, route);
      if (!route.exists()) {
        return fail(ErrorCode::unreachable, "{} and {} have no way to each other: look at the links with `peal topo --links`",
                    cluster.id_of(from), cluster.id_of(to));
      }
      for (const topology::ResourceId id : route.resources) ++crossings[id];
    }
  }
  double each = 0;
  for (const auto& [id, times] : crossings) {
    const double capacity = resources.capacity(id).gigabytes();
    if (capacity <= 0) continue;
    report.loads.push_back({resources.name(id), times, capacity});
    if (each == 0 || capacity / times < each) each = capacity / times;
  }
  report.rate = each * static_cast<double>(report.rings.size());
  std::stable_sort(report.loads.begin(), report.loads.end(),
                   [&](const auto& a, const auto& b) { return share_of(report, a) > share_of(report, b) + 1e-9; });
  if (!is_one_node) return report;
  const Wiring wires = wires_of(resources, device_of_rank);
  if (!wires.is_known()) return report;
  report.bound = rate_at_the_ends(wires);
  if (report.rate >= report.bound * (1 - 1e-6)) return report;
  const RingMixture mixture = mix_rings(wires);
  if (mixture.bound > 0) report.bound = std::min(report.bound, mixture.bound);
  report.is_bound_met = mixture.bound > 0 && mixture.is_proved();
  return report;
}

std::string describe_rings(const topology::Resources& resources, std::span<const int> device_of_rank, const RingReport& report) {
  const topology::Cluster& cluster = resources.cluster();
  std::string out =
      fmt::format("{} ring{} of {} ranks carr{} {:.6g} GB/s together, one direction\n", report.rings.size(),
                  report.rings.size() == 1 ? "" : "s", device_of_rank.size(), report.rings.size() == 1 ? "ies" : "y", report.rate);
  if (report.bound > 0 && report.rate >= report.bound * (1 - 1e-6)) {
    out += "  no rings carry more on these wires\n";
  } else if (report.bound > 0) {
    out += fmt::format("  {:.1f} % of {:.6g} GB/s, {}\n", 100 * report.rate / report.bound, report.bound,
                       report.is_bound_met ? "which rings of unequal rates would carry" : "which no rings exceed");
  }
  out += "\nRings\n";
  for (std::size_t i = 0; i < report.rings.size(); ++i) {
    std::vector<std::string> ids;
    for (const std::int32_t rank : report.rings[i]) ids.push_back(cluster.id_of(device_of_rank[static_cast<std::size_t>(rank)]));
    if (ids.size() > 80) {
      const std::size_t left_out = ids.size() - 72;
      ids.erase(ids.begin() + 64, ids.end() - 8);
      ids.insert(ids.begin() + 64, fmt::format("... {} more ...", left_out));
    }
    out += fmt::format("  {:>2}  {}\n", i, fmt::join(ids, " "));
  }
  out += "\nFullest wires\n";
  for (std::size_t i = 0; i < std::min(kShownWires, report.loads.size()); ++i) {
    const RingReport::Load& load = report.loads[i];
    out += fmt::format("  {:>5.1f} %  {} crossing{} of {:.6g} GB/s  {}\n", 100 * share_of(report, load), load.crossings,
                       load.crossings == 1 ? "" : "s", load.capacity, load.wire);
  }
  return out;
}

std::string rings_json(const topology::Resources& resources, std::span<const int> device_of_rank, const RingReport& report) {
  using json = nlohmann::ordered_json;
  json rings = json::array();
  for (const std::vector<std::int32_t>& ring : report.rings) {
    json ids = json::array();
    for (const std::int32_t rank : ring) ids.push_back(resources.cluster().id_of(device_of_rank[static_cast<std::size_t>(rank)]));
    rings.push_back(std::move(ids));
  }
  json wires = json::array();
  for (const RingReport::Load& load : report.loads)
    wires.push_back(
        {{"wire", load.wire}, {"crossings", load.crossings}, {"capacity_GBps", load.capacity}, {"share", share_of(report, load)}});
  json tree = {{"rings", std::move(rings)}, {"GBps", report.rate}};
  tree["bound_GBps"] = report.bound > 0 ? json(report.bound) : json();
  tree["wires"] = std::move(wires);
  return tree.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace peal::tuning
