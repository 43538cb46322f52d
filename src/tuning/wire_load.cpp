#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuning/wire_load.hpp>

namespace peal::tuning {

namespace {
constexpr std::size_t kShownWires = 8;
}

Status WireLoads::add(std::int32_t from, std::int32_t to, double amount) {
  const int a = device_of_rank_[static_cast<std::size_t>(from)], b = device_of_rank_[static_cast<std::size_t>(to)];
  resources_.route(a, b, topology::Via::any, route_);
  if (!route_.exists()) {
    return fail(ErrorCode::unreachable, "{} and {} have no way to each other: look at the links with `peal topo --links`",
                resources_.cluster().id_of(a), resources_.cluster().id_of(b));
  }
  for (const topology::ResourceId id : route_.resources) {
    if (resources_.is_both_ways(id)) continue;
    Load& load = loads_[id];
    ++load.crossings;
    load.amount += amount;
  }
  return {};
}

double WireLoads::room() const {
  double room = 0;
  for (const auto& [id, load] : loads_) {
    const double capacity = resources_.capacity(id).gigabytes();
    if (capacity > 0 && load.amount > 0 && (room == 0 || capacity / load.amount < room)) room = capacity / load.amount;
  }
  return room;
}

std::vector<WireLoad> WireLoads::list(double rate) const {
  std::vector<WireLoad> list;
  for (const auto& [id, load] : loads_) {
    const double capacity = resources_.capacity(id).gigabytes();
    if (capacity > 0) list.push_back({resources_.name(id), load.crossings, load.amount * rate, capacity});
  }
  std::stable_sort(list.begin(), list.end(), [](const WireLoad& a, const WireLoad& b) { return a.share() > b.share() + 1e-9; });
  return list;
}

std::string describe_loads(const std::vector<WireLoad>& loads) {
  std::string out = "\nFullest wires\n";
  for (std::size_t i = 0; i < std::min(kShownWires, loads.size()); ++i) {
    const WireLoad& load = loads[i];
    out += fmt::format("  {:>5.1f} %  {:.6g} of {:.6g} GB/s by {} crossing{}  {}\n", 100 * load.share(), load.carried, load.capacity,
                       load.crossings, load.crossings == 1 ? "" : "s", load.wire);
  }
  return out;
}

std::string loads_json(const std::vector<WireLoad>& loads) {
  nlohmann::ordered_json wires = nlohmann::ordered_json::array();
  for (const WireLoad& load : loads)
    wires.push_back({{"wire", load.wire},
                     {"crossings", load.crossings},
                     {"GBps", load.carried},
                     {"capacity_GBps", load.capacity},
                     {"share", load.share()}});
  return wires.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace peal::tuning
