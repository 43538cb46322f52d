// Messages that are read in their sender's memory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.hpp>
#include <cstring>
#include <thread>
#include <transport/shm.hpp>
#include <vector>

#include "shm_pair.hpp"

namespace peal::transport {
namespace {

TEST(ShmTransport, ReferencesNeedAProof) {
  Pair p;
  EXPECT_FALSE(p.zero->sender(1)->has_references());
  const std::byte data{};
  EXPECT_FALSE(p.zero->sender(1)->send_reference(&data, 1, nullptr));
  pass_one(*p.zero, *p.one);
  EXPECT_TRUE(p.zero->sender(1)->has_references());
  EXPECT_FALSE(p.one->sender(0)->has_references()) << "rank 0 has not read rank 1's memory";
}

TEST(ShmTransport, WhoRefusesReferencesGetsNone) {
  Pair p;
  p.one->refuse_references();
  pass_one(*p.zero, *p.one);
  EXPECT_FALSE(p.zero->sender(1)->has_references());
}

TEST(ShmTransport, AReferenceThatNobodyComesForIsCopiedIntoASlot) {
  Pair p;
  pass_one(*p.zero, *p.one);
  std::vector<std::byte> data(50000, std::byte{1});
  ShmSender* const to = p.zero->sender(1);
  ASSERT_TRUE(to->send_reference(data.data(), data.size(), nullptr));
  EXPECT_FALSE(to->is_drained());
  EXPECT_TRUE(to->copy_references());
  EXPECT_TRUE(to->is_drained());
  data.assign(data.size(), std::byte{2});
  const Message* const message = p.one->receiver(0)->peek();
  ASSERT_NE(message, nullptr);
  ASSERT_EQ(message->bytes, data.size());
  EXPECT_EQ(message->data[49999], std::byte{1});
  p.one->receiver(0)->release();
}

TEST(ShmTransport, AReferenceIsCopiedToWhereItIsPeekedIntoIfItFits) {
  Pair p;
  pass_one(*p.zero, *p.one);
  const std::vector<std::byte> data(50000, std::byte{1});
  ShmSender* const to = p.zero->sender(1);
  Receiver& from = *p.one->receiver(0);
  std::vector<std::byte> room(data.size());
  for (const std::size_t bytes : {data.size(), data.size() - 1}) {
    room.assign(room.size(), std::byte{2});
    ASSERT_EQ(from.peek_into(room.data(), bytes), nullptr);
    // The sender, asked for its half, would leave it to the receiver, who reads on at once.
    ASSERT_TRUE(to->send_reference(data.data(), data.size(), nullptr, true));
    const Message* const message = from.peek_into(room.data(), bytes);
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->data == room.data(), bytes == data.size());
    ASSERT_EQ(message->bytes, data.size());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), message->data));
    EXPECT_EQ(from.peek(), message) << "until it is released";
    from.release();
    EXPECT_TRUE(to->is_drained());
  }
  EXPECT_EQ(room.front(), std::byte{2}) << "what does not fit goes elsewhere";
  ASSERT_TRUE(to->send(data.data(), data.size(), nullptr));
  const Message* const in_slot = from.peek_into(room.data(), room.size());
  ASSERT_NE(in_slot, nullptr);
  EXPECT_NE(in_slot->data, room.data()) << "it is read where it lies";
  from.release();
}

// By which a sender knows one that is late from one that takes message after message.
TEST(ShmTransport, WhatTheReceiverHasDoneWithIsCounted) {
  Pair p;
  pass_one(*p.zero, *p.one);
  ShmSender* const to = p.zero->sender(1);
  const std::vector<std::byte> data(50000);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(to->send_reference(data.data(), data.size(), nullptr));
  EXPECT_FALSE(to->is_drained());
  EXPECT_EQ(to->released(), 1u);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    ASSERT_NE(p.one->receiver(0)->peek(), nullptr);
    EXPECT_FALSE(to->is_drained());
    p.one->receiver(0)->release();
    EXPECT_EQ(to->is_drained(), i == 2);
    EXPECT_EQ(to->released(), 1 + i);
  }
}

