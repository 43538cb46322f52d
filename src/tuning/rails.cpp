#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuning/rails.hpp>

namespace peal::tuning {

namespace {

std::string id_of(const topology::Resources& resources, int nic) { return resources.paths().graph().device(nic).id; }

}  // namespace

std::vector<Rail> rails_of(const topology::Resources& resources, std::span<const int> device_of_rank) {
  const topology::Cluster& cluster = resources.cluster();
  std::vector<Rail> rails;
  for (const int device : device_of_rank) {
    if (cluster.node_of(device) != cluster.node_of(device_of_rank.front())) continue;
    const int local = device % cluster.machine().device_count();
    const int nic = resources.nic_of(local);
    if (nic < 0) continue;
    const topology::Path& path = resources.paths().path(local, nic);
    if (path.exists()) rails.push_back({device, nic, path.path_class, path.bottleneck});
  }
  return rails;
}

std::string describe_rails(const topology::Resources& resources, std::span<const int> device_of_rank) {
  std::vector<Rail> rails = rails_of(resources, device_of_rank);
  if (rails.empty()) return {};
  std::stable_sort(rails.begin(), rails.end(), [](const Rail& a, const Rail& b) { return a.nic < b.nic; });
  std::string out = "\nRails\n";
  for (std::size_t i = 0; i < rails.size();) {
    std::vector<std::string> users;
    const int nic = rails[i].nic;
    for (; i < rails.size() && rails[i].nic == nic; ++i)
      users.push_back(fmt::format("{} ({}, {:.6g} GB/s)", resources.cluster().id_of(rails[i].device), name_of(rails[i].path_class),
                                  rails[i].rate.gigabytes()));
    out += fmt::format("  {}: {}\n", id_of(resources, nic), fmt::join(users, ", "));
  }
  return out;
}

std::string rails_json(const topology::Resources& resources, std::span<const int> device_of_rank) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Rail& rail : rails_of(resources, device_of_rank))
    list.push_back({{"device", resources.cluster().id_of(rail.device)},
                    {"nic", id_of(resources, rail.nic)},
                    {"class", name_of(rail.path_class)},
                    {"GBps", rail.rate.gigabytes()}});
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace peal::tuning
