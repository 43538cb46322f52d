// What every test of a fabric needs: a small machine, counts over the drawing, and a walk over its links.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <topology/fabrics.hpp>
#include <topology/machine.hpp>
#include <topology/resources.hpp>

namespace peal::topology {

/// A machine with one GPU and `nics` NICs of 50 GB/s, NIC i on rail i.
inline Graph box(int nics) {
  const std::string text = "devices:\n  - {id: gpu0, kind: gpu}\n  - {id: \"nic[0-" + std::to_string(nics - 1) +
                           "]\", kind: nic, rail: 0, port: {kind: infiniband, GBps: 50, usable_GBps: 48}}\n"
                           "links:\n  - {a: gpu0, b: \"nic[0-" +
                           std::to_string(nics - 1) + "]\", kind: pcie, GBps: 64}\n";
  auto cluster = read_cluster_text(text, "box.yaml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return cluster->machine();
}

inline Cluster boxes(int nodes, int nics, const std::string& fabric) {
  auto cluster = build_cluster(box(nics), nodes, fabric);
  EXPECT_TRUE(cluster) << fabric << ": " << cluster.error().message;
  return cluster ? std::move(*cluster) : *build_cluster(box(nics), nodes);
}

struct Counts {
  std::map<std::string, int> switches;  ///< by the letters of the last part of the id: "leaf"
  std::map<std::string, int> cables;    ///< by ends: "leaf-spine"
};

inline std::string word_of(const std::string& id) {
  std::string last = id.substr(id.rfind('/') + 1);
  last.erase(last.find_last_not_of("0123456789") + 1);
  return last;
}

inline bool is_switch(const std::string& id) { return id.starts_with("fabric/"); }

inline Counts count(const Graph& graph) {
  Counts counts;
  for (const Device& d : graph.devices())
    if (is_switch(d.id)) ++counts.switches[word_of(d.id)];
  for (const Link& l : graph.links()) {
    const std::string& a = graph.device(l.a).id;
    const std::string& b = graph.device(l.b).id;
    if (is_switch(a) && is_switch(b)) counts.cables[word_of(a) + "-" + word_of(b)] += l.count;
  }
  return counts;
}

/// Ports that the switches of one word use at most.
inline int most_ports(const Graph& graph, const std::string& word) {
  int most = 0;
  for (int d = 0; d < graph.device_count(); ++d) {
    if (!is_switch(graph.device(d).id) || word_of(graph.device(d).id) != word) continue;
    int ports = 0;
    for (int l : graph.links_of(d)) ports += graph.link(l).count;
    most = std::max(most, ports);
  }
  return most;
}

/// Every pair of ports of different nodes: the route's resources are cables of the drawing, joined end to end from the switch of the one
/// NIC to that of the other, no switch twice, none without capacity, and its latency is that of the drawn wires.
inline void expect_routes_follow_the_drawing(const Cluster& cluster) {
  const auto drawn = cluster.graph();
  ASSERT_TRUE(drawn) << drawn.error().message;
  const Graph& graph = *drawn;
  const Fabric& fabric = *cluster.fabric();
  std::vector<std::vector<int>> nics(static_cast<std::size_t>(cluster.copies()));  // by node and port: device
  for (int d = 0; d < graph.device_count(); ++d)
    if (graph.device(d).kind == DeviceKind::nic && graph.device(d).rail >= 0)
      nics[static_cast<std::size_t>(graph.device(d).node)].push_back(d);
  for (int s = 0; s < fabric.storage_nodes(); ++s) {
    nics.emplace_back();
    for (int p = 0; graph.find("storage" + std::to_string(s) + "/nic" + std::to_string(p)) >= 0; ++p)
      nics.back().push_back(graph.find("storage" + std::to_string(s) + "/nic" + std::to_string(p)));
  }
  const auto link_between = [&](int a, int b) {
    for (int l : graph.links_of(a))
      if (graph.other_end(l, a) == b) return l;
    return -1;
  };
  const auto edge_of = [&](int nic) {
    for (int l : graph.links_of(nic))
      if (is_switch(graph.device(graph.other_end(l, nic)).id)) return l;
    return -1;
  };
  std::map<std::pair<int, int>, std::set<std::string>> cables;
  std::vector<std::uint32_t> resources;
  for (int a = 0; a < static_cast<int>(nics.size()); ++a) {
    for (int b = 0; b < static_cast<int>(nics.size()); ++b) {
      if (a == b) continue;
      for (int p = 0; p < static_cast<int>(nics[static_cast<std::size_t>(a)].size()); ++p) {
        for (int q = 0; q < static_cast<int>(nics[static_cast<std::size_t>(b)].size()); ++q) {
          const int from = nics[static_cast<std::size_t>(a)][static_cast<std::size_t>(p)];
          const int to = nics[static_cast<std::size_t>(b)][static_cast<std::size_t>(q)];
          ASSERT_GE(edge_of(from), 0);
          ASSERT_GE(edge_of(to), 0);
          resources.clear();
          double latency = fabric.route({a, p}, {b, q}, resources).value;
          int at = graph.other_end(edge_of(from), from);
          double drawn_latency = graph.link(edge_of(from)).latency.value + graph.link(edge_of(to)).latency.value;
          std::set<int> seen = {at};
          for (const std::uint32_t r : resources) {
            ASSERT_LT(r, fabric.resource_count());
            ASSERT_GT(fabric.resource_capacity(r).value, 0);
            const std::string name = fabric.resource_name(r);
            if (name.starts_with("storage")) continue;
            const std::size_t arrow = name.find(" > ");
            const std::size_t bracket = name.find(" (");
            ASSERT_EQ(graph.find(name.substr(0, arrow)), at) << name << " does not begin where the route is";
            const int next = graph.find(name.substr(arrow + 3, bracket - arrow - 3));
            ASSERT_GE(next, 0) << name;
            const int link = link_between(at, next);
            ASSERT_GE(link, 0) << name << " is not drawn";
            ASSERT_TRUE(seen.insert(next).second) << "a loop at " << name;
            cables[{std::min(at, next), std::max(at, next)}].insert(name.substr(bracket));
            drawn_latency += graph.link(link).latency.value;
            at = next;
          }
          ASSERT_EQ(at, graph.other_end(edge_of(to), to)) << "the route ends elsewhere";
          ASSERT_NEAR(latency, drawn_latency, 1e-6);
        }
      }
    }
  }
  for (const auto& [pair, names] : cables)
    ASSERT_LE(static_cast<int>(names.size()), graph.link(link_between(pair.first, pair.second)).count) << "more cables than are drawn";
}

/// Most traffic that the NICs of the first half of the nodes can send to those of the other half, GB/s: a maximum flow over the drawing by
/// its usable rates (augmenting paths, breadth first).
inline double bisection(const Cluster& cluster) {
  const auto drawn = cluster.graph();
  EXPECT_TRUE(drawn) << drawn.error().message;
  const Graph& graph = *drawn;
  const int source = graph.device_count();
  const int sink = source + 1;
  std::vector<std::map<int, double>> left(static_cast<std::size_t>(sink) + 1);
  const auto room = [&](int a, int b) -> double& { return left[static_cast<std::size_t>(a)][b]; };
  for (const Link& l : graph.links()) {
    if (!is_network(l.kind)) continue;
    room(l.a, l.b) += l.usable_total().gigabytes();
    room(l.b, l.a) += l.usable_total().gigabytes();
  }
  for (int d = 0; d < graph.device_count(); ++d) {
    if (graph.device(d).kind != DeviceKind::nic) continue;
    const bool is_first = graph.device(d).node < cluster.copies() / 2;
    room(is_first ? source : d, is_first ? d : sink) = 1e9;
  }
  double flow = 0;
  for (;;) {
    std::vector<int> from(static_cast<std::size_t>(sink) + 1, -1);
    std::queue<int> open;
    open.push(source);
    from[static_cast<std::size_t>(source)] = source;
    while (!open.empty() && from[static_cast<std::size_t>(sink)] < 0) {
      const int at = open.front();
      open.pop();
      for (const auto& [to, rest] : left[static_cast<std::size_t>(at)]) {
        if (rest < 1e-6 || from[static_cast<std::size_t>(to)] >= 0) continue;
        from[static_cast<std::size_t>(to)] = at;
        open.push(to);
      }
    }
    if (from[static_cast<std::size_t>(sink)] < 0) return flow;
    double push = std::numeric_limits<double>::infinity();
    for (int at = sink; at != source; at = from[static_cast<std::size_t>(at)])
      push = std::min(push, room(from[static_cast<std::size_t>(at)], at));
    for (int at = sink; at != source; at = from[static_cast<std::size_t>(at)]) {
      room(from[static_cast<std::size_t>(at)], at) -= push;
      room(at, from[static_cast<std::size_t>(at)]) += push;
    }
    flow += push;
  }
}

}  // namespace peal::topology
