// What one rank alone can check, and what the plans are found by.
#include <gtest/gtest.h>
#include <comm/call.hpp>
#include <comm/plans.hpp>

#include <array>

namespace peal::comm {
namespace {

TEST(SizeClass, IsTheUpperPowerOfTwo) {
  EXPECT_EQ(size_class_of(0), 0);
  EXPECT_EQ(size_class_of(1), 0);
  EXPECT_EQ(size_class_of(2), 1);
  EXPECT_EQ(size_class_of(3), 2);
  EXPECT_EQ(size_class_of(4), 2);
  EXPECT_EQ(size_class_of(5), 3);
  EXPECT_EQ(size_class_of(std::uint64_t{1} << 40), 40);
  EXPECT_EQ(size_class_of((std::uint64_t{1} << 40) + 1), 41);
}

TEST(InPlace, FollowsNcclsOffsets) {
  std::array<float, 12> memory{};
  Call call;
  call.count = 3;
  call.type = DataType::f32;
  const auto in_place = [&](Collective c, std::size_t send, std::size_t receive, int rank, int root = -1) {
    call.collective = c;
    call.send = memory.data() + send;
    call.receive = memory.data() + receive;
    call.root = root;
    return is_in_place(call, rank, 4);
  };
  EXPECT_TRUE(in_place(Collective::all_reduce, 0, 0, 2));
  EXPECT_FALSE(in_place(Collective::all_reduce, 0, 3, 2));
  EXPECT_TRUE(in_place(Collective::all_gather, 6, 0, 2));
  EXPECT_FALSE(in_place(Collective::all_gather, 6, 0, 1));
  EXPECT_TRUE(in_place(Collective::reduce_scatter, 0, 9, 3));
  EXPECT_TRUE(in_place(Collective::gather, 3, 0, 1, 1));
  EXPECT_FALSE(in_place(Collective::gather, 3, 0, 1, 0));
  EXPECT_TRUE(in_place(Collective::scatter, 0, 3, 1, 1));
  EXPECT_TRUE(in_place(Collective::broadcast, 0, 0, 1, 1));
  EXPECT_FALSE(in_place(Collective::all_to_all, 0, 0, 0));
  const std::array<std::uint64_t, 4> displs{0, 5, 1, 2};
  call.send_displs = call.receive_displs = displs;
  EXPECT_TRUE(in_place(Collective::gather_v, 5, 0, 1, 1));
  EXPECT_FALSE(in_place(Collective::gather_v, 3, 0, 1, 1));
  EXPECT_TRUE(in_place(Collective::scatter_v, 0, 5, 1, 1));
  call.send_displs = call.receive_displs = {};
  EXPECT_FALSE(in_place(Collective::gather_v, 5, 0, 1, 2));
  EXPECT_FALSE(in_place(Collective::scatter_v, 0, 5, 1, 2));
}

TEST(SizeInBytes, IsCountedAsNcclTestsDoes) {
  Call call;
  call.count = 10;
  call.type = DataType::f64;
  call.collective = Collective::all_reduce;
  EXPECT_EQ(size_in_bytes(call, 4), 80u);
  call.collective = Collective::all_gather;
  EXPECT_EQ(size_in_bytes(call, 4), 320u);
  call.collective = Collective::barrier;
  EXPECT_EQ(size_in_bytes(call, 4), 0u);
  const std::array<std::uint64_t, 4> counts{1, 0, 5, 2};
  call.receive_counts = counts;
  call.collective = Collective::all_gather_v;
  EXPECT_EQ(size_in_bytes(call, 4), 64u);
  // Only the root knows the counts: what all ranks choose a plan by must not depend on them.
  for (const Collective c : {Collective::gather_v, Collective::scatter_v, Collective::all_to_all_v}) {
    call.collective = c;
    EXPECT_EQ(size_in_bytes(call, 4), kNominalBytes);
  }
}

TEST(Check, CountsOfAllMatterAtTheRootOnly) {
  std::array<float, 12> memory{};
  const std::array<std::uint64_t, 3> counts{1, 4, 2}, displs{0, 1, 5};
  Call call{Collective::gather_v, memory.data(), memory.data(), 4, DataType::f32};
  call.root = 1;
  EXPECT_TRUE(check(call, 0, 3));
  EXPECT_TRUE(check(call, 2, 3));
  EXPECT_NE(check(call, 1, 3).error().message.find("0 counts"), std::string::npos);
  call.receive_counts = counts;
  call.receive_displs = displs;
  EXPECT_TRUE(check(call, 1, 3));
  call.count = 3;
  EXPECT_NE(check(call, 1, 3).error().message.find("the root's own count is 3, but its list of counts says 4"), std::string::npos);
  call.count = 4;
  call.send = nullptr;
  EXPECT_FALSE(check(call, 0, 3));
  call.send = memory.data();
  call.receive = nullptr;
  EXPECT_TRUE(check(call, 0, 3));
  EXPECT_FALSE(check(call, 1, 3));
  call.root = 3;
  EXPECT_FALSE(check(call, 0, 3));
}

TEST(RestrictTo, KeepsGroupsAndNumbersThemAnew) {
  tuning::Environment whole;
  whole.ranks = 6;
  whole.nodes = 2;
  whole.placement.group = {0, 0, 0, 1, 1, 1};
  whole.core_of = {4, 5, 6, 4, 5, 6};
  whole.level[0].is_used = whole.level[1].is_used = true;
  const tuning::Environment one_host = restrict_to(whole, {5, 3});
  EXPECT_EQ(one_host.ranks, 2);
  EXPECT_EQ(one_host.nodes, 1);
  EXPECT_FALSE(one_host.level[1].is_used);
  const tuning::Environment one_each = restrict_to(whole, {0, 4});
  EXPECT_EQ(one_each.nodes, 2);
  EXPECT_FALSE(one_each.level[0].is_used);
  EXPECT_TRUE(one_each.level[1].is_used);
}

}  // namespace
}  // namespace peal::comm
