#include <gtest/gtest.h>

#include <executor/late_receiver.hpp>

namespace peal::executor {
namespace {

int copied_until_a_reference(LateReceiver& late) {
  int copied = 0;
  for (; late.is_spared(); ++copied) late.note_copied();
  return copied;
}

TEST(LateReceiver, IsSparedForLongerEachTimeThatItIsLateAgain) {
  LateReceiver late;
  EXPECT_FALSE(late.is_spared());
  late.note_copied();
  EXPECT_FALSE(late.is_spared());
  for (const int expected : {8, 16, 32, 64, 128, 256, 512, 1024, 1024}) {
    late.note_late();
    EXPECT_EQ(copied_until_a_reference(late), expected);
    for (int i = 0; i + 1 < expected; ++i) late.note_referenced();
  }
}

TEST(LateReceiver, IsForgivenWhenItHasComeInTimeAsOften) {
  LateReceiver late;
  for (int i = 0; i < 3; ++i) late.note_late();
  EXPECT_EQ(copied_until_a_reference(late), 32);
  for (int i = 0; i < 32 + 16 + 8; ++i) late.note_referenced();
  late.note_late();
  EXPECT_EQ(copied_until_a_reference(late), 8);
}

}  // namespace
}  // namespace peal::executor
