#include <gtest/gtest.h>

#include <base/clock.hpp>
#include <comm/choice_board.hpp>
#include <thread>
#include <vector>

namespace peal::comm {
namespace {

struct Memory {
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(ChoiceBoard::bytes_for(ChoiceBoard::kFewestRanks) / 8 + 1);
  ChoiceBoard board{reinterpret_cast<std::byte*>(words.data())};
};

const auto never = [] { return false; };

TEST(ChoiceBoard, TheFirstChoosesAndTheOthersTakeItOver) {
  Memory memory;
  ASSERT_FALSE(memory.board.find(7, never)) << "the first is to choose";
  std::optional<Choice> second;
  std::thread other([&] { second = memory.board.find(7, never); });
  memory.board.put(7, {3, schedule::Protocol::line, true, 4096, 12.5});
  other.join();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->algorithm, 3u);
  EXPECT_EQ(second->protocol, schedule::Protocol::line);
  EXPECT_TRUE(second->is_canonical);
  EXPECT_EQ(second->message_bytes, 4096u);
  EXPECT_EQ(second->predicted_ns, 12.5);
  EXPECT_FALSE(memory.board.find(8, never)) << "another key is another choice";
}

TEST(ChoiceBoard, NobodyWaitsForOneWhoGaveUpNorAfterTheEnd) {
  Memory memory;
  ASSERT_FALSE(memory.board.find(7, never));
  const std::int64_t begin = now_ns();
  EXPECT_FALSE(memory.board.find(7, [] { return true; }));
  memory.board.give_up(7);
  EXPECT_FALSE(memory.board.find(7, never));
  EXPECT_LT(now_ns() - begin, 1'000'000'000);
}

TEST(ChoiceBoard, AFullOneLetsEverybodyChoose) {
  Memory memory;
  for (std::uint64_t key = 1; key <= 200; ++key) {
    EXPECT_FALSE(memory.board.find(key, never));
    memory.board.put(key, {static_cast<std::uint32_t>(key), {}, false, 0, 0});
  }
  EXPECT_EQ(memory.board.find(1, never)->algorithm, 1u);
  EXPECT_FALSE(memory.board.find(200, never));
}

TEST(ChoiceBoard, WithoutMemoryThereIsNone) {
  const ChoiceBoard none;
  EXPECT_FALSE(none.find(7, never));
  none.put(7, {});
  none.give_up(7);
  EXPECT_FALSE(none.find(7, never));
}

}  // namespace
}  // namespace peal::comm
