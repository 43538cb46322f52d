// Machines on which nothing is congested, and the plans that the selector may make for them.
#pragma once

#include <gtest/gtest.h>

#include <base/names.hpp>
#include <functional>
#include <sim/simulate.hpp>
#include <string>
#include <topology/machine.hpp>

namespace peal::agreement {

/// A host with `cores` cores before one memory that is never the limit; a rank a core, or `ranks` that share them.
inline sim::Scene host_scene(int cores, tuning::Wires wires = tuning::Wires::shared_memory, int ranks = 0) {
  const std::string text = fmt::format(
      "devices:\n  - {{id: \"core[0-{0}]\", kind: core}}\n  - {{id: mem0, kind: memory}}\n  - {{id: lo0, kind: loopback}}\n"
      "links:\n  - {{a: \"core[0-{0}]\", b: mem0, kind: shm, GBps: 1000, latency_ns: 30}}\n"
      "  - {{a: \"core[0-{0}]\", b: lo0, kind: loopback, GBps: 4, latency_ns: 2250, scope: tcp-loopback}}\n",
      cores - 1);
  auto cluster = topology::read_cluster_text(text, "test host");
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  tuning::EnvironmentOptions options;
  options.wires = wires;
  auto scene = sim::make_scene(std::move(*cluster), ranks > 0 ? ranks : cores, options);
  EXPECT_TRUE(scene) << (scene ? "" : scene.error().message);
  return std::move(*scene);
}

inline sim::Scene machine_scene(const char* machine, int nodes, int ranks) {
  auto cluster = topology::build_cluster(machine, nodes);
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  auto scene = sim::make_scene(std::move(*cluster), ranks);
  EXPECT_TRUE(scene) << (scene ? "" : scene.error().message);
  return std::move(*scene);
}

inline std::string name_of_case(const tuning::Question& q, const tuning::Candidate& c, int ranks) {
  return fmt::format("{} by {} with {}, {} bytes, {} ranks, root {}{}", name_of(q.call.collective), c.algorithm->name,
                     schedule::name_of(c.protocol), q.call.bytes.value, ranks, q.call.root, q.call.is_in_place ? ", in place" : "");
}

/// Every candidate of every collective at these sizes; returns how many there were. `wide_partials`: sums of bf16 that travel as f32.
inline int for_each_candidate(const sim::Scene& scene, std::initializer_list<std::uint64_t> sizes,
                              const std::function<void(const tuning::Question&, const tuning::Candidate&, const tuning::Plan&)>& check,
                              bool wide_partials = false) {
  int count = 0;
  const int n = scene.environment.ranks;
  for (int c = 0; c < kCollectiveCount; ++c) {
    if (wide_partials && !has_reduction(static_cast<Collective>(c))) continue;
    for (const std::uint64_t bytes : sizes) {
      for (const bool is_in_place : {false, true}) {
        tuning::Question q;
        q.call.collective = static_cast<Collective>(c);
        q.call.bytes = {bytes};
        q.call.is_in_place = is_in_place;
        q.call.wide_partials = wide_partials;
        if (wide_partials) q.call.type = DataType::bf16;
        q.call.root = has_root(q.call.collective) ? n / 2 : 0;
        q.call.peer = n - 1;
        const bool moves = q.call.collective == Collective::all_to_all || q.call.collective == Collective::all_to_all_v ||
                           q.call.collective == Collective::send_recv || q.call.collective == Collective::barrier;
        if (is_in_place && moves) continue;
        auto selection = tuning::select(scene.environment, q);
        EXPECT_TRUE(selection) << name_of(q.call.collective) << ": " << (selection ? "" : selection.error().message);
        if (!selection) continue;
        for (const tuning::Candidate& candidate : selection->candidates) {
          auto plan = tuning::make_plan(scene.environment, *candidate.algorithm, candidate.protocol, q.call);
          EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
          if (!plan) continue;
          ++count;
          check(q, candidate, *plan);
        }
      }
    }
  }
  return count;
}

}  // namespace peal::agreement
