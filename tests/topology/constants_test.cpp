#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <topology/constants.hpp>

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

TEST(Constants, EverySetHasASourceAndSaneTerms) {
  const auto sets = all_constants();
  ASSERT_TRUE(sets) << sets.error().message;
  ASSERT_GT((*sets)->size(), 20u);
  for (const ProtocolConstants& s : **sets) {
    EXPECT_GT(s.source.size(), 10u) << s.scope << " " << s.protocol;
    EXPECT_GT(s.efficiency, 0);
    EXPECT_LE(s.efficiency, 1);
    EXPECT_EQ(s.slice.value > 0, s.slots > 0) << s.scope << " " << s.protocol;
  }
}

TEST(Constants, GpuSetsAreNccls) {
  const auto line = constants_for("nvlink-h100", "line");
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_DOUBLE_EQ(line->launch.microseconds(), 6.6);
  EXPECT_DOUBLE_EQ(line->per_hop.microseconds(), 0.6);
  EXPECT_DOUBLE_EQ(line->cap(1).gigabytes(), 141);
  EXPECT_DOUBLE_EQ(line->cap(2).gigabytes(), 39);
  EXPECT_DOUBLE_EQ(line->cap(64).gigabytes(), 20.4);
  const auto staged = constants_for("infiniband", "staged");
  ASSERT_TRUE(staged);
  EXPECT_DOUBLE_EQ(staged->per_hop.microseconds(), 14);
}

TEST(Constants, EveryScopeOfThisSliceHasStagedAndSharedMemoryHasAllProtocols) {
  for (const char* scope : {"shm", "tcp-loopback", "tcp", "nvlink-a100", "nvlink-h100", "pcie", "infiniband", "nvlink", "xgmi", "c2c"})
    EXPECT_TRUE(constants_for(scope, "staged")) << scope;
  for (const char* protocol : {"line", "staged", "direct_read", "direct_write", "fused"})
    EXPECT_TRUE(constants_for("shm", protocol)) << protocol;
}

TEST(Constants, AGenerationWithoutFiguresTakesItsFamilys) {
  const auto set = constants_for("nvlink-x9", "staged");
  ASSERT_TRUE(set);
  EXPECT_EQ(set->scope, "nvlink");
}

TEST(Constants, UnknownPairsSayWhatThereIs) {
  const auto protocol = constants_for("shm", "pigeon");
  ASSERT_FALSE(protocol);
  EXPECT_THAT(protocol.error().message, HasSubstr("direct_read"));
  const auto scope = constants_for("string", "staged");
  ASSERT_FALSE(scope);
  EXPECT_THAT(scope.error().message, HasSubstr("shm"));
}

TEST(Constants, BrokenFilesNameTheLine) {
  const auto error = [](std::string_view text) {
    const auto r = read_constants_text(text, "c.yaml");
    return r ? std::string("accepted") : r.error().message;
  };
  EXPECT_THAT(error("constants:\n  - {scope: shm, protocol: line}\n"), ::testing::AllOf(HasSubstr("c.yaml:2:"), HasSubstr("source")));
  EXPECT_THAT(error("constants:\n  - {scope: shm, protocol: line, source: x, efficiency: 2}\n"), HasSubstr("c.yaml:2:"));
  EXPECT_THAT(error("constants:\n  - {scope: shm, protocol: line, source: x, cap_GBps: [1, 2]}\n"), HasSubstr("three"));
  EXPECT_THAT(error("constants:\n  - {scope: shm, protocol: line, source: x}\n  - {scope: shm, protocol: line, source: x}\n"),
              HasSubstr("c.yaml:3:"));
  EXPECT_THAT(error("processors:\n  - {name: odd, cpus: [x], fetch_share: 2, shared_read: 0, least_read_bytes: 1, "
                    "most_read_bytes: 2, source: x}\n"),
              HasSubstr("c.yaml:2:"));
  EXPECT_THAT(error("processors:\n  - {name: odd, cpus: [x], fetch_share: 1, shared_read: 0, source: x}\n"), HasSubstr("least_read_bytes"));
  EXPECT_THAT(error("processors:\n  - {name: odd, cpus: [x], fetch_share: 1, shared_read: 0, least_read_bytes: 9, "
                    "most_read_bytes: 8, source: x}\n"),
              HasSubstr("c.yaml:2: most_read_bytes is less than least_read_bytes"));
  EXPECT_THAT(error("processors:\n  - {name: odd, cpus: [x], fetch_share: 1, shared_read: 0, least_read_bytes: 1, "
                    "most_read_bytes: 2, least_halved_bytes: 9, most_halved_bytes: 8, source: x}\n"),
              HasSubstr("c.yaml:2: most_halved_bytes is less than least_halved_bytes"));
  EXPECT_EQ(error("processors:\n  - {name: odd, cpus: [x], fetch_share: 1, shared_read: 0, least_read_bytes: 1, "
                  "most_read_bytes: 2, source: x}\n"),
            "accepted");
  EXPECT_THAT(error("processors:\n  - {name: odd, cpus: [x], most_ranks: 0, fetch_share: 1, shared_read: 0, "
                    "least_read_bytes: 1, most_read_bytes: 2, source: x}\n"),
              HasSubstr("most_ranks"));
}

TEST(Constants, ProcessorsAreReadInTheOrderInWhichTheyStand) {
  HostDefaults host;
  host.processors = {{.name = "shared", .cpus = {"x"}, .most_ranks = 64, .is_for_shared_cores = true},
                     {.name = "pair", .cpus = {"x"}, .most_ranks = 2},
                     {.name = "all", .cpus = {"x", "y"}, .most_ranks = 64}};
  EXPECT_EQ(host.of_processor("x", 2, true)->name, "shared");
  EXPECT_EQ(host.of_processor("x", 2, false)->name, "pair");
  EXPECT_EQ(host.of_processor("x", 3, false)->name, "all");
  EXPECT_EQ(host.of_processor("y", 1, true)->name, "all");
  EXPECT_EQ(host.of_processor("y", 65, false), nullptr);
}

TEST(Constants, HostDefaultsAreThere) {
  const auto host = host_defaults();
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_LT(host->near_exchange, host->far_exchange);
  EXPECT_GT(host->core_copy.value, 0);
}

TEST(Constants, SomeProcessorsHaveTheirOwn) {
  const auto host = host_defaults();
  ASSERT_TRUE(host) << host.error().message;
  const ProcessorDefaults* const meshed = host->of_processor("GenuineIntel 6 207", 3, false);
  ASSERT_NE(meshed, nullptr);
  EXPECT_LT(meshed->memory.least_read, host->memory.least_read);
  const ProcessorDefaults* const pair = host->of_processor("GenuineIntel 6 207", 2, false);
  ASSERT_NE(pair, nullptr);
  EXPECT_LT(pair->memory.most_read, meshed->memory.most_read);
  EXPECT_EQ(host->of_processor("GenuineIntel 6 20", 2, true), nullptr);
  EXPECT_EQ(host->of_processor("", 2, true), nullptr);
  // What one lacks is that of all; of one nothing but the memory is its own.
  for (const ProcessorDefaults& processor : host->processors) {
    const auto own = constants_for("shm-" + processor.name, "staged");
    ASSERT_TRUE(own) << own.error().message;
    EXPECT_EQ(own->scope, processor.name == "zen4-pair" ? "shm" : "shm-" + processor.name);
    const auto of_all = constants_for("shm-" + processor.name, "fused");
    ASSERT_TRUE(of_all) << of_all.error().message;
    EXPECT_EQ(of_all->scope, "shm");
  }
}

}  // namespace
}  // namespace peal::topology
