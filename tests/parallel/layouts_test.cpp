#include "small_gpt.hpp"

namespace peal::parallel {
namespace {

using training::Layout;
using training::PipelineKind;

struct Case {
  const char* name;
  Layout layout;
  bool has_experts = false;
  bool is_tied = false;
};

Layout cut(int dp, int tp, int pp, int cp = 1) {
  Layout layout;
  layout.dp = dp;
  layout.tp = tp;
  layout.pp = pp;
  layout.cp = cp;
  layout.micro_batch = 2;
  layout.global_batch = 8 * dp;
  return layout;
}

Layout with_zero(Layout layout, int zero) {
  layout.zero = zero;
  return layout;
}

Layout with_sequence(Layout layout) {
  layout.has_sequence_parallel = true;
  return layout;
}

Layout in_order(Layout layout, PipelineKind kind) {
  layout.pipeline = kind;
  return layout;
}

Layout in_pieces(Layout layout, int vpp) {
  layout.pipeline = PipelineKind::interleaved;
  layout.vpp = vpp;
  return layout;
}

Layout spread(Layout layout, int ep) {
  layout.ep = ep;
  return layout;
}

Layout recomputed(Layout layout) {
  layout.recompute = training::Recompute::full;
  return layout;
}

const Case kCases[] = {
    {"Serial", cut(1, 1, 1)},
    {"Dp2", cut(2, 1, 1)},
    {"Dp3Zero3", with_zero(cut(3, 1, 1), 3)},
    {"Dp2Zero3ZeroBubble", in_order(with_zero(cut(2, 1, 1), 3), PipelineKind::zero_bubble)},
    {"Dp5Zero2", with_zero(cut(5, 1, 1), 2)},
    {"Dp7Zero1", with_zero(cut(7, 1, 1), 1)},
    {"Tp4", cut(1, 4, 1)},
    {"Tp2Sequence", with_sequence(cut(1, 2, 1))},
    {"Cp2", cut(1, 1, 1, 2)},
    {"Pp2Gpipe", in_order(cut(1, 1, 2), PipelineKind::gpipe)},
    {"Pp4", cut(1, 1, 4)},
    {"Pp2Interleaved", in_pieces(cut(1, 1, 2), 2)},
    {"Pp2EndsInPiecesOfTheirOwn", in_pieces(cut(1, 1, 2), 3)},
    {"TiedDp2Pp2Zero1EndsInPiecesOfTheirOwn", with_zero(in_pieces(cut(2, 1, 2), 3), 1), false, true},
    {"Dp2Pp2Zero3EndsInPiecesOfTheirOwn", with_zero(in_pieces(cut(2, 1, 2), 3), 3)},
    {"Pp6EndsOnStagesOfTheirOwn", cut(1, 1, 6)},
    {"Pp2ZeroBubble", in_order(cut(1, 1, 2), PipelineKind::zero_bubble)},
    {"Dp2Tp2Pp2", cut(2, 2, 2)},
    {"Dp2Tp2Pp2SequenceZero3Recomputed", recomputed(with_sequence(with_zero(cut(2, 2, 2), 3)))},
    {"Dp2Pp2Zero2ZeroBubble", in_order(with_zero(cut(2, 1, 2), 2), PipelineKind::zero_bubble)},
    {"Dp2Cp2Pp2Zero1", with_zero(cut(2, 1, 2, 2), 1)},
    {"Cp2Tp2SequenceZero3", with_zero(with_sequence(cut(1, 2, 1, 2)), 3)},
    {"TiedTp2SequenceDp2Zero2", with_zero(with_sequence(cut(2, 2, 1)), 2), false, true},
    {"TiedPp2", cut(1, 1, 2), false, true},
    {"TiedDp2Pp4Zero1", with_zero(cut(2, 1, 4), 1), false, true},
    {"TiedExpertsDp2Ep2Tp2Pp2", spread(cut(2, 2, 2), 2), true, true},
    {"TiedDp2Pp2Interleaved", in_pieces(cut(2, 1, 2), 2), false, true},
    {"ExpertsTp2Dp2", cut(2, 2, 1), true},
    {"ExpertsDp6Ep2", spread(cut(6, 1, 1), 2), true},
    {"ExpertsDp4Ep2Zero1", with_zero(spread(cut(4, 1, 1), 2), 1), true},
    {"ExpertsDp4Ep2Pp2Zero2ZeroBubble", in_order(with_zero(spread(cut(4, 1, 2), 2), 2), PipelineKind::zero_bubble), true},
    {"ExpertsDp2Cp2Ep2Zero3", with_zero(spread(cut(2, 1, 1, 2), 2), 3), true},
    {"ExpertsDp2Cp2Ep4Zero3Recomputed", recomputed(with_zero(spread(cut(2, 1, 1, 2), 4), 3)), true},
    {"ExpertsDp2Ep2Tp2Pp2Sequence", with_sequence(spread(cut(2, 2, 2), 2)), true},
};

class Layouts : public testing::TestWithParam<Case> {};

TEST_P(Layouts, GiveTheSerialRunsLossAndGradients) {
  const GptJob job = small_job(GetParam().layout);
  TrainOptions options{.job = GetParam().has_experts ? with_experts(job) : job, .steps = 2, .checks = true};
  options.job.model.transformer.ties_embeddings = GetParam().is_tied;
  ASSERT_TRUE(training::check(options.job.model, options.job.layout));
  ASSERT_TRUE(check_job(options.job));
  const TrainReport report = train_on_ranks(options);
  ASSERT_TRUE(report.check);
  std::int64_t gradients = 0;
  for (const ParameterSpec& spec : all_parameters_of(options.job.model.transformer)) gradients += spec.elements();
  EXPECT_EQ(report.check->compared, 2 * gradients);
  EXPECT_LT(report.check->gradient, kCheckTolerance) << report.check->parameter << " in step " << report.check->step;
  EXPECT_LT(report.check->loss, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::ValuesIn(kCases), [](const auto& each) { return each.param.name; });

TEST(Check, FindsAReductionThatIsWrongInOneGradient) {
  for (const int zero : {0, 3}) {
    TrainOptions options{.job = small_job(with_zero(cut(2, 1, 1), zero)), .steps = 1, .checks = true};
    options.job.broken_rank = 1;
    const TrainReport report = train_on_ranks(options);
    ASSERT_TRUE(report.check);
    EXPECT_FALSE(report.check->holds()) << "ZeRO " << zero << ": " << report.check->gradient;
  }
}

// One that the ranks with the same experts make, and one that all make.
TEST(Check, FindsAReductionThatIsWrongWithExperts) {
  TrainOptions options{.job = with_experts(small_job(spread(cut(4, 1, 1), 2))), .steps = 1, .checks = true};
  options.job.broken_rank = 3;
  const TrainReport report = train_on_ranks(options);
  ASSERT_TRUE(report.check);
  EXPECT_FALSE(report.check->holds()) << report.check->gradient;
}

TEST(Zero, HoldsLessTheMoreItDivides) {
  std::int64_t before = std::int64_t{1} << 60;
  for (const int zero : {0, 1, 2, 3}) {
    const TrainReport report = train_on_ranks({.job = small_job(with_zero(cut(4, 1, 1), zero)), .steps = 1});
    EXPECT_LT(report.state_bytes, before) << "ZeRO " << zero;
    before = report.state_bytes;
  }
}

TEST(Job, RefusesWhatCannotBeTrained) {
  GptJob job = small_job(cut(1, 1, 1));
  job.model.transformer.ties_embeddings = true;
  EXPECT_TRUE(check_job(job));
  job.layout.zero = 3;
  EXPECT_FALSE(check_job(job));
  job.layout = with_zero(cut(2, 1, 2), 2);
  EXPECT_FALSE(check_job(job));
  job = with_experts(small_job(cut(1, 1, 1)));
  EXPECT_TRUE(check_job(job));
  job.model.transformer.experts.chosen = 5;
  EXPECT_FALSE(check_job(job));
  job = with_experts(small_job(cut(1, 1, 1)));
  job.model.transformer.experts.shared = 1;
  EXPECT_FALSE(check_job(job));
  job = small_job(with_sequence(cut(1, 4, 1)));
  job.model.transformer.seq_len = 1;
  EXPECT_FALSE(check_job(job));
}

}  // namespace
}  // namespace peal::parallel
