#include <gtest/gtest.h>

#include <reduce/copy.hpp>

#include "elements.hpp"
#include "guarded_buffer.hpp"

namespace peal::reduce {
namespace {

TEST(Copy, copies_exactly_the_bytes_at_every_size_and_alignment) {
  std::mt19937_64 random(17);
  on_every_instruction_set([&] {
    for (const Stores stores : {Stores::cached, Stores::streaming}) {
      for (std::size_t bytes = 0; bytes < 100000; bytes += bytes < 300 ? 1 : bytes / 2 + 1) {
        for (const std::size_t slack : {0, 1, 8, 33, 63}) {
          GuardedBuffer src(bytes, slack * 3 % 64), dst(bytes, slack);
          fill(DataType::u8, src.data(), bytes, random);
          copy(dst.data(), src.data(), bytes, stores);
          ASSERT_EQ(std::memcmp(dst.data(), src.data(), bytes), 0) << bytes << " bytes, slack " << slack;
          ASSERT_TRUE(dst.is_intact());
        }
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
