#include <gtest/gtest.h>

#include <reduce/copy.hpp>

#include "elements.hpp"
#include "guarded_buffer.hpp"

namespace peal::reduce {
namespace {

TEST(Copy, copies_exactly_the_bytes_at_every_size_and_alignment) {
  Random random(17);
  on_every_instruction_set([&] {
    for (const auto& [stores, reads] : {std::pair{Stores::cached, Reads::in_a_row},
                                        {Stores::streaming, Reads::in_a_row},
                                        {Stores::cached, Reads::in_lanes},
                                        {Stores::streaming, Reads::in_lanes}}) {
      for (std::size_t bytes = 0; bytes < 100000; bytes += bytes < 300 ? 1 : bytes / 2 + 1) {
        for (const std::size_t slack : {0, 1, 8, 33, 63}) {
          GuardedBuffer src(bytes, slack * 3 % 64), dst(bytes, slack);
          fill(DataType::u8, src.data(), bytes, random);
          copy(dst.data(), src.data(), bytes, stores, reads);
          ASSERT_EQ(std::memcmp(dst.data(), src.data(), bytes), 0) << bytes << " bytes, slack " << slack;
          ASSERT_TRUE(dst.is_intact());
        }
      }
    }
  });
}

TEST(Copy, twice_in_one_pass_at_every_size_and_alignment) {
  Random random(19);
  on_every_instruction_set([&] {
    for (const auto& [stores, also] : {std::pair{Stores::cached, Stores::cached},
                                       {Stores::streaming, Stores::cached},
                                       {Stores::cached, Stores::streaming},
                                       {Stores::streaming, Stores::streaming}}) {
      for (std::size_t bytes = 0; bytes < 100000; bytes += bytes < 200 ? 1 : bytes / 2 + 1) {
        for (const std::size_t slack : {0, 1, 8, 33, 63}) {
          GuardedBuffer src(bytes, slack * 3 % 64);
          fill(DataType::u8, src.data(), bytes, random);
          for (const Both both : {Both::at_once, Both::in_blocks}) {
            GuardedBuffer one(bytes, slack), other(bytes, slack * 5 % 64);
            copy_twice(one.data(), stores, other.data(), also, src.data(), bytes, both);
            ASSERT_EQ(std::memcmp(one.data(), src.data(), bytes), 0) << bytes << " bytes, slack " << slack;
            ASSERT_EQ(std::memcmp(other.data(), src.data(), bytes), 0) << bytes << " bytes, slack " << slack;
            ASSERT_TRUE(one.is_intact() && other.is_intact());
          }
        }
      }
    }
  });
}

TEST(Copy, behind_the_source_within_their_pages) {
  constexpr std::size_t kPage = 4096, kMost = 5 * kPage;
  Random random(18);
  std::vector<std::byte> from(kMost + 2 * kPage), to(kMost + 2 * kPage), before(to.size());
  const auto page_of = [](std::vector<std::byte>& bytes) {
    return bytes.data() + (kPage - reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage) % kPage;
  };
  on_every_instruction_set([&] {
    for (const std::size_t behind : {0, 1, 8, 16, 31, 32, 63, 64}) {
      for (const std::size_t bytes : {std::size_t{1535}, std::size_t{1536}, std::size_t{1777}, std::size_t{2047}, std::size_t{2048},
                                      std::size_t{2049}, kPage, 3 * kPage + 77, kMost}) {
        fill(DataType::u8, from.data(), from.size(), random);
        fill(DataType::u8, to.data(), to.size(), random);
        before = to;
        std::byte* const dst = page_of(to) + behind;
        copy(dst, page_of(from), bytes, Stores::cached);
        ASSERT_EQ(std::memcmp(dst, page_of(from), bytes), 0) << bytes << " bytes, " << behind << " behind";
        const auto at = static_cast<std::size_t>(dst - to.data());
        ASSERT_EQ(std::memcmp(to.data(), before.data(), at), 0);
        ASSERT_EQ(std::memcmp(dst + bytes, before.data() + at + bytes, to.size() - at - bytes), 0);
      }
    }
  });
}

TEST(InstructionSet, an_unknown_name_is_refused_and_the_best_stays) {
  const std::string best(instruction_set());
  EXPECT_FALSE(use_instruction_set("MMX"));
  EXPECT_EQ(instruction_set(), best);
  EXPECT_FALSE(instruction_sets().empty());
}

}  // namespace
}  // namespace peal::reduce
