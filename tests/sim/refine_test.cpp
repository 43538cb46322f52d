// The coarsest equitable partition, on graphs whose classes are known.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <sim/event_queue.hpp>
#include <sim/refine.hpp>

namespace peal::sim {
namespace {

using Classes = std::vector<std::uint32_t>;

ColouredGraph ring(std::uint32_t n) {
  ColouredGraph graph;
  for (std::uint32_t v = 0; v < n; ++v) graph.add(1);
  for (std::uint32_t v = 0; v < n; ++v) graph.join(v, (v + 1) % n, 1, 2);
  return graph;
}

std::size_t count_classes(const Classes& classes) {
  return std::map<std::uint32_t, int>([&] {
           std::map<std::uint32_t, int> seen;
           for (std::uint32_t c : classes) ++seen[c];
           return seen;
         }())
      .size();
}

TEST(Refine, ARingIsOneClass) { EXPECT_EQ(count_classes(ring(1000).equitable_classes()), 1u); }

// Who stands elsewhere on a directed ring than one that differs is at another distance from it.
TEST(Refine, OneThatDiffersTellsAllOfADirectedRingApart) {
  ColouredGraph graph = ring(5000);
  graph.set_colour(7, 2);
  EXPECT_EQ(count_classes(graph.equitable_classes()), 5000u);
}

// Leaves, inner vertices by height: all that a balanced tree shows from below and above.
TEST(Refine, ABalancedTreeHasAClassForEachLevel) {
  ColouredGraph graph;
  graph.add(1);
  for (std::uint32_t v = 1; v < 1023; ++v) {
    graph.add(1);
    graph.join(v, (v - 1) / 2, 1, 2);
  }
  const Classes classes = graph.equitable_classes();
  EXPECT_EQ(count_classes(classes), 10u);
  for (std::uint32_t v = 0; v < 1023; ++v) {
    std::uint32_t level = 0;
    for (std::uint32_t up = v; up > 0; up = (up - 1) / 2) ++level;
    EXPECT_EQ(classes[v], level);
  }
}

// Every vertex of a class sees as many of each class along each label, and no coarser partition has that: against rounds over everything.
TEST(Refine, RandomGraphsAreRefinedAsByLookingAtEverythingAgain) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    const std::uint32_t n = 2 + random() % 60;
    ColouredGraph graph;
    std::vector<std::multimap<std::uint32_t, std::uint32_t>> sees(n);
    Classes naive(n);
    for (std::uint32_t v = 0; v < n; ++v) graph.add(naive[v] = random() % 8 == 0 ? 1 : 0);
    for (std::uint32_t e = 0; e < n; ++e) {
      const std::uint32_t a = random() % n, b = random() % n, label = random() % 2;
      graph.join(a, b, label, 5 + label);
      sees[a].emplace(label, b);
      sees[b].emplace(5 + label, a);
    }
    for (std::uint32_t again = 0; again < n; ++again) {
      std::map<std::pair<std::uint32_t, std::map<std::pair<std::uint32_t, std::uint32_t>, int>>, std::uint32_t> number;
      Classes next(n);
      for (std::uint32_t v = 0; v < n; ++v) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, int> view;
        for (const auto& [label, w] : sees[v]) ++view[{label, naive[w]}];
        next[v] = number.try_emplace({naive[v], view}, static_cast<std::uint32_t>(number.size())).first->second;
      }
      naive = next;
    }
    EXPECT_EQ(graph.equitable_classes(), naive) << "round " << round;
  }
}

TEST(EventQueue, HandsOutByTimeThenByOrderOfPushingWhateverTheLanesAndNames) {
  std::mt19937 random(3);
  EventQueue<int> queue;
  std::multimap<double, int> expected;
  std::map<std::uint32_t, std::multimap<double, int>::iterator> named;
  double now = 0;
  for (int i = 0; i < 40000; ++i) {
    if (random() % 3 == 0) {
      const auto name = static_cast<std::uint32_t>(random() % 60);
      if (const auto known = named.find(name); known != named.end()) {
        expected.erase(known->second);
        named.erase(known);
      }
      if (random() % 8 == 0) {
        queue.unset(name);
      } else {
        const double time = now + static_cast<double>(random() % 300);
        queue.set(name, time, i);
        named[name] = expected.emplace(time, i);
      }
    } else if (random() % 2 == 0 || expected.empty()) {
      const double delay = static_cast<double>(random() % (random() % 2 == 0 ? 5 : 300));
      if (random() % 4 == 0)
        queue.push_at(now + delay, i);
      else
        queue.push_after(now, delay, i);
      expected.emplace(now + delay, i);
    } else {
      const double time = queue.time();
      const auto taken = queue.pop();
      ASSERT_EQ(taken.payload, expected.begin()->second) << i;
      ASSERT_EQ(taken.time, time);
      now = time;
      std::erase_if(named, [&](const auto& known) { return known.second == expected.begin(); });
      expected.erase(expected.begin());
    }
    ASSERT_EQ(queue.empty(), expected.empty());
  }
}

}  // namespace
}  // namespace peal::sim
