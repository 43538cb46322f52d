#include <gtest/gtest.h>

#include <functional>
#include <sim/engine.hpp>
#include <string>

namespace peal::sim {
namespace {

using Ids = std::vector<std::uint32_t>;

struct Log : Engine::Listener {
  Engine* engine = nullptr;
  std::vector<std::pair<std::string, double>> seen;
  std::function<void(Tag)> then;
  void note(const char* what, Tag tag) {
    seen.emplace_back(what + std::to_string(tag), engine->now());
    if (then) then(tag);
  }
  void on_timer(Tag tag) { note("timer ", tag); }
  void on_flow_left(Tag tag) { note("left ", tag); }
  void on_flow_arrived(Tag tag) { note("arrived ", tag); }
  double when(const std::string& what) const {
    for (const auto& [name, time] : seen)
      if (name == what) return time;
    return -1;
  }
};

TEST(Engine, TimersFireInOrderOfTimeThenOfMaking) {
  Engine engine;
  Log log;
  log.engine = &engine;
  engine.at(5, 1);
  engine.at(3, 2);
  engine.at(5, 3);
  EXPECT_TRUE(engine.run(log));
  ASSERT_EQ(log.seen.size(), 3u);
  EXPECT_EQ(log.seen[0].first, "timer 2");
  EXPECT_EQ(log.seen[1].first, "timer 1");
  EXPECT_EQ(log.seen[2].first, "timer 3");
}

TEST(Engine, AFlowTakesBytesOverRateAndArrivesALatencyLater) {
  Engine engine;
  Log log;
  log.engine = &engine;
  const Ids link = {engine.add_resource(10)};
  engine.start({.bytes = 1000, .resources = link, .latency = 7, .tag = 1});
  engine.run(log);
  EXPECT_DOUBLE_EQ(log.when("left 1"), 100);
  EXPECT_DOUBLE_EQ(log.when("arrived 1"), 107);
  EXPECT_DOUBLE_EQ(engine.bytes_over(link[0]), 1000);
}

// Two flows share until the short one has gone: 1000 bytes at 5, then the other has 10 to itself.
TEST(Engine, RatesRiseWhenAFlowLeaves) {
  Engine engine;
  Log log;
  log.engine = &engine;
  const Ids link = {engine.add_resource(10)};
  engine.start({.bytes = 1000, .resources = link, .tag = 1});
  engine.start({.bytes = 3000, .resources = link, .tag = 2});
  engine.run(log);
  EXPECT_DOUBLE_EQ(log.when("left 1"), 200);
  EXPECT_DOUBLE_EQ(log.when("left 2"), 400);
}

TEST(Engine, RatesFallWhenAFlowComes) {
  Engine engine;
  Log log;
  log.engine = &engine;
  const Ids link = {engine.add_resource(10)};
  engine.start({.bytes = 1000, .resources = link, .tag = 1});
  engine.at(50, 9);
  log.then = [&](Tag tag) {
    if (tag == 9) engine.start({.bytes = 1000, .resources = link, .tag = 2});
  };
  engine.run(log);
  EXPECT_DOUBLE_EQ(log.when("left 1"), 150);
  EXPECT_DOUBLE_EQ(log.when("left 2"), 200);
}

TEST(Engine, RateCapsHold) {
  Engine engine;
  Log log;
  log.engine = &engine;
  const Ids link = {engine.add_resource(10)};
  engine.start({.bytes = 100, .resources = link, .rate_cap = 2, .tag = 1});
  engine.start({.bytes = 800, .resources = link, .tag = 2});
  engine.run(log);
  EXPECT_DOUBLE_EQ(log.when("left 1"), 50);
  EXPECT_DOUBLE_EQ(log.when("left 2"), 50 + (800 - 400) / 10.0);
}

TEST(Engine, NoBytesLeaveAtOnce) {
  Engine engine;
  Log log;
  log.engine = &engine;
  engine.start({.bytes = 0, .latency = 3, .tag = 1});
  engine.start({.bytes = 5, .tag = 2});  // nothing limits it
  engine.run(log);
  EXPECT_DOUBLE_EQ(log.when("left 1"), 0);
  EXPECT_DOUBLE_EQ(log.when("arrived 1"), 3);
  EXPECT_DOUBLE_EQ(log.when("left 2"), 0);
}

TEST(Engine, StopsAtTheMostEvents) {
  Engine engine;
  Log log;
  log.engine = &engine;
  log.then = [&](Tag tag) { engine.after(1, tag); };
  engine.at(0, 1);
  EXPECT_FALSE(engine.run(log, 100));
  EXPECT_EQ(log.seen.size(), 100u);
}

// Flows of many lengths over two links, each followed by another: with rates kept, the links are as busy and far fewer are worked out.
TEST(Engine, KeptRatesLeaveLinksAsBusy) {
  struct Done {
    double time;
    double bytes;
    std::uint64_t rates;
  };
  const auto run = [](double kept_for) {
    Engine engine;
    Log log;
    log.engine = &engine;
    if (kept_for > 0) engine.keep_rates_for(kept_for);
    const Ids links = {engine.add_resource(10), engine.add_resource(20), engine.add_resource(1000)};
    int begun = 0;
    const auto start = [&](Tag tag) {
      const Ids way = {links[tag % 2], links[2]};
      engine.start({.bytes = 100.0 + begun++ * 37 % 50, .resources = way, .wants_arrival = false, .tag = tag});
    };
    log.then = [&](Tag tag) {
      if (begun < 6000) start(tag);
    };
    for (Tag tag = 0; tag < 60; ++tag) start(tag);
    engine.run(log);
    return Done{engine.now(), engine.bytes_over(links[2]), engine.rates()};
  };
  const Done exact = run(0);
  const Done kept = run(0.5);
  EXPECT_NEAR(exact.time, exact.bytes / 30, exact.time * 0.01);
  EXPECT_DOUBLE_EQ(kept.bytes, exact.bytes);
  EXPECT_NEAR(kept.time / exact.time, 1, 0.04);
  EXPECT_LT(kept.rates, exact.rates / 10);
}

// A million equal steps of many equal flows: every step ends at one instant, not in a spray of rounding errors.
TEST(Engine, EqualFlowsEndAtOneInstant) {
  Engine engine;
  Log log;
  log.engine = &engine;
  Ids links;
  for (int i = 0; i < 50; ++i) links.push_back(engine.add_resource(0.3));
  int steps = 0;
  int left = 0;
  const auto start_all = [&] {
    for (std::size_t i = 0; i < links.size(); ++i)
      engine.start({.bytes = 0.7, .resources = Ids{links[i], links[(i + 1) % links.size()]}, .wants_arrival = false, .tag = i});
  };
  double last = 0;
  log.then = [&](Tag) {
    if (++left < 50) {
      if (left == 1) last = engine.now();
      return;
    }
    EXPECT_NEAR(engine.now(), last, 1e-9 * last);
    left = 0;
    if (++steps < 200) start_all();
  };
  start_all();
  engine.run(log);
  EXPECT_EQ(steps, 200);
  EXPECT_NEAR(engine.now(), 200 * 0.7 / 0.15, 1e-6 * engine.now());
}

}  // namespace
}  // namespace peal::sim