TEST(ShmTransport, AWithdrawnReferenceNeverComes) {
  Pair p;
  pass_one(*p.zero, *p.one);
  std::vector<std::byte> data(50000, std::byte{1}), target(50000);
  ASSERT_TRUE(p.zero->sender(1)->send_reference(data.data(), data.size(), nullptr));
  p.zero->sender(1)->withdraw_references();
  std::size_t got = 0;
  Tag tag;
  bool has_tag = false;
  EXPECT_TRUE(p.one->receiver(0)->has_message());
  EXPECT_FALSE(p.one->receiver(0)->receive(target.data(), target.size(), &got, &tag, &has_tag));
  EXPECT_EQ(p.one->receiver(0)->peek(), nullptr);
}

constexpr std::int64_t kSoonNs = 10'000'000'000;
constexpr std::int64_t kMayNotComeNs = 2'000'000'000;

template <class Condition>
bool comes_soon(Condition&& condition, std::int64_t within_ns = kSoonNs) {
  for (const std::int64_t deadline = now_ns() + within_ns; now_ns() < deadline; usleep(100))
    if (condition()) return true;
  return false;
}

/// Rank 0 here and rank 1 in a process of its own, which does `send` when rank 0 has shown that it can read its memory, and stays until it
/// is killed.
class TwoProcesses {
 public:
  template <class Send>
  explicit TwoProcesses(Send&& send) {
    child_ = fork();
    if (child_ == 0) {
      auto one = ShmTransport::open(*segment_, layout_, 1);
      ShmSender* const out = (*one)->sender(0);
      const std::vector<std::byte> first(1000);
      out->send(first.data(), first.size(), nullptr);
      if (comes_soon([&] { return out->has_references(); })) send(*out);
      for (;;) pause();
    }
    comes_soon([&] { return in()->peek() != nullptr; });
    in()->release();
  }
  TwoProcesses(const TwoProcesses&) = delete;
  TwoProcesses& operator=(const TwoProcesses&) = delete;
  ~TwoProcesses() { end(); }
  void end() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      int status = 0;
      waitpid(child_, &status, 0);
    }
    child_ = -1;
  }

  ShmTransport& zero() { return **zero_; }
  ShmReceiver* in() { return zero().receiver(1); }
  /// False where one process cannot read another's memory: then no reference comes.
  bool has_sent() {
    return comes_soon([&] { return in()->has_message(); }, kMayNotComeNs);
  }

 private:
  const ShmLayout layout_ = ShmLayout::of(2);
  Result<SharedSegment> segment_ = SharedSegment::create(layout_.total_bytes(), "test");
  Result<std::unique_ptr<ShmTransport>> zero_ = ShmTransport::open(*segment_, layout_, 0);
  pid_t child_ = -1;
};

constexpr const char* kCannotRead = "one process cannot read another's memory here";

TEST(ShmTransport, AReferenceIntoADeadProcessFailsWithItsRank) {
  TwoProcesses two([](ShmSender& out) {
    static const std::vector<std::byte> data(100000, std::byte{3});
    out.send_reference(data.data(), data.size(), nullptr);
  });
  if (!two.has_sent()) GTEST_SKIP() << kCannotRead;
  two.end();
  std::vector<std::byte> target(100000);
  std::size_t got = 0;
  Tag tag;
  bool has_tag = false;
  EXPECT_FALSE(two.in()->receive(target.data(), target.size(), &got, &tag, &has_tag));
  ASSERT_FALSE(two.zero().health());
  EXPECT_EQ(two.zero().health().error().code, ErrorCode::rank_dead) << two.zero().health().error().message;
  EXPECT_EQ(two.zero().health().error().rank, 1);
  two.in()->give_up();
}

// Another process cannot read a page that has no right of reading, as it cannot read a device's: such a message comes by a slot.
TEST(ShmTransport, MemoryThatOnlyItsOwnerReadsComesBySlots) {
  constexpr std::size_t kBytes = 65536;
  TwoProcesses two([](ShmSender& out) {
    void* const data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(data, 5, kBytes);
    mprotect(data, kBytes, PROT_NONE);
    out.send_reference(static_cast<std::byte*>(data), kBytes, nullptr);
    comes_soon([&] { return !out.has_references(); });  // until the receiver has tried
    mprotect(data, kBytes, PROT_READ);
    comes_soon([&] { return out.is_drained(); });
  });
  if (!two.has_sent()) GTEST_SKIP() << kCannotRead;
  std::vector<std::byte> target(kBytes);
  std::size_t got = 0;
  Tag tag;
  bool has_tag = false;
  ASSERT_TRUE(comes_soon([&] { return two.in()->receive(target.data(), target.size(), &got, &tag, &has_tag); }));
  ASSERT_EQ(got, kBytes);
  EXPECT_EQ(target[kBytes - 1], std::byte{5});
  EXPECT_TRUE(two.zero().health());
}

