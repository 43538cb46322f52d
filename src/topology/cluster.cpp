#include <fmt/format.h>
#include <topology/cluster.hpp>

namespace peal::topology {
namespace {

class IdealFabric final : public Fabric {
 public:
  explicit IdealFabric(IdealFabricSpec spec) : spec_(std::move(spec)) {}

  std::string_view name() const override { return "ideal"; }
  bool treats_nodes_alike() const override { return true; }
  std::size_t resource_count() const override { return 0; }  // nothing inside can ever be the bottleneck
  std::string resource_name(std::size_t) const override { return {}; }
  Bandwidth resource_capacity(std::size_t) const override { return {}; }

  Nanoseconds route(FabricPort from, FabricPort to, std::vector<std::uint32_t>&) const override {
    const bool is_one_rail = rail(from.port) == rail(to.port);
    return (is_one_rail ? 1.0 : 3.0) * spec_.switch_latency;  // rail switch; or rail, spine, rail
  }

  Status draw(Graph& graph, const std::vector<std::vector<int>>& ports) const override {
    std::vector<int> switches;
    for (int r : spec_.rails) {
      while (static_cast<int>(switches.size()) <= r) {
        Device device{.id = fmt::format("fabric/rail{}", switches.size()),
                      .kind = DeviceKind::net_switch,
                      .name = "ideal switch",
                      .node = -1,
                      .source = spec_.source};
        PEAL_ASSIGN(const int index, graph.add_device(std::move(device)));
        switches.push_back(index);
      }
    }
    for (const auto& node : ports) {
      for (std::size_t p = 0; p < node.size() && p < spec_.ports.size(); ++p) {
        PEAL_TRY(graph.add_link(wire(node[p], switches[static_cast<std::size_t>(spec_.rails[p])], spec_.ports[p], 1)));
      }
    }
    if (switches.size() < 2) return {};
    PEAL_ASSIGN(const int spine,
                graph.add_device(
                    {.id = "fabric/spine", .kind = DeviceKind::net_switch, .name = "ideal spine", .node = -1, .source = spec_.source}));
    for (std::size_t p = 0; p < spec_.ports.size(); ++p) {
      PEAL_TRY(
          graph.add_link(wire(switches[static_cast<std::size_t>(spec_.rails[p])], spine, spec_.ports[p], static_cast<int>(ports.size()))));
    }
    return {};
  }

  std::unique_ptr<Fabric> clone() const override { return std::make_unique<IdealFabric>(spec_); }

 private:
  int rail(int port) const { return spec_.rails[static_cast<std::size_t>(port)]; }

  Link wire(int a, int b, const Port& port, int count) const {
    // A path through the drawing costs what route() says: NIC and half of the switch on every wire that ends at one.
    Link link{.a = a, .b = b, .kind = port.kind, .bandwidth = port.bandwidth, .usable = port.usable, .count = count};
    link.latency = count == 1 ? port.latency + 0.5 * spec_.switch_latency : spec_.switch_latency;
    link.scope = port.scope;
    link.source = port.source;
    link.usable_source = port.source;
    return link;
  }

  IdealFabricSpec spec_;
};

}  // namespace

std::unique_ptr<Fabric> make_ideal_fabric(IdealFabricSpec spec) { return std::make_unique<IdealFabric>(std::move(spec)); }

Cluster::Cluster(Graph graph) : machine_(std::move(graph)), compute_(machine_.compute_devices()) {}

Cluster::Cluster(Graph machine, int nodes, std::unique_ptr<Fabric> fabric)
    : machine_(std::move(machine)), copies_(nodes), fabric_(std::move(fabric)), compute_(machine_.compute_devices()) {}

Cluster::Cluster(const Cluster& other)
    : machine_(other.machine_),
      copies_(other.copies_),
      fabric_(other.fabric_ ? other.fabric_->clone() : nullptr),
      compute_(other.compute_) {}

Cluster& Cluster::operator=(const Cluster& other) {
  if (this != &other) *this = Cluster(other);
  return *this;
}

int Cluster::nodes() const { return copies_ * machine_.node_count(); }

int Cluster::ranks_per_node() const {
  int count = 0;
  for (int d : compute_) count += machine_.device(d).node == 0 ? 1 : 0;
  return count;
}

int Cluster::device_of_rank(int rank) const {
  const int per_copy = static_cast<int>(compute_.size());
  return rank / per_copy * machine_.device_count() + compute_[static_cast<std::size_t>(rank % per_copy)];
}

int Cluster::node_of(int index) const { return copy_of(index) * machine_.node_count() + device(index).node; }

std::string Cluster::id_of(int index) const {
  const std::string& id = device(index).id;
  return copies_ == 1 ? id : fmt::format("n{}/{}", copy_of(index), id);
}

Result<Graph> Cluster::graph(int max_devices) const {
  if (copies_ == 1 && !fabric_) return machine_;
  const long long total = static_cast<long long>(copies_) * machine_.device_count();
  if (total > max_devices) {
    return fail(ErrorCode::unsupported,
                "{} nodes have {} devices, more than the {} that are spelled out one by one: ask for fewer nodes (`--nodes`)", copies_,
                total, max_devices);
  }
  Graph all;
  all.title = fmt::format("{} x {}{}", copies_, machine_.title, fabric_ ? fmt::format(", {}", fabric_->name()) : "");
  all.rank_kind = machine_.rank_kind;
  std::vector<std::vector<int>> ports(static_cast<std::size_t>(copies_));
  for (int n = 0; n < copies_; ++n) {
    for (Device d : machine_.devices()) {
      d.id = fmt::format("n{}/{}", n, d.id);
      if (d.node >= 0) d.node += n * machine_.node_count();
      const bool is_port = d.kind == DeviceKind::nic && d.rail >= 0 && d.port;
      PEAL_ASSIGN(const int index, all.add_device(std::move(d)));
      if (is_port) ports[static_cast<std::size_t>(n)].push_back(index);
    }
    for (Link l : machine_.links()) {
      l.a += n * machine_.device_count();
      l.b += n * machine_.device_count();
      PEAL_TRY(all.add_link(std::move(l)));
    }
  }
  for (const std::string& w : machine_.warnings()) all.add_warning(w);
  if (fabric_) PEAL_TRY(fabric_->draw(all, ports));
  return all;
}

}  // namespace peal::topology
