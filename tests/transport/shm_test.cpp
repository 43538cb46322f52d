#include <gtest/gtest.h>

#include <base/clock.hpp>
#include <cstring>
#include <thread>
#include <transport/shm.hpp>
#include <vector>

#include "shm_pair.hpp"

namespace peal::transport {
namespace {

TEST(ShmLayout, RegionsNeverOverlapAndFit) {
  for (int ranks : {1, 2, 3, 8, 9, 33}) {
    for (int channels : {1, 3}) {
      const auto layout = ShmLayout::of(ranks, channels, 5000);
      ASSERT_TRUE(layout.check());
      EXPECT_GE(layout.card_offset(0), 5000u);
      EXPECT_GE(layout.proof_offset(0, 0), layout.card_offset(ranks - 1) + sizeof(ShmCard));
      EXPECT_GT(layout.head_bytes(), layout.proof_offset(ranks - 1, ranks - 1));
      EXPECT_EQ(layout.head_bytes() % kLineStride, 0u);
      std::size_t ring = layout.head_bytes();
      std::size_t data = layout.total_bytes() - static_cast<std::size_t>(ranks * (ranks - 1) * channels) * layout.data_bytes();
      EXPECT_EQ(data % 4096, 0u);
      for (int channel = 0; channel < channels; ++channel) {
        for (int from = 0; from < ranks; ++from) {
          for (int to = 0; to < ranks; ++to) {
            if (from == to) continue;
            EXPECT_EQ(layout.ring_offset(from, to, channel), ring);
            EXPECT_EQ(layout.data_offset(from, to, channel), data);
            ring += layout.ring_bytes();
            data += layout.data_bytes();
          }
        }
      }
      EXPECT_EQ(data, layout.total_bytes());
      EXPECT_LE(ring, layout.total_bytes() - static_cast<std::size_t>(ranks * (ranks - 1) * channels) * layout.data_bytes());
    }
  }
}

TEST(ShmLayout, BeginsWhereItIsTold) {
  const ShmLayout first = ShmLayout::of(4, 2, 1000);
  ShmLayout second = first;
  second.base = first.total_bytes();
  ASSERT_TRUE(second.check());
  EXPECT_EQ(second.total_bytes(), first.total_bytes());
  EXPECT_EQ(second.head_bytes(), first.head_bytes());
  EXPECT_EQ(second.card_offset(3), second.base + first.card_offset(3));
  EXPECT_EQ(second.proof_offset(1, 2), second.base + first.proof_offset(1, 2));
  EXPECT_EQ(second.ring_offset(3, 0, 1), second.base + first.ring_offset(3, 0, 1));
  EXPECT_EQ(second.data_offset(3, 2, 1) + second.data_bytes(), second.base + second.total_bytes());
}

TEST(ShmLayout, RefusesWhatCannotBe) {
  auto broken = [](auto change) {
    auto layout = ShmLayout::of(2);
    change(layout);
    return !layout.check().has_value();
  };
  EXPECT_TRUE(broken([](ShmLayout& l) { l.ranks = 0; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.channels = 0; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.base = 100; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.slots = 3; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.slots = 128; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.spread = 0; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.spread = static_cast<int>(kPlaces) + 1; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.lines = 1; }));
  EXPECT_TRUE(broken([](ShmLayout& l) { l.slot_bytes = 1000; }));
}

TEST(ShmTransport, SmallMessagesUseMoreLinesThanSlots) {
  Pair p;
  auto* out = p.zero->sender(1);
  const std::byte data[200] = {};
  int small = 0;
  while (out->send(data, 8, nullptr)) ++small;
  EXPECT_EQ(small, p.layout.lines);
  auto* in = p.one->receiver(0);
  while (in->peek() != nullptr) in->release();
  int large = 0;
  while (out->send(data, 200, nullptr)) ++large;
  EXPECT_EQ(large, p.layout.slots);
  EXPECT_FALSE(out->is_ready());
  EXPECT_TRUE(out->send(data, 8, nullptr)) << "a line is free though no slot is";
}

TEST(ShmTransport, MessagesThatFitIntoALineNeedNoDataMemory) {
  Pair p;
  const std::byte data[300] = {};
  const Tag tag{{1, 2, 3}};
  ASSERT_TRUE(p.zero->sender(1)->send(data, kInlineBytes, &tag));
  ASSERT_TRUE(p.zero->sender(1)->send(data, kInlineBytesUntagged, nullptr));
  const auto* base = p.segment.data();
  const auto* m = p.one->receiver(0)->peek();
  ASSERT_NE(m, nullptr);
  EXPECT_LT(m->data, base + p.layout.data_offset(0, 1, 0));
  p.one->receiver(0)->release();
  EXPECT_LT(p.one->receiver(0)->peek()->data, base + p.layout.data_offset(0, 1, 0));
  p.one->receiver(0)->release();
  ASSERT_TRUE(p.zero->sender(1)->send(data, kInlineBytes + 1, &tag));
  EXPECT_GE(p.one->receiver(0)->peek()->data, base + p.layout.data_offset(0, 1, 0));
}

// Messages in flight never overlap, whatever their lengths, and come back to a place only after their slot's area has been filled. Short
// ones lie before the last one, since what lies behind that is fetched along by its receiver's prefetcher. The longest do so one way only.
TEST(ShmTransport, MessagesGoRoundInTheAreasOfTheirSlots) {
  for (const auto& [spread, is_one_way] : {std::pair(2, false), std::pair(2, true), std::pair(3, false), std::pair(3, true)}) {
    ShmLayout layout = ShmLayout::of(2);
    layout.spread = spread;
    Pair p(layout);
    const std::byte* const begin = p.segment.data() + layout.data_offset(0, 1, 0);
    const auto slots = static_cast<std::size_t>(layout.slots);
    using Places = std::vector<std::vector<std::pair<std::size_t, std::size_t>>>;  // of each slot, one by one
    Places of_short(slots), of_long(slots);
    auto* out = p.zero->sender(1);
    auto* in = p.one->receiver(0);
    out->set_one_way(is_one_way);
    const std::size_t most = is_one_way ? layout.slot_bytes : layout.slot_bytes / 2;
    const std::size_t sizes[] = {16 * 1024, 200, layout.slot_bytes, 40'000, kMostBackwardsBytes, 100'000, 12'345, 5'000, 70'000};
    for (std::size_t k = 0; k < 500; ++k) {
      const std::size_t bytes = sizes[k % std::size(sizes)];
      std::byte* const room = out->acquire(bytes);
      ASSERT_NE(room, nullptr);
      EXPECT_EQ(out->acquire(bytes), room);
      const auto at = static_cast<std::size_t>(room - begin);
      const std::size_t slot = k % slots;
      EXPECT_GE(at, slot * layout.area_bytes());
      EXPECT_LE(at + bytes, (slot + 1) * layout.area_bytes());
      room[0] = room[bytes - 1] = static_cast<std::byte>(k);
      out->publish(bytes, nullptr);
      const Message* const m = in->peek();
      ASSERT_NE(m, nullptr);
      EXPECT_EQ(m->data - (p.segment.data() + layout.data_offset(0, 1, 0)), room - begin);
      EXPECT_EQ(m->data[bytes - 1], static_cast<std::byte>(k));
      in->release();
      if (bytes >= kLeastPlacedBytes && bytes <= most)
        (bytes <= kMostBackwardsBytes ? of_short : of_long)[slot].push_back({at, bytes});
      else
        EXPECT_EQ(at, slot * layout.area_bytes());
    }
    const auto of_area = [&](std::size_t at) { return at % layout.area_bytes(); };
    const auto at_next_place = [&](std::size_t at) {
      return (at + layout.place_bytes() - 1) / layout.place_bytes() * layout.place_bytes();
    };
    for (const auto& of_slot : of_long) {
      ASSERT_GT(of_slot.size(), 20u);
      for (std::size_t i = 1; i < of_slot.size(); ++i) {
        const std::size_t next = at_next_place(of_area(of_slot[i - 1].first) + of_slot[i - 1].second);
        const bool fits = next + of_slot[i].second <= layout.area_bytes();
        EXPECT_EQ(of_area(of_slot[i].first), fits ? next : 0) << "after " << of_slot[i - 1].first;
      }
    }
    for (const auto& of_slot : of_short) {
      ASSERT_GT(of_slot.size(), 20u);
      for (std::size_t i = 1; i < of_slot.size(); ++i) {
        const std::size_t end = of_area(of_slot[i - 1].first), bytes = at_next_place(of_slot[i].second);
        EXPECT_EQ(of_area(of_slot[i].first), (end >= bytes ? end : layout.area_bytes()) - bytes) << "after " << of_slot[i - 1].first;
      }
    }
  }
}

// With the ranks' turns on a core, few slots: the lowest that is free, and none that is not.
TEST(ShmTransport, WhereSlotsAreToBeFewTheLowestFreeOneIsTaken) {
  for (const int ranks : {2, 3}) {
    const ShmLayout layout = ShmLayout::of(ranks);
    Pair p(layout);
    p.zero->keep_slots_few();
    auto* out = p.zero->sender(1);
    auto* in = p.one->receiver(0);
    const std::byte* const begin = p.segment.data() + layout.data_offset(0, 1, 0);
    const auto send = [&](std::uint8_t content) {
      std::byte* const room = out->acquire(16 * 1024);
      if (room == nullptr) return -1;
      room[0] = static_cast<std::byte>(content);
      out->publish(16 * 1024, nullptr);
      EXPECT_EQ(static_cast<std::size_t>(room - begin) % layout.area_bytes(), 0);
      return static_cast<int>(static_cast<std::size_t>(room - begin) / layout.area_bytes());
    };
    const auto receive = [&] {
      const Message* const message = in->peek();
      if (message == nullptr) return -1;
      const int content = static_cast<int>(message->data[0]);
      in->release();
      return content;
    };
    for (std::uint8_t k = 0; k < 10; ++k) {
      EXPECT_EQ(send(k), 0);
      EXPECT_EQ(receive(), k);
    }
    for (std::uint8_t k = 0; k < layout.slots; ++k) EXPECT_EQ(send(10 + k), k);
    EXPECT_FALSE(out->is_ready());
    EXPECT_EQ(send(99), -1);
    EXPECT_EQ(receive(), 10);
    EXPECT_EQ(receive(), 11);
    EXPECT_TRUE(out->is_ready());
    EXPECT_EQ(send(20), 0);
    EXPECT_EQ(send(21), 1);
    EXPECT_FALSE(out->is_ready());
    for (const int content : {12, 13, 20, 21}) EXPECT_EQ(receive(), content);
    EXPECT_EQ(send(30), 0);
  }
}

TEST(ShmTransport, AmongThreeRanksEveryMessageLiesAtTheBeginningOfItsSlot) {
  const ShmLayout layout = ShmLayout::of(3);
  Pair p(layout);
  for (int k = 0; k < 20; ++k) {
    std::byte* const room = p.zero->sender(1)->acquire(16 * 1024);
    ASSERT_NE(room, nullptr);
    EXPECT_EQ(static_cast<std::size_t>(room - p.segment.data()),
              layout.data_offset(0, 1, 0) + static_cast<std::size_t>(k % layout.slots) * layout.slot_bytes);
    p.zero->sender(1)->publish(16 * 1024, nullptr);
    ASSERT_NE(p.one->receiver(0)->peek(), nullptr);
    p.one->receiver(0)->release();
  }
  EXPECT_EQ(p.zero->sender(1)->drained().bytes, 0u);
}

TEST(ShmTransport, TheSenderLearnsHowLongTheReceiverTookForLongMessages) {
  Pair p;
  auto* out = p.zero->sender(1);
  auto* in = p.one->receiver(0);
  std::vector<std::byte> data(kLeastPlacedBytes);
  const auto pass = [&](std::size_t bytes) {
    for (int k = 0; k < p.layout.slots; ++k) {
      ASSERT_TRUE(out->send(data.data(), bytes, nullptr));
      ASSERT_NE(in->peek(), nullptr);
      in->release();
    }
  };
  pass(kLeastPlacedBytes - 1);
  EXPECT_EQ(out->drained().bytes, 0u);
  constexpr std::size_t kOneIn = TimingTurns::kEach / kLeastPlacedBytes;
  for (std::size_t sent = 0; sent < 2 * kOneIn; sent += static_cast<std::size_t>(p.layout.slots)) {
    EXPECT_EQ(out->drained().bytes, sent / kOneIn * kLeastPlacedBytes) << "one of " << kOneIn << " short messages is timed";
    pass(kLeastPlacedBytes);
  }
  EXPECT_EQ(out->drained().bytes, 2 * kLeastPlacedBytes);
  EXPECT_GT(out->drained().ns, 0u);
  data.resize(TimingTurns::kEach);
  pass(TimingTurns::kEach);
  EXPECT_EQ(out->drained().bytes, 2 * kLeastPlacedBytes + TimingTurns::kEach) << "one of the slots' messages is timed";
  for (int k = 0; k < p.layout.slots; ++k) {
    ASSERT_TRUE(out->send(data.data(), TimingTurns::kEach, nullptr));
    ASSERT_NE(in->peek(), nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    in->release();
  }
  EXPECT_EQ(out->drained().bytes, 2 * kLeastPlacedBytes + TimingTurns::kEach) << "who needs so long was not running";
}

TEST(ShmTransport, TheTimeOfAMessageCountsFromItsLastPeek) {
  Pair p;
  auto* out = p.zero->sender(1);
  auto* in = p.one->receiver(0);
  const std::vector<std::byte> data(TimingTurns::kEach);
  ASSERT_TRUE(out->send(data.data(), data.size(), nullptr));
  ASSERT_NE(in->peek(), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_NE(in->peek(), nullptr);
  in->release();
  EXPECT_EQ(out->drained().bytes, TimingTurns::kEach);
  EXPECT_LT(out->drained().ns, 5'000'000u);
}

TEST(ShmTransport, SequencesGoOnBeyondManyRounds) {
  Pair p;
  auto* out = p.zero->sender(1);
  auto* in = p.one->receiver(0);
  for (std::uint64_t k = 0; k < 100'000; ++k) {
    ASSERT_TRUE(out->send(reinterpret_cast<const std::byte*>(&k), 8, nullptr));
    const Message* m = in->peek();
    ASSERT_NE(m, nullptr);
    std::uint64_t seen = 0;
    std::memcpy(&seen, m->data, 8);
    ASSERT_EQ(seen, k);
    in->release();
    ASSERT_EQ(in->peek(), nullptr);
  }
}

TEST(ShmTransport, AWrongPeerIsAnErrorAndNotACrash) {
  Pair p;
  EXPECT_EQ(p.zero->sender(2), nullptr);
  EXPECT_FALSE(p.zero->health());
  EXPECT_EQ(p.one->receiver(0, 1), nullptr);
  EXPECT_FALSE(p.one->health());
  EXPECT_FALSE(ShmTransport::open(p.segment, p.layout, 2));
  EXPECT_FALSE(ShmTransport::open(p.segment, ShmLayout::of(5), 0)) << "the segment is too small";
}

TEST(ShmTransport, SleepEndsByItselfWithinMilliseconds) {
  Pair p;
  EXPECT_EQ(p.zero->receiver(1)->peek(), nullptr);
  const auto start = now_ns();
  p.zero->sleep(10'000'000);
  EXPECT_LT(now_ns() - start, 1'000'000'000);
}

TEST(ShmTransport, WhatLiesUnreadDoesNotKeepARankAwake) {
  // Rank 0 waits for channel 1 while an early message lies on channel 0: at most one sleep is cut short by it.
  Pair p(ShmLayout::of(2, 2));
  EXPECT_EQ(p.zero->receiver(1, 0)->peek(), nullptr);
  const std::byte data[8] = {};
  ASSERT_TRUE(p.one->sender(0, 0)->send(data, 8, nullptr));
  EXPECT_EQ(p.zero->receiver(1, 1)->peek(), nullptr);
  p.zero->sleep(1000);
  const auto start = now_ns();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(p.zero->receiver(1, 1)->peek(), nullptr);
    p.zero->sleep(1000);
  }
  EXPECT_GT(now_ns() - start, 3'000'000);
}

TEST(ShmTransport, APublisherWakesASleeper) {
  Pair p;
  // 300 wakes; were each one missed, they would take 300 ms and more. Half of that is asked for, so noise does not matter.
  constexpr int kRounds = 300;
  std::thread sleeper([&] {
    auto* in = p.one->receiver(0);
    auto* out = p.one->sender(0);
    const std::byte byte{};
    for (int i = 0; i < kRounds; ++i) {
      while (in->peek() == nullptr) p.one->sleep(1000);
      in->release();
      while (!out->send(&byte, 1, nullptr)) p.one->sleep(1000);
    }
  });
  auto* in = p.zero->receiver(1);
  auto* out = p.zero->sender(1);
  const std::byte byte{};
  int slow = 0;
  for (int i = 0; i < kRounds; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // lets the other one fall asleep
    const auto start = now_ns();
    while (!out->send(&byte, 1, nullptr)) p.zero->sleep(1000);
    while (in->peek() == nullptr) p.zero->sleep(1000);
    in->release();
    if (now_ns() - start > 900'000) ++slow;
  }
  sleeper.join();
  EXPECT_LT(slow, kRounds / 2);
}

}  // namespace
}  // namespace peal::transport