// References that go right behind one another are read together where the receiver says that more is to come; each is a message as before.
class ReferencesBehindOneAnother : public ::testing::TestWithParam<int> {};

TEST_P(ReferencesBehindOneAnother, ComeInOrderAndWhole) {
  constexpr std::size_t kBytes = 8192, kMessages = 6;
  const int hidden = GetParam();  // lies where its owner alone can read for a while; -1: none does
  TwoProcesses two([hidden](ShmSender& out) {
    void* const data = mmap(nullptr, kBytes * kMessages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const at = static_cast<std::byte*>(data);
    for (std::size_t i = 0; i < kMessages; ++i) std::memset(at + i * kBytes, static_cast<int>(i) + 1, kBytes);
    std::byte* const page = at + static_cast<std::size_t>(std::max(hidden, 0)) * kBytes;
    if (hidden >= 0) mprotect(page, kBytes, PROT_NONE);
    const Tag tag{};
    for (std::size_t i = 0; i < kMessages; ++i)
      comes_soon([&] { return out.send_reference(at + i * kBytes, kBytes, i == 0 ? &tag : nullptr); });
    if (hidden >= 0) {
      comes_soon([&] { return !out.has_references(); });
      mprotect(page, kBytes, PROT_READ);
    }
    comes_soon([&] { return out.is_drained(); });
  });
  if (!two.has_sent()) GTEST_SKIP() << kCannotRead;
  usleep(20'000);  // so that several are there
  std::vector<std::byte> target(kBytes * kMessages + 1);
  for (std::size_t i = 0; i < kMessages; ++i) {
    std::size_t got = 0;
    Tag tag;
    bool has_tag = false;
    ASSERT_TRUE(comes_soon([&] {
      two.in()->expect((kMessages - 1 - i) * kBytes);
      return two.in()->receive(target.data() + i * kBytes, kBytes, &got, &tag, &has_tag);
    })) << "message "
        << i;
    EXPECT_EQ(got, kBytes);
    EXPECT_EQ(has_tag, i == 0);
    for (const std::size_t byte : {std::size_t{0}, kBytes - 1}) EXPECT_EQ(target[i * kBytes + byte], static_cast<std::byte>(i + 1)) << i;
  }
  EXPECT_EQ(target.back(), std::byte{0});
  EXPECT_TRUE(two.zero().health());
}

INSTANTIATE_TEST_SUITE_P(ShmTransport, ReferencesBehindOneAnother, ::testing::Values(-1, 0, 1, 3, 5));

// What is expected has an end: what goes beyond it is left for the next receive.
TEST(ShmTransport, ReferencesAreReadAsFarAsThereIsRoomForThem) {
  constexpr std::size_t kBytes = 8192, kMessages = 4;
  TwoProcesses two([](ShmSender& out) {
    static const std::vector<std::byte> data(kBytes, std::byte{7});
    for (std::size_t i = 0; i < kMessages; ++i) out.send_reference(data.data(), kBytes, nullptr);
  });
  if (!two.has_sent()) GTEST_SKIP() << kCannotRead;
  usleep(20'000);
  std::vector<std::byte> target(kBytes * 3);
  std::size_t got = 0;
  Tag tag;
  bool has_tag = false;
  two.in()->expect(2 * kBytes - 1);
  ASSERT_TRUE(comes_soon([&] { return two.in()->receive(target.data(), kBytes, &got, &tag, &has_tag); }));
  EXPECT_EQ(target[2 * kBytes - 1], std::byte{7}) << "the second was there";
  EXPECT_EQ(target[2 * kBytes], std::byte{0});
  std::vector<std::byte> elsewhere(kBytes);
  ASSERT_TRUE(two.in()->receive(elsewhere.data(), kBytes, &got, &tag, &has_tag)) << "also where it is wanted in another place after all";
  EXPECT_EQ(elsewhere[kBytes - 1], std::byte{7});
}

}  // namespace
}  // namespace peal::transport
