// Messages for several ranks that are stored once.
#include <gtest/gtest.h>

#include <cstring>
#include <transport/shm.hpp>
#include <vector>

namespace peal::transport {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kSharedBytes = 10'000;

struct Job {
  std::shared_ptr<SharedSegment> memory =
      std::make_shared<SharedSegment>(std::move(*SharedSegment::create(ShmSlotPool::bytes_for(kRanks), "test")));
  std::vector<std::shared_ptr<ShmSlotPool>> pools;
  Job() {
    for (int r = 0; r < kRanks; ++r) pools.push_back(std::make_shared<ShmSlotPool>(memory, 0, kRanks, r));
  }
};

// A communicator over all ranks.
struct Group {
  ShmLayout layout = ShmLayout::of(kRanks);
  std::shared_ptr<SharedSegment> segment = std::make_shared<SharedSegment>(std::move(*SharedSegment::create(layout.total_bytes(), "test")));
  std::unique_ptr<ShmTransport> ranks[kRanks];
  explicit Group(const Job& job) {
    for (int r = 0; r < kRanks; ++r)
      ranks[r] = std::move(*ShmTransport::open(*segment, layout, r, {job.pools[static_cast<std::size_t>(r)], {0, 1, 2}, segment}));
  }
  ShmSender* to(int peer) { return ranks[0]->sender(peer); }
  // Rank 0's room, filled, or null.
  std::byte* fill(char with) {
    std::byte* room = to(1)->acquire_shared();
    if (room != nullptr) std::memset(room, with, kSharedBytes);
    return room;
  }
  bool send_to_both(std::byte* room) {
    const bool went = to(1)->send_shared(room, kSharedBytes, nullptr) && to(2)->send_shared(room, kSharedBytes, nullptr);
    to(1)->end_shared(room);
    return went;
  }
  // What rank 0 has sent to `rank` next is filled with; 0 where there is none.
  char receive(int rank) {
    ShmReceiver* from = ranks[rank]->receiver(0);
    const Message* message = from->peek();
    if (message == nullptr) return 0;
    EXPECT_EQ(message->bytes, kSharedBytes);
    const auto with = static_cast<char>(message->data[0]);
    EXPECT_EQ(message->data[kSharedBytes - 1], message->data[0]);
    from->release();
    return with;
  }
};

TEST(ShmSharedSlots, OneCopyReachesSeveralRanks) {
  const Job job;
  Group group(job);
  ASSERT_NE(group.to(1)->shared_area(), nullptr);
  EXPECT_EQ(group.to(1)->shared_area(), group.to(2)->shared_area());
  std::byte* room = group.fill('a');
  ASSERT_NE(room, nullptr);
  ASSERT_TRUE(group.send_to_both(room));
  EXPECT_EQ(group.receive(1), 'a');
  EXPECT_EQ(group.receive(2), 'a');
}

TEST(ShmSharedSlots, OrderIsKeptAmongMessagesOfAllKinds) {
  const Job job;
  Group group(job);
  const std::vector<std::byte> own(kSharedBytes, std::byte{'o'});
  for (const char with : {'a', 'b', 'c'}) {
    ASSERT_TRUE(group.to(2)->send(own.data(), kSharedBytes, nullptr));
    ASSERT_TRUE(group.send_to_both(group.fill(with)));
    EXPECT_EQ(group.receive(1), with);
    EXPECT_EQ(group.receive(2), 'o');
    EXPECT_EQ(group.receive(2), with);
  }
}

TEST(ShmSharedSlots, WhatOneRankHasNotTakenIsNotOverwritten) {
  const Job job;
  Group group(job);
  for (int i = 0; i < group.layout.slots; ++i) ASSERT_TRUE(group.send_to_both(group.fill(static_cast<char>('a' + i))));
  for (int i = 0; i < group.layout.slots; ++i) EXPECT_EQ(group.receive(1), 'a' + i);
  EXPECT_EQ(group.fill('x'), nullptr) << "rank 2 has taken nothing";
  EXPECT_EQ(group.receive(2), 'a');
  std::byte* room = group.fill('x');
  ASSERT_NE(room, nullptr);
  ASSERT_TRUE(group.send_to_both(room));
  for (const char with : {'b', 'c', 'd', 'x'}) EXPECT_EQ(group.receive(2), with);
  EXPECT_EQ(group.receive(1), 'x');
}

TEST(ShmSharedSlots, ARoomIsKeptUntilItsSenderHasSentItToAll) {
  const Job job;
  Group group(job);
  std::byte* held = group.fill('a');
  ASSERT_TRUE(group.to(1)->send_shared(held, kSharedBytes, nullptr));
  EXPECT_EQ(group.receive(1), 'a');
  for (int i = 0; i < 2 * group.layout.slots; ++i) {
    std::byte* room = group.fill('b');
    ASSERT_NE(room, nullptr);
    EXPECT_NE(room, held);
    ASSERT_TRUE(group.to(1)->send_shared(room, kSharedBytes, nullptr));
    group.to(1)->end_shared(room);
    EXPECT_EQ(group.receive(1), 'b');
  }
  ASSERT_TRUE(group.to(2)->send_shared(held, kSharedBytes, nullptr));
  group.to(1)->end_shared(held);
  EXPECT_EQ(group.receive(2), 'a');
}

TEST(ShmSharedSlots, GroupsTakeTurnsAndDoNotOverwriteEachOther) {
  const Job job;
  Group first(job), second(job);
  ASSERT_TRUE(first.send_to_both(first.fill('a')));
  EXPECT_EQ(second.to(1)->shared_area(), nullptr) << "the first is in its call";
  first.ranks[0]->rest();
  EXPECT_EQ(second.to(1)->shared_area(), nullptr) << "nobody has taken what the first has sent";
  EXPECT_EQ(first.receive(1), 'a');
  EXPECT_EQ(second.to(1)->shared_area(), nullptr) << "rank 2 has not";
  EXPECT_EQ(first.receive(2), 'a');
  ASSERT_NE(second.to(1)->shared_area(), nullptr);
  ASSERT_TRUE(second.send_to_both(second.fill('b')));
  EXPECT_EQ(second.receive(1), 'b');
  second.ranks[0]->rest();
  EXPECT_EQ(second.receive(2), 'b');
  ASSERT_NE(first.to(1)->shared_area(), nullptr);
  ASSERT_TRUE(first.send_to_both(first.fill('c')));
  EXPECT_EQ(first.receive(1), 'c');
  EXPECT_EQ(first.receive(2), 'c');
}

TEST(ShmSharedSlots, WithoutAPoolThereAreNone) {
  auto segment = std::move(*SharedSegment::create(ShmLayout::of(kRanks).total_bytes(), "test"));
  auto alone = std::move(*ShmTransport::open(segment, ShmLayout::of(kRanks), 0));
  EXPECT_EQ(alone->sender(1)->shared_area(), nullptr);
  EXPECT_EQ(alone->sender(1)->acquire_shared(), nullptr);
}

}  // namespace
}  // namespace peal::transport
