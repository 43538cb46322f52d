#include <gtest/gtest.h>

#include <base/clock.hpp>
#include <cstring>
#include <transport/shm.hpp>
#include <vector>

namespace peal::transport {
namespace {

// Two ranks with a pool, and any number of communicators over both of them.
struct PoolJob {
  std::shared_ptr<SharedSegment> memory =
      std::make_shared<SharedSegment>(std::move(*SharedSegment::create(ShmSlotPool::bytes_for(2), "test")));
  std::shared_ptr<ShmSlotPool> pools[2] = {std::make_shared<ShmSlotPool>(memory, 0, 2, 0), std::make_shared<ShmSlotPool>(memory, 0, 2, 1)};
};

struct PoolGroup {
  ShmLayout layout = ShmLayout::of(2);
  std::shared_ptr<SharedSegment> segment = std::make_shared<SharedSegment>(std::move(*SharedSegment::create(layout.total_bytes(), "test")));
  std::unique_ptr<ShmTransport> zero, one;
  explicit PoolGroup(const PoolJob& job) {
    zero = std::move(*ShmTransport::open(*segment, layout, 0, {job.pools[0], {0, 1}, segment}));
    one = std::move(*ShmTransport::open(*segment, layout, 1, {job.pools[1], {0, 1}, segment}));
  }
  bool send(char fill) { return zero->sender(1)->send(std::vector<std::byte>(1000, std::byte(fill)).data(), 1000, nullptr); }
  // What the next message is filled with, or 0 where there is none.
  char receive() {
    ShmReceiver* from = one->receiver(0);
    const Message* message = from->peek();
    if (message == nullptr) return 0;
    const auto fill = static_cast<char>(message->data[0]);
    EXPECT_EQ(message->data[999], message->data[0]);
    from->release();
    return fill;
  }
  const std::byte* place() {
    std::byte* room = zero->sender(1)->acquire(1000);
    if (room == nullptr) return nullptr;
    std::memset(room, 'p', 1000);
    zero->sender(1)->publish(1000, nullptr);
    return room;
  }
  bool is_own(const std::byte* room) const { return room >= segment->data() && room < segment->data() + segment->bytes(); }
};

TEST(ShmSlotPool, GroupsThatTakeTurnsUseTheSameSlots) {
  PoolJob job;
  std::vector<std::unique_ptr<PoolGroup>> groups;
  for (int g = 0; g < 10; ++g) groups.push_back(std::make_unique<PoolGroup>(job));
  for (int round = 0; round < 20; ++round) {
    for (auto& group : groups) {
      const std::byte* room = group->place();
      ASSERT_NE(room, nullptr);
      EXPECT_FALSE(group->is_own(room));
      EXPECT_EQ(group->receive(), 'p');
      group->zero->rest();
    }
  }
}

TEST(ShmSlotPool, MessagesThatNobodyHasTakenAreNotOverwritten) {
  PoolJob job;
  PoolGroup first(job), second(job);
  for (const char fill : {'a', 'b', 'c', 'd'}) ASSERT_TRUE(first.send(fill));
  first.zero->rest();
  // The receiver may be waiting for the second call before it takes what the first has sent: soon it goes on without the pool.
  const std::int64_t deadline = now_ns() + 10'000'000'000;
  while (!second.send('x') && now_ns() < deadline) {
  }
  for (const char fill : {'y', 'z', 'w'}) ASSERT_TRUE(second.send(fill));
  for (const char fill : {'a', 'b', 'c', 'd'}) EXPECT_EQ(first.receive(), fill);
  for (const char fill : {'x', 'y', 'z', 'w'}) EXPECT_EQ(second.receive(), fill);
}

TEST(ShmSlotPool, ACallThatIsUnderWayKeepsItsSlots) {
  PoolJob job;
  PoolGroup first(job), second(job);
  ASSERT_TRUE(first.send('a'));
  EXPECT_EQ(first.receive(), 'a');
  const std::byte* room = second.place();  // no rest: the first is still in its call, or it met a fault
  ASSERT_NE(room, nullptr);
  EXPECT_TRUE(second.is_own(room));
  EXPECT_EQ(second.receive(), 'p');
}

TEST(ShmSlotPool, WhatADestroyedGroupHasSentStaysUntilItIsTaken) {
  PoolJob job;
  auto first = std::make_unique<PoolGroup>(job);
  PoolGroup second(job);
  ASSERT_TRUE(first->send('a'));
  first->zero->rest();
  first->zero.reset();
  const std::int64_t deadline = now_ns() + 10'000'000'000;
  while (!second.send('b') && now_ns() < deadline) {
  }
  EXPECT_EQ(first->receive(), 'a');
  EXPECT_EQ(second.receive(), 'b');
  first.reset();  // the pool keeps what it still has to look at
  second.zero->rest();
  EXPECT_TRUE(second.send('c'));
  EXPECT_EQ(second.receive(), 'c');
}

TEST(ShmSlotPool, OneGroupAloneNeedNotGiveBack) {
  PoolJob job;
  PoolGroup only(job);
  const std::byte* room = only.place();
  EXPECT_FALSE(only.is_own(room));
  only.zero->rest();
  PoolGroup second(job);
  EXPECT_EQ(only.receive(), 'p');
  EXPECT_TRUE(second.is_own(second.place())) << "the first has not rested since there were two";
  only.zero->rest();
  second.zero->rest();
  EXPECT_EQ(second.receive(), 'p');
  EXPECT_FALSE(second.is_own(second.place()));
}

TEST(ShmSlotPool, WhatWasReadAsideLiesInMemoryThatIsGivenBack) {
  const PoolJob job;
  ShmSlotPool& pool = *job.pools[0];
  std::unique_ptr<std::byte[]> first = pool.lend_aside(1000);
  const std::byte* const at = first.get();
  const std::unique_ptr<std::byte[]> second = pool.lend_aside(1000);
  EXPECT_NE(second.get(), at);
  pool.give_back_aside(std::move(first), 1000);
  const std::unique_ptr<std::byte[]> longer = pool.lend_aside(1001);
  EXPECT_NE(longer.get(), at) << "it is too short";
  EXPECT_EQ(pool.lend_aside(500).get(), at);
}

}  // namespace
}  // namespace peal::transport
