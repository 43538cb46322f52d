#include <gtest/gtest.h>
#include <executor/call_signature.hpp>

namespace peal::executor {
namespace {

CallSignature some() {
  return {Collective::reduce, DataType::bf16, ReduceOp::max, 3, (std::uint64_t{1} << 40) + 5, 0xfffffffe, 0x89abcdef};
}

TEST(CallSignature, ComesBackFromItsTag) {
  for (int c = 0; c < kCollectiveCount; ++c)
    for (int t = 0; t < kDataTypeCount; ++t)
      for (int o = 0; o < kReduceOpCount; ++o) {
        CallSignature call = some();
        call.collective = static_cast<Collective>(c);
        call.type = static_cast<DataType>(t);
        call.op = static_cast<ReduceOp>(o);
        call.root = c % 2 == 0 ? -1 : 100'000;
        const CallSignature back = from_tag(to_tag(call));
        EXPECT_EQ(back.collective, call.collective);
        EXPECT_EQ(back.type, call.type);
        EXPECT_EQ(back.op, call.op);
        EXPECT_EQ(back.root, call.root);
        EXPECT_EQ(back.count, call.count);
        EXPECT_EQ(back.sequence, call.sequence);
        EXPECT_EQ(back.plan, call.plan);
      }
}

TEST(CallSignature, IsAtOddsWithAnotherCallOfTheSameNumber) {
  EXPECT_FALSE(are_at_odds(some(), some()));
  CallSignature other = some();
  other.root = 2;
  EXPECT_TRUE(are_at_odds(some(), other));
  other.sequence += 1;  // later, which is no contradiction
  EXPECT_FALSE(are_at_odds(some(), other));
  other = some();
  other.collective = Collective::send_recv;
  EXPECT_FALSE(are_at_odds(some(), other));
}

TEST(CallSignature, EveryFieldChangesTheTag) {
  const transport::Tag tag = to_tag(some());
  const auto differs = [&](auto&& change) {
    CallSignature call = some();
    change(call);
    EXPECT_FALSE(to_tag(call) == tag);
  };
  differs([](auto& c) { c.collective = Collective::broadcast; });
  differs([](auto& c) { c.type = DataType::f16; });
  differs([](auto& c) { c.op = ReduceOp::sum; });
  differs([](auto& c) { c.root = -1; });
  differs([](auto& c) { c.count += std::uint64_t{1} << 33; });
  differs([](auto& c) { ++c.sequence; });
  differs([](auto& c) { ++c.plan; });
  CallSignature next = some();
  transport::Tag renumbered = tag;
  renumber(renumbered, ++next.sequence);
  EXPECT_TRUE(renumbered == to_tag(next));
}

TEST(CallSignature, AForeignTagIsReadWithoutHarm) {
  transport::Tag tag;
  for (std::uint64_t& word : tag.words) word = ~std::uint64_t{0};
  EXPECT_FALSE(describe(from_tag(tag)).empty());
}

TEST(CallSignature, DescribesWhatAPersonTyped) {
  EXPECT_EQ(describe({Collective::all_reduce, DataType::f32, ReduceOp::sum, -1, 12, 7, 0}), "all_reduce of 12 f32 (sum), call 7");
  EXPECT_EQ(describe({Collective::broadcast, DataType::u8, ReduceOp::sum, 2, 1, 9, 0}), "broadcast of 1 u8 with root 2, call 9");
  EXPECT_EQ(describe({Collective::barrier, DataType::u8, ReduceOp::sum, -1, 0, 1, 0}), "barrier, call 1");
}

TEST(CallSignature, SaysWhatKindOfMismatch) {
  const CallSignature mine{Collective::all_reduce, DataType::f32, ReduceOp::sum, -1, 12, 7, 1};
  CallSignature late = mine, count = mine, plan = mine;
  late.sequence = 6;
  count.count = 13;
  plan.plan = 2;
  CallSignature wide = mine;
  wide.plan |= kWidePartialsHash;
  const auto said = [&](const CallSignature& theirs) { return mismatch_of_calls(mine, 4, theirs).message; };
  EXPECT_NE(said(wide).find("f32 (sum, partial sums in f32), call 7"), std::string::npos);
  EXPECT_NE(said(wide).find("PEAL_PARTIAL_SUMS"), std::string::npos);
  EXPECT_NE(said(late).find("left out or added a call"), std::string::npos);
  EXPECT_NE(said(count).find("the same calls in the same order"), std::string::npos);
  EXPECT_NE(said(plan).find("different plans"), std::string::npos);
  EXPECT_NE(said(count).find("rank 4"), std::string::npos);
}

TEST(CallSignature, SaysWhatIsWrongWithAMessage) {
  const CallSignature mine{Collective::all_reduce, DataType::f32, ReduceOp::sum, -1, 12, 7, 1};
  CallSignature next = mine;
  ++next.sequence;
  const transport::Tag tag = to_tag(mine), next_tag = to_tag(next);
  const auto said = [&](bool is_marked, const transport::Tag* got) {
    const Failure failure = mismatch_of_message(mine, 4, is_marked, 48, 40, got);
    EXPECT_EQ(failure.code, ErrorCode::mismatch);
    EXPECT_EQ(failure.rank, 4);
    EXPECT_EQ(failure.peer, 4);
    EXPECT_EQ(failure.operation, "all_reduce");
    return failure.message;
  };
  EXPECT_EQ(said(true, nullptr), "rank 4 is still sending for an earlier call than all_reduce of 12 f32 (sum), call 7");
  EXPECT_EQ(said(true, &next_tag), mismatch_of_calls(mine, 4, next).message);
  EXPECT_EQ(said(false, &next_tag),
            "rank 4 went on to all_reduce of 12 f32 (sum), call 8 in the middle of all_reduce of 12 f32 (sum), call 7");
  const std::string lengths =
      "rank 4 sent 48 bytes where 40 were expected in all_reduce of 12 f32 (sum), call 7; the counts of the two ranks differ";
  EXPECT_EQ(said(true, &tag), lengths);
  EXPECT_EQ(said(false, nullptr), lengths);
}

}  // namespace
}  // namespace peal::executor
