#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuning/environment.hpp>
#include <tuning/mixture.hpp>
#include <tuning/placement.hpp>
#include <tuning/rails.hpp>
#include <tuning/ring_report.hpp>

namespace peal::tuning {

namespace {

Result<RingSet> rings_of(const topology::Resources& resources, std::span<const int> devices, bool is_one_node) {
  schedule::Placement placement;
  if (is_one_node) {
    placement = place(resources, devices);
    RingSet found = find_rings(wiring_of(resources, devices, Slots::ignored), placement.ring);
    if (!found.rings.empty()) return found;
  } else {
    PEAL_ASSIGN(Environment environment, environment_of(resources, devices, {}));
    placement = std::move(environment.placement);
  }
  if (!placement.rings.empty()) return RingSet{std::move(placement.rings), std::move(placement.shares)};
  if (placement.ring.empty()) {
    placement.ring.resize(devices.size());
    std::iota(placement.ring.begin(), placement.ring.end(), 0);
  }
  return RingSet{{std::move(placement.ring)}, {}};
}

}  // namespace

Result<RingReport> report_rings(const topology::Resources& resources, std::span<const int> device_of_rank) {
  if (device_of_rank.size() < 2)
    return fail(ErrorCode::invalid_argument, "a ring needs two ranks; here there are {}", device_of_rank.size());
  const topology::Cluster& cluster = resources.cluster();
  const bool is_one_node = std::all_of(device_of_rank.begin(), device_of_rank.end(),
                                       [&](int d) { return cluster.node_of(d) == cluster.node_of(device_of_rank.front()); });
  RingReport report;
  PEAL_ASSIGN(report.set, rings_of(resources, device_of_rank, is_one_node));
  WireLoads loads(resources, device_of_rank);
  for (std::size_t k = 0; k < report.set.rings.size(); ++k) {
    const std::vector<std::int32_t>& ring = report.set.rings[k];
    for (std::size_t p = 0; p < ring.size(); ++p) PEAL_TRY(loads.add(ring[p], ring[(p + 1) % ring.size()], report.set.share(k)));
  }
  report.rate = loads.room() * report.set.all_shares();
  report.loads = loads.list(loads.room());
  if (!is_one_node) return report;
  const Wiring wires = wires_of(resources, device_of_rank);
  if (!wires.is_known()) return report;
  report.bound = wires.ranks == 2 ? report.rate : rate_at_the_ends(wires);  // two ranks have one ring
  if (report.rate >= report.bound * (1 - 1e-6)) return report;
  const Mixture mixture = mix_rings(wires);
  if (mixture.bound > 0) report.bound = std::min(report.bound, mixture.bound);
  report.is_bound_met = mixture.is_proved();
  return report;
}

std::string describe_rings(const topology::Resources& resources, std::span<const int> device_of_rank, const RingReport& report) {
  const topology::Cluster& cluster = resources.cluster();
  const Rings& rings = report.set.rings;
  std::string out = fmt::format("{} ring{} of {} ranks carr{} {:.6g} GB/s together, one direction\n", rings.size(),
                                rings.size() == 1 ? "" : "s", device_of_rank.size(), rings.size() == 1 ? "ies" : "y", report.rate);
  if (report.bound > 0 && report.rate >= report.bound * (1 - 1e-6)) {
    out += "  no rings carry more on these wires\n";
  } else if (report.bound > 0) {
    out += fmt::format("  {:.1f} % of {:.6g} GB/s, {}\n", 100 * report.rate / report.bound, report.bound,
                       report.is_bound_met ? "which more rings of other shares would carry" : "which no rings exceed");
  }
  out += "\nRings\n";
  for (std::size_t i = 0; i < rings.size(); ++i) {
    std::vector<std::string> ids;
    for (const std::int32_t rank : rings[i]) ids.push_back(cluster.id_of(device_of_rank[static_cast<std::size_t>(rank)]));
    if (ids.size() > 80) {
      const std::size_t left_out = ids.size() - 72;
      ids.erase(ids.begin() + 64, ids.end() - 8);
      ids.insert(ids.begin() + 64, fmt::format("... {} more ...", left_out));
    }
    const std::string share = report.set.shares.empty() ? "" : fmt::format("{:>3}/{}", report.set.share(i), report.set.all_shares());
    out += fmt::format("  {:>2}{}  {}\n", i, share, fmt::join(ids, " "));
  }
  return out + describe_rails(resources, device_of_rank) + describe_loads(report.loads);
}

std::string rings_json(const topology::Resources& resources, std::span<const int> device_of_rank, const RingReport& report) {
  nlohmann::ordered_json rings = nlohmann::ordered_json::array(), shares = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < report.set.rings.size(); ++k) {
    nlohmann::ordered_json ids = nlohmann::ordered_json::array();
    for (const std::int32_t rank : report.set.rings[k])
      ids.push_back(resources.cluster().id_of(device_of_rank[static_cast<std::size_t>(rank)]));
    rings.push_back(std::move(ids));
    shares.push_back(report.set.share(k));
  }
  nlohmann::ordered_json tree = {{"rings", std::move(rings)}, {"shares", std::move(shares)}, {"GBps", report.rate}};
  tree["bound_GBps"] = report.bound > 0 ? nlohmann::ordered_json(report.bound) : nlohmann::ordered_json();
  tree["is_bound_met"] = report.bound > 0 ? nlohmann::ordered_json(report.is_bound_met) : nlohmann::ordered_json();
  tree["rails"] = nlohmann::ordered_json::parse(rails_json(resources, device_of_rank));
  tree["wires"] = nlohmann::ordered_json::parse(loads_json(report.loads));
  return tree.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace peal::tuning
