// What can be a layout, where its ranks stand, and what is said of those that cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <training/layout.hpp>

namespace peal::training {
namespace {

Model named(const char* name) {
  auto model = model_named(name);
  EXPECT_TRUE(model) << model.error().message;
  return *std::move(model);
}

Layout cut(int tp, int pp, int dp, int global_batch) {
  Layout layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.dp = dp;
  layout.global_batch = global_batch;
  return layout;
}

std::string mistake(const Model& model, const Layout& layout, int gpus = 0) {
  const Status can = check(model, layout, gpus);
  EXPECT_FALSE(can) << describe(layout);
  return can ? std::string() : can.error().message;
}

TEST(Layout, SaysWhatDoesNotDivideAndTheNearestThatDoes) {
  const Model llama = named("llama3-70b");  // 80 layers, 64 heads, 8 of keys and values, ffn 28672
  EXPECT_EQ(mistake(llama, cut(8, 7, 1, 7)), "80 layers do not divide into 7 stages; the nearest that works is --pp 8");
  EXPECT_EQ(mistake(llama, cut(6, 1, 1, 1)), "64 attention heads do not divide by --tp 6; the nearest that works is --tp 4");
  EXPECT_EQ(mistake(llama, cut(1, 1, 3, 8)),
            "a global batch of 8 is not divided into micro batches of 1 on 3 data-parallel ranks; the nearest is --global-batch 9");
  EXPECT_EQ(mistake(llama, cut(8, 2, 3, 6), 64), "tp 8 x cp 1 x dp 3 x pp 2 is 48 GPUs, and there are 64; --dp 4 makes 64");
  EXPECT_EQ(mistake(llama, cut(8, 3, 3, 6), 64), "tp 8 x cp 1 x dp 3 x pp 3 is 72 GPUs, and there are 64; --pp 2 --dp 4 makes 64");
  EXPECT_EQ(mistake(named("gpt2"), cut(8, 1, 1, 1)), "12 attention heads do not divide by --tp 8; the nearest that works is --tp 6");
  EXPECT_THAT(mistake(named("gpt2"), cut(8, 1, 1, 1), 8), testing::EndsWith("--tp 4")) << "of eight GPUs six are no part";
  Layout layout = cut(1, 4, 1, 6);
  layout.vpp = 2;
  EXPECT_EQ(mistake(llama, layout), "--vpp 2 is of interleaved pipelines, and this is 1f1b; give --pipeline interleaved");
  layout.pipeline = PipelineKind::interleaved;
  EXPECT_THAT(mistake(llama, layout), testing::HasSubstr("6 micro batches do not divide by --pp 4"));
  EXPECT_THAT(mistake(llama, layout), testing::EndsWith("the nearest is --global-batch 4"));
  layout.global_batch = 8;
  EXPECT_TRUE(check(llama, layout));
  layout.vpp = 3;
  EXPECT_EQ(mistake(llama, layout), "80 layers do not divide into 4 stages x 3 pieces; the nearest that works is --pp 3");
  layout = cut(1, 1, 4, 4);
  layout.ep = 4;
  EXPECT_EQ(mistake(llama, layout), "llama3-70b has no experts to spread over --ep 4; leave --ep out");
  const Model mixtral = named("mixtral-8x7b");
  EXPECT_TRUE(check(mixtral, layout));
  layout.ep = 3;
  EXPECT_EQ(mistake(mixtral, layout), "8 experts do not divide by --ep 3; the nearest that works is --ep 2");
  layout.ep = 8;
  EXPECT_EQ(mistake(mixtral, layout), "--ep 8 does not divide the 4 ranks of dp 4 x cp 1; the nearest that works is --ep 4");
  layout = cut(1, 1, 1, 1);
  layout.cp = 4;
  layout.seq_len = 8190;
  EXPECT_EQ(mistake(llama, layout),
            "a sequence of 8190 tokens is not cut into 8 equal pieces (two a rank of --cp); the nearest is --seq 8192");
  layout = cut(1, 1, 4, 4);
  layout.zero = 3;
  layout.zero_group = 3;
  EXPECT_EQ(mistake(llama, layout), "--zero-group 3 does not divide --dp 4; the nearest that does is 2");
  layout = cut(1, 1, 12, 12);
  layout.zero = 3;
  layout.zero_group = 6;
  layout.ep = 4;
  EXPECT_EQ(mistake(mixtral, layout),
            "--zero-group 6 does not divide into ranks of equal experts with --ep 4; the nearest that works is --zero-group 4");
  layout.zero_group = 2;
  EXPECT_TRUE(check(mixtral, layout)) << "who is in a group holds other experts than the rest of it";
  layout = cut(1, 1, 1, 1);
  layout.seq_len = -5;
  EXPECT_EQ(mistake(llama, layout), "--seq -5 is no length of a sequence; give 1 or more tokens");
  layout.seq_len = std::int64_t{1} << 40;
  EXPECT_EQ(mistake(llama, layout), "--seq 1099511627776 is no length of a sequence; give 1073741824 or less");
  layout = cut(1, 1, 1, 1);
  layout.micro_batch = 2'000'000'000;
  EXPECT_EQ(mistake(llama, layout), "--micro-batch 2000000000 is more than a device takes at a time; give 1048576 or less");
  EXPECT_EQ(mistake(llama, cut(1, 1, 2, 2'000'000'000)),
            "1000000000 micro batches are more than the 1048576 that a step is simulated with; give --global-batch 2097152 or less");
  EXPECT_EQ(mistake(llama, cut(3, 1, 2, 2), 8), "tp 3 x cp 1 x dp 2 x pp 1 is 6 GPUs, and there are 8; --tp 2 --dp 4 makes 8");
  layout = cut(1, 1, 2, 2);
  layout.recompute = Recompute::full;
  EXPECT_THAT(mistake(named("resnet-50"), layout), testing::EndsWith("leave --recompute out"));
  EXPECT_EQ(mistake(llama, cut(0, 1, 1, 1)), "--tp 0 is no number of parts or samples; give 1 or more");
  EXPECT_EQ(mistake(named("resnet-50"), cut(1, 2, 4, 8)),
            "an image network is trained data-parallel alone here; give --dp 8 and leave --pp out");
}

// BLOOM's 70 layers on 12 stages, Llama 3's 126 on 16 (arXiv 2211.05100, 3.2; 2407.21783, 3.3.2): ends stand for layers.
TEST(Layout, EndsOfTheModelStandForLayers) {
  const Model bloom = named("bloom-176b"), llama = named("llama3-405b");
  ASSERT_TRUE(check(bloom, cut(4, 12, 8, 2048)));
  EXPECT_EQ(layers_of(bloom, cut(4, 12, 8, 2048), 0), (LayerRange{0, 5}));
  EXPECT_EQ(layers_of(bloom, cut(4, 12, 8, 2048), 1), (LayerRange{5, 6}));
  EXPECT_EQ(layers_of(bloom, cut(4, 12, 8, 2048), 11), (LayerRange{65, 5}));
  ASSERT_TRUE(check(llama, cut(8, 16, 8, 128)));
  EXPECT_EQ(layers_of(llama, cut(8, 16, 8, 128), 15), (LayerRange{119, 7}));
  for (const int pp : {1, 2, 3, 6, 7, 8, 9, 16}) {
    const Layout layout = cut(1, pp, 1, pp);
    if (!check(llama, layout)) continue;
    int next = 0;
    for (int chunk = 0; chunk < pp; ++chunk) {
      EXPECT_EQ(layers_of(llama, layout, chunk).first, next);
      next += layers_of(llama, layout, chunk).count;
    }
    EXPECT_EQ(next, 126);
  }
}

// As Llama 3 was trained (arXiv 2407.21783, 3.3.2): 128 pieces, the first the embedding alone and the last the head alone.
TEST(Layout, TheFirstPieceMayBeTheEmbeddingAloneAndTheLastTheHead) {
  const Model llama = named("llama3-405b");
  for (int layers = 1; layers <= 126; ++layers) {
    Model model = llama;
    model.transformer.layers = layers;
    for (int pp = 2; pp <= 16; ++pp)
      for (const int vpp : {1, 2, 4, 8}) {
        Layout layout = cut(8, pp, 1, pp);
        layout.vpp = vpp;
        if (vpp > 1) layout.pipeline = PipelineKind::interleaved;
        if (!check(model, layout)) continue;
        int next = 0;
        for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
          const LayerRange range = layers_of(model, layout, chunk);
          EXPECT_EQ(range.first, next);
          EXPECT_GE(range.count, chunk == 0 || chunk + 1 == layout.chunks() ? 0 : 1) << layers << " on " << pp << " x " << vpp;
          next += range.count;
        }
        EXPECT_EQ(next, layers);
      }
  }
  Layout layout = cut(8, 16, 1, 16);
  layout.pipeline = PipelineKind::interleaved;
  for (const int vpp : {2, 4, 8}) {
    layout.vpp = vpp;
    EXPECT_TRUE(check(llama, layout)) << vpp;
  }
  EXPECT_EQ(layers_of(llama, layout, 0), (LayerRange{0, 0}));
  EXPECT_EQ(layers_of(llama, layout, 1), (LayerRange{0, 1}));
  EXPECT_EQ(layers_of(llama, layout, 127), (LayerRange{126, 0}));
}

TEST(Layout, BucketsGrowWithTheRanksUnlessTold) {
  Layout layout = cut(1, 1, 8, 8);
  EXPECT_EQ(largest_bucket(layout), 25e6);
  layout.dp = 512;
  EXPECT_EQ(largest_bucket(layout), 512e6 * 2);
  layout.bucket_bytes = 1000;
  EXPECT_EQ(largest_bucket(layout), 1000);
}

TEST(Layout, GroupsOfEveryDimensionPartTheRanks) {
  for (const char* order : {"tp,cp,dp,pp", "pp,dp,cp,tp", "cp,pp,tp,dp", "dp,tp,pp,cp"}) {
    Layout layout = cut(2, 3, 4, 12);
    layout.cp = 2;
    layout.ep = 4;
    layout.order = *parse_order(order);
    std::set<std::vector<int>> groups[7];
    for (int rank = 0; rank < layout.gpus(); ++rank) {
      EXPECT_EQ(rank_of(layout, position_of(layout, rank)), rank);
      for (int d = 0; d < kDimensions; ++d) groups[d].insert(group_of(layout, static_cast<Dimension>(d), rank));
      groups[5].insert(group_of(layout, Dimension::dp, rank, true));
      groups[6].insert(expert_group_of(layout, rank));
    }
    const std::size_t sizes[] = {2, 2, 4, 4, 3, 8, 2};
    for (int d = 0; d < 7; ++d) {
      std::set<int> seen;
      for (const std::vector<int>& group : groups[d]) {
        EXPECT_EQ(group.size(), sizes[d]) << order << " " << d;
        seen.insert(group.begin(), group.end());
      }
      EXPECT_EQ(groups[d].size() * sizes[d], 48U) << order << " " << d;
      EXPECT_EQ(seen.size(), 48U);
    }
  }
}

TEST(Layout, IsSaidInWordsAndInOptions) {
  Layout layout = cut(8, 4, 2, 128);
  layout.recompute = Recompute::selective;
  EXPECT_EQ(describe(layout), "tp 8, pp 4, dp 2, micro batch 1 of 128, 1f1b, selective recomputation, bf16");
  layout.order = *parse_order("tp,dp,cp,pp");
  layout.zero = 1;
  EXPECT_EQ(options_of(layout),
            "--tp 8 --pp 4 --dp 2 --zero 1 --micro-batch 1 --global-batch 128 --recompute selective --order tp,dp,cp,pp");
  for (const char* wrong : {"", "tp", "tp,cp,dp,dp", "tp,cp,dp,pp,", "tp,cp,dp,ep", "tp cp dp pp"}) {
    const auto order = parse_order(wrong);
    EXPECT_FALSE(order) << wrong;
  }
}

}  // namespace
}  // namespace peal::training
