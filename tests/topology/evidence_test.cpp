#include <gtest/gtest.h>

#include <topology/evidence.hpp>

namespace peal::topology {
namespace {

TEST(Evidence, ANumberGoesByTheCommentOnItsLineElseByTheNearestSource) {
  const auto found = read_constant_sources(
      "host:\n"
      "  switch_ns: 1900   # measured: here\n"
      "  share: 0.5        # fitted: p5_2n_ar and x_1\n"
      "  source: \"assumed # not a comment\"\n"
      "  other: 3\n"
      "sets:\n"
      "  - {scope: nvlink, protocol: line, launch_ns: 6600, cap: [1, 2], source: \"fit to a.b, c\"}\n"
      "  - {name: ring, steps: {base: 2}}\n"
      "  - {name: tree, slice_bytes: 4, base: 2, source: \"NCCL; slice assumed\"}\n",
      "c.yaml");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 9u);
  const auto& all = *found;
  EXPECT_EQ(all[0].name, "host.switch_ns");
  EXPECT_EQ(all[0].ground, Ground::stated);
  EXPECT_EQ(all[1].ground, Ground::fitted);
  EXPECT_EQ(all[1].line, 3);
  EXPECT_TRUE(all[1].names("p5_2n_ar"));
  EXPECT_FALSE(all[1].names("p5_2n"));
  EXPECT_EQ(all[2].ground, Ground::assumed);
  EXPECT_EQ(all[3].name, "sets.nvlink/line.launch_ns");
  EXPECT_EQ(all[3].ground, Ground::fitted);
  EXPECT_TRUE(all[3].is_named("nvlink/line"));
  EXPECT_TRUE(all[3].is_named("sets.nvlink/line.launch_ns"));
  EXPECT_FALSE(all[3].is_named("link/line"));
  EXPECT_TRUE(all[3].names("a.b"));
  EXPECT_EQ(all[5].name, "sets.nvlink/line.cap.1");
  EXPECT_EQ(all[6].name, "sets.ring.steps.base");
  EXPECT_EQ(all[6].source, "");
  EXPECT_EQ(all[7].ground, Ground::assumed) << "slice";
  EXPECT_EQ(all[8].ground, Ground::stated) << "base";
}

TEST(Evidence, EveryNumberOfTheConstantsHasASource) {
  const auto found = constant_sources();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_GT(found->size(), 100u);
  for (const ConstantSource& c : *found) EXPECT_FALSE(c.source.empty()) << c.file << ":" << c.line << ": " << c.name;
}

}  // namespace
}  // namespace peal::topology
