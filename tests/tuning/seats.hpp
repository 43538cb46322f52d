// Ranks on machines: what the tests of tuning look at.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <topology/machine.hpp>
#include <tuning/placement.hpp>
#include <tuning/select.hpp>
#include <utility>
#include <vector>

namespace peal::tuning {

struct Seat {
  std::unique_ptr<topology::Resources> resources;
  Environment environment;
};

inline Seat seat_on(Result<topology::Cluster> cluster, int ranks, const EnvironmentOptions& options) {
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  Seat seat;
  const std::vector<int> devices = spread(*cluster, ranks);
  seat.resources = std::make_unique<topology::Resources>(std::move(*cluster));
  auto environment = environment_of(*seat.resources, devices, options);
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  seat.environment = std::move(*environment);
  return seat;
}

inline Seat gpus(const char* machine, int nodes, int ranks, const EnvironmentOptions& options = {}) {
  return seat_on(topology::build_cluster(machine, nodes), ranks, options);
}

inline Seat dgx(int nodes, int ranks, const EnvironmentOptions& options = {}) { return gpus("dgx-h100", nodes, ranks, options); }

inline Seat host(int cores, int ranks, const EnvironmentOptions& options = {}) {
  return seat_on(
      topology::read_cluster_text(fmt::format("devices:\n  - {{id: \"core[0-{0}]\", kind: core}}\n  - {{id: mem0, kind: memory}}\n"
                                              "links:\n  - {{a: \"core[0-{0}]\", b: mem0, kind: shm, GBps: 100, latency_ns: 30}}\n",
                                              cores - 1),
                                  "test host"),
      ranks, options);
}

/// A host whose ranks talk over loopback.
inline Seat host_over_loopback(int cores, int ranks) {
  EnvironmentOptions options;
  options.wires = Wires::socket;
  return seat_on(
      topology::read_cluster_text(
          fmt::format("devices:\n  - {{id: \"core[0-{0}]\", kind: core}}\n  - {{id: lo, kind: loopback}}\n"
                      "links:\n  - {{a: \"core[0-{0}]\", b: lo, kind: loopback, GBps: 20, latency_ns: 90, scope: \"tcp-loopback\"}}\n",
                      cores - 1),
          "test host"),
      ranks, options);
}

/// Hosts of `each` ranks, joined by sockets.
inline Environment several_hosts(int count, int each) {
  Environment environment = host(count * each, count * each).environment;
  environment.nodes = count;
  environment.placement.group.clear();
  for (int r = 0; r < count * each; ++r) environment.placement.group.push_back(r / each);
  environment.level[0].is_used = each > 1;
  environment.level[1] = {true, "tcp", topology::PathClass::net, {0}, Bandwidth::gigabytes(1.25), each};
  std::erase_if(environment.offers, [](const Offer& o) { return o.protocol != schedule::Protocol::staged; });
  environment.offers.at(0).constants[1] = *topology::constants_for("tcp", "staged");
  return environment;
}

/// Hosts of one rank, joined by their NICs.
inline Environment hosts_with_nics(int count, const EnvironmentOptions& options = {}) {
  auto machine = topology::read_cluster_text(
      "devices:\n  - {id: core0, kind: core}\n  - {id: mem0, kind: memory}\n  - {id: cpu0, kind: cpu}\n"
      "  - {id: nic0, kind: nic, rail: 0, port: {kind: ethernet, GBps: 1.25}}\n"
      "links:\n  - {a: core0, b: mem0, kind: shm, GBps: 100, latency_ns: 30}\n  - {a: cpu0, b: core0, kind: shm, GBps: 100}\n"
      "  - {a: nic0, b: cpu0, kind: pcie, GBps: 10}\n",
      "test host with a NIC");
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().message);
  return seat_on(topology::build_cluster(topology::Graph(machine->machine()), count), count, options).environment;
}

/// The same, which are containers of one machine of two cores.
inline Environment containers(int count) {
  EnvironmentOptions options;
  options.is_one_machine = true;
  for (int r = 0; r < count; ++r) options.core_of.push_back(r % 2);
  return hosts_with_nics(count, options);
}

inline Question ask(std::uint64_t bytes) {
  Question q;
  q.call.bytes = {bytes};
  return q;
}

}  // namespace peal::tuning
