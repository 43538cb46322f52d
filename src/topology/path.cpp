// Search in classes from near to far; inside a class first the widest bottleneck (a maximin Dijkstra), then fewest hops among the paths
// that reach it, then the lowest device index at each step.
#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <topology/path.hpp>
#include <tuple>

namespace peal::topology {
namespace {

constexpr std::uint32_t bit(LinkKind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr std::uint32_t bit(DeviceKind kind) { return 1u << static_cast<unsigned>(kind); }

constexpr std::uint32_t kGpuLinks = bit(LinkKind::nvlink) | bit(LinkKind::c2c) | bit(LinkKind::xgmi) | bit(LinkKind::hccs);
constexpr std::uint32_t kMemoryLinks = bit(LinkKind::shm) | bit(LinkKind::memory);
constexpr std::uint32_t kNetworkLinks = bit(LinkKind::infiniband) | bit(LinkKind::ethernet);
constexpr std::uint32_t kInsideLinks = kGpuLinks | kMemoryLinks | bit(LinkKind::pcie) | bit(LinkKind::sys);
constexpr std::uint32_t kSwitches = bit(DeviceKind::nvswitch) | bit(DeviceKind::pcie_switch);
constexpr std::uint32_t kHostRelays = bit(DeviceKind::cpu) | bit(DeviceKind::package) | bit(DeviceKind::memory);

}  // namespace

std::string_view name_of(PathClass c) noexcept {
  switch (c) {
    case PathClass::self: return "X";
    case PathClass::nvl: return "NVL";
    case PathClass::shm: return "SHM";
    case PathClass::pix: return "PIX";
    case PathClass::pxb: return "PXB";
    case PathClass::phb: return "PHB";
    case PathClass::node: return "NODE";
    case PathClass::sys: return "SYS";
    case PathClass::loopback: return "LO";
    case PathClass::net: return "NET";
    case PathClass::none: return "NONE";
  }
  return "NONE";
}

std::vector<DirectedLink> Path::links() const {
  std::vector<DirectedLink> all;
  for (const Hop& hop : hops) all.insert(all.end(), hop.links.begin(), hop.links.end());
  return all;
}

/// Which links a class of paths uses and which devices may stand in the middle.
struct PathFinder::Filter {
  std::uint32_t links = 0;
  std::uint32_t relays = 0;
  bool allows(LinkKind kind) const { return (links & bit(kind)) != 0; }
  bool relays_through(DeviceKind kind) const { return (relays & bit(kind)) != 0; }
};

PathFinder::PathFinder(const Graph& graph) : graph_(graph) {
  const int n = graph.device_count();
  place_.resize(static_cast<std::size_t>(n));
  // NVSwitches of one machine are one place. Those between machines (node -1) are one where they join the same machines.
  std::map<std::pair<int, int>, int> first_nvswitch;
  for (const bool is_between : {false, true}) {
    for (int d = 0; d < n; ++d) {
      const Device& device = graph.device(d);
      if ((device.node < 0) != is_between) continue;
      int nearest = -1;
      if (device.kind == DeviceKind::nvswitch && is_between) {
        for (int l : graph.links_of(d)) {
          const int other = place_[static_cast<std::size_t>(graph.other_end(l, d))];
          nearest = nearest < 0 ? other : std::min(nearest, other);
        }
      }
      place_[static_cast<std::size_t>(d)] =
          device.kind == DeviceKind::nvswitch ? first_nvswitch.emplace(std::pair{device.node, nearest}, d).first->second : d;
    }
  }
  edges_.resize(static_cast<std::size_t>(n));
  std::vector<std::map<std::pair<int, LinkKind>, std::size_t>> seen(static_cast<std::size_t>(n));
  const auto add = [&](int from, int to, int index, bool forward) {
    const Link& link = graph.link(index);
    auto& row = edges_[static_cast<std::size_t>(from)];
    const auto [it, is_new] = seen[static_cast<std::size_t>(from)].emplace(std::pair{to, link.kind}, row.size());
    if (is_new) row.push_back({to, link.kind, 0, 0, link.latency.value, 0, {}});
    Edge& edge = row[it->second];
    edge.line += link.total().value;
    edge.usable += link.usable_total().value;
    edge.latency = std::max(edge.latency, link.latency.value);
    edge.wires += link.count;
    edge.links.push_back({index, forward});
  };
  for (int l = 0; l < graph.link_count(); ++l) {
    const int a = place_of(graph.link(l).a);
    const int b = place_of(graph.link(l).b);
    if (a == b) continue;
    add(a, b, l, true);
    add(b, a, l, false);
  }
  for (auto& row : edges_)
    std::sort(row.begin(), row.end(), [](const Edge& x, const Edge& y) { return std::tie(x.to, x.kind) < std::tie(y.to, y.kind); });
}

const Path& PathFinder::path(int from, int to, Via via) const {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(via) << 62) | (static_cast<std::uint64_t>(from) << 31) | static_cast<std::uint64_t>(to);
  const std::lock_guard lock(mutex_);
  const auto it = cache_.find(key);
  if (it != cache_.end()) return it->second;
  return cache_.emplace(key, search(from, to, via)).first->second;
}

Path PathFinder::search(int from, int to, Via via) const {
  Path self;
  self.path_class = PathClass::self;
  self.line = self.bottleneck = {std::numeric_limits<double>::infinity()};
  if (from == to && via != Via::socket) return self;
  from = place_of(from);
  to = place_of(to);
  if (from == to && via != Via::socket) return self;

  constexpr std::uint32_t kNetRelays = kSwitches | kHostRelays | bit(DeviceKind::nic) | bit(DeviceKind::net_switch);
  static constexpr Filter kAny[] = {{kGpuLinks, bit(DeviceKind::nvswitch)},
                                    {kMemoryLinks | bit(LinkKind::sys), kHostRelays},
                                    {bit(LinkKind::pcie), bit(DeviceKind::pcie_switch)},
                                    {kInsideLinks, kSwitches | kHostRelays},
                                    {kInsideLinks | kNetworkLinks, kNetRelays}};
  static constexpr Filter kShared[] = {{kMemoryLinks | bit(LinkKind::sys), kHostRelays}};
  static constexpr Filter kSocket[] = {{bit(LinkKind::loopback), bit(DeviceKind::loopback)}, {kInsideLinks | kNetworkLinks, kNetRelays}};
  std::span<const Filter> phases = kAny;
  if (via == Via::shared_memory) phases = kShared;
  if (via == Via::socket) phases = kSocket;
  // Inside one machine sockets mean the loopback, never a way around through NICs.
  if (via == Via::socket && graph_.device(from).node == graph_.device(to).node) phases = phases.first(1);

  std::vector<const Edge*> edges;
  if (from == to) {
    // A device to itself over its own network stack: out to the loopback and back.
    for (const Edge& out : edges_[static_cast<std::size_t>(from)]) {
      if (out.kind != LinkKind::loopback) continue;
      for (const Edge& back : edges_[static_cast<std::size_t>(out.to)])
        if (back.to == from && back.kind == LinkKind::loopback) return assemble(from, {&out, &back});
    }
    return self;
  }
  // The search runs from the lower index, so that the way back is the way there, reversed.
  const bool is_swapped = from > to;
  for (const Filter& filter : phases) {
    if (!widest_shortest(std::min(from, to), std::max(from, to), filter, edges)) continue;
    if (is_swapped) {
      std::vector<const Edge*> back;
      int at = to;
      for (const Edge* e : edges) {
        const auto& row = edges_[static_cast<std::size_t>(e->to)];
        back.push_back(&*std::find_if(row.begin(), row.end(), [&](const Edge& r) { return r.to == at && r.kind == e->kind; }));
        at = e->to;
      }
      std::reverse(back.begin(), back.end());
      edges = std::move(back);
    }
    return assemble(from, edges);
  }
  return {};
}

bool PathFinder::can_relay(int device, const Filter& filter) const { return filter.relays_through(graph_.device(device).kind); }

bool PathFinder::widest_shortest(int from, int to, const Filter& filter, std::vector<const Edge*>& out) const {
  const std::size_t n = edges_.size();
  std::vector<double> width(n, 0);
  width[static_cast<std::size_t>(from)] = std::numeric_limits<double>::infinity();
  std::priority_queue<std::pair<double, int>> open;
  open.emplace(width[static_cast<std::size_t>(from)], from);
  while (!open.empty()) {
    const auto [w, at] = open.top();
    open.pop();
    if (w < width[static_cast<std::size_t>(at)] || (at != from && !can_relay(at, filter))) continue;
    for (const Edge& e : edges_[static_cast<std::size_t>(at)]) {
      const double through = std::min(w, e.usable);
      if (!filter.allows(e.kind) || through <= width[static_cast<std::size_t>(e.to)]) continue;
      width[static_cast<std::size_t>(e.to)] = through;
      open.emplace(through, e.to);
    }
  }
  const double widest = width[static_cast<std::size_t>(to)];
  if (widest <= 0) return false;

  std::vector<const Edge*> came(n, nullptr);
  std::vector<int> parent(n, -1);
  std::vector<int> ring = {from};
  parent[static_cast<std::size_t>(from)] = from;
  while (!ring.empty() && parent[static_cast<std::size_t>(to)] < 0) {
    std::sort(ring.begin(), ring.end());
    std::vector<int> next;
    for (int at : ring) {
      if (at != from && !can_relay(at, filter)) continue;
      for (const Edge& e : edges_[static_cast<std::size_t>(at)]) {
        if (!filter.allows(e.kind) || e.usable < widest || parent[static_cast<std::size_t>(e.to)] >= 0) continue;
        parent[static_cast<std::size_t>(e.to)] = at;
        came[static_cast<std::size_t>(e.to)] = &e;
        next.push_back(e.to);
      }
    }
    ring = std::move(next);
  }
  out.clear();
  for (int at = to; at != from; at = parent[static_cast<std::size_t>(at)]) out.push_back(came[static_cast<std::size_t>(at)]);
  std::reverse(out.begin(), out.end());
  return true;
}

Path PathFinder::assemble(int from, const std::vector<const Edge*>& edges) const {
  Path path;
  path.line = path.bottleneck = {std::numeric_limits<double>::infinity()};
  int at = from;
  for (const Edge* e : edges) {
    path.hops.push_back({at, e->to, e->links});
    path.line.value = std::min(path.line.value, e->line);
    path.bottleneck.value = std::min(path.bottleneck.value, e->usable);
    path.latency.value += e->latency;
    if (e->kind == LinkKind::nvlink) path.wires = path.wires == 0 ? e->wires : std::min(path.wires, e->wires);
    at = e->to;
  }
  path.path_class = classify(from, edges);
  // The link that makes the class is the one of the farthest kind; LinkKind runs from near to far.
  const Edge* farthest = *std::max_element(edges.begin(), edges.end(), [](const Edge* x, const Edge* y) { return x->kind < y->kind; });
  const bool is_memory = path.path_class == PathClass::shm;
  path.scope = is_memory ? std::string_view("shm") : std::string_view(graph_.link(farthest->links.front().link).scope);
  return path;
}

PathClass PathFinder::classify(int from, const std::vector<const Edge*>& edges) const {
  std::uint32_t kinds = 0;
  for (const Edge* e : edges) kinds |= bit(e->kind);
  if ((kinds & kNetworkLinks) != 0) return PathClass::net;
  if ((kinds & bit(LinkKind::loopback)) != 0) return PathClass::loopback;
  if ((kinds & ~kGpuLinks) == 0) return PathClass::nvl;
  if ((kinds & ~(kMemoryLinks | bit(LinkKind::sys))) == 0 && (kinds & kMemoryLinks) != 0) return PathClass::shm;
  if ((kinds & bit(LinkKind::sys)) != 0) return PathClass::sys;

  int switches = 0;
  bool has_bridge = false;
  bool is_same_bridge = true;
  int at = from;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    at = edges[i]->to;
    const DeviceKind kind = graph_.device(at).kind;
    switches += kind == DeviceKind::pcie_switch ? 1 : 0;
    if (kind != DeviceKind::cpu) continue;
    has_bridge = true;
    const Link& in = graph_.link(edges[i]->links.front().link);
    const Link& out = graph_.link(edges[i + 1]->links.front().link);
    // From memory into PCIe is one host bridge; from PCIe into PCIe it is one only where the data says so.
    if (in.kind != LinkKind::pcie || out.kind != LinkKind::pcie) continue;
    is_same_bridge = is_same_bridge && in.host_bridge >= 0 && in.host_bridge == out.host_bridge;
  }
  // A CPU at an end of the path is reached through its own host bridge.
  if (has_bridge) return is_same_bridge ? PathClass::phb : PathClass::node;
  const auto is_cpu = [&](int d) { return graph_.device(d).kind == DeviceKind::cpu; };
  if (is_cpu(from) || is_cpu(edges.back()->to)) return PathClass::phb;
  return switches > 1 ? PathClass::pxb : PathClass::pix;
}

}  // namespace peal::topology
