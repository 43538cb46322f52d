// Beyond 256 ranks closed forms choose: they are held against the simulation of what they predict.
#include <gtest/gtest.h>

#include <base/names.hpp>
#include <sim/simulate.hpp>
#include <topology/machine.hpp>

#include "sizes.hpp"

namespace peal::sim {
namespace {

struct LongCall {
  const char* machine;
  Collective collective;
  const char* algorithm;
  std::uint64_t bytes;
};

constexpr int kNodes = 40;        // 320 ranks, no power of two
constexpr double kWithin = 0.12;  // of the simulated time

void PrintTo(const LongCall& c, std::ostream* out) {
  *out << c.machine << ' ' << name_of(c.collective) << ' ' << c.algorithm << ' ' << c.bytes;
}

class ClosedForm : public testing::TestWithParam<LongCall> {};

TEST_P(ClosedForm, IsNearWhatIsSimulated) {
  auto cluster = topology::build_cluster(GetParam().machine, kNodes);
  ASSERT_TRUE(cluster) << cluster.error().message;
  const auto scene = make_scene(*std::move(cluster), 0);
  ASSERT_TRUE(scene) << scene.error().message;
  tuning::Question question;
  question.call.collective = GetParam().collective;
  question.call.bytes = Bytes{GetParam().bytes};
  question.algorithm = GetParam().algorithm;
  const auto row = simulate_call(*scene, question);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_NEAR(row->predicted_us / row->out_of_place->time_us, 1, kWithin) << row->predicted_us << " us predicted";
}

INSTANTIATE_TEST_SUITE_P(LongCalls, ClosedForm,
                         testing::Values(LongCall{"dgx-h100", Collective::all_reduce, "ring", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_reduce, "bidirectional_ring", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_reduce, "multi_ring", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_reduce, "hierarchical", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_reduce, "double_binary_tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_reduce, "binary_tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_reduce, "nvls_tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::broadcast, "binary_tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::reduce, "binary_tree", 256 * kMebi},
                                         LongCall{"mi300x-8", Collective::all_reduce, "binary_tree", 256 * kMebi},
                                         LongCall{"mi300x-8", Collective::broadcast, "binary_tree", 256 * kMebi},
                                         LongCall{"mi300x-8", Collective::reduce, "binary_tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_reduce, "rabenseifner", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::broadcast, "double_binary_tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::reduce, "double_binary_tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_gather, "hierarchical", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::all_gather, "hierarchical", kGibi},
                                         LongCall{"dgx-h100", Collective::reduce_scatter, "hierarchical", kGibi},
                                         LongCall{"dgx-h100", Collective::gather, "tree", 256 * kMebi},
                                         LongCall{"dgx-h100", Collective::scatter, "tree", 256 * kMebi},
                                         LongCall{"mi300x-8", Collective::all_reduce, "bidirectional_ring", 256 * kMebi},
                                         LongCall{"mi300x-8", Collective::all_reduce, "double_binary_tree", 256 * kMebi},
                                         LongCall{"mi300x-8", Collective::all_gather, "bidirectional_ring", 256 * kMebi}));

}  // namespace
}  // namespace peal::sim
