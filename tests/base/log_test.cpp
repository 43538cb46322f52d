#include <gtest/gtest.h>
#include <unistd.h>

#include <base/log.hpp>
#include <cstdlib>
#include <string>

namespace peal {
namespace {

/// The level is read once a process, so every level is tried in a process of its own (a death test), which ends with what it says.
void say_all_and_exit(const char* level) {
  setenv("PEAL_LOG_LEVEL", level, 1);
  for (const LogLevel each : {LogLevel::off, LogLevel::error, LogLevel::warn, LogLevel::info, LogLevel::debug}) {
    log(each, "line {}", static_cast<int>(each));
  }
  ::_exit(0);
}

TEST(LogDeathTest, a_level_admits_itself_and_what_is_graver) {
  EXPECT_EXIT(say_all_and_exit("warn"), ::testing::ExitedWithCode(0), "^peal\\[[0-9]+\\] error: line 1\npeal\\[[0-9]+\\] warn: line 2\n$");
  EXPECT_EXIT(say_all_and_exit("debug"), ::testing::ExitedWithCode(0), "info: line 3\npeal\\[[0-9]+\\] debug: line 4\n$");
}

TEST(LogDeathTest, off_says_nothing) { EXPECT_EXIT(say_all_and_exit("off"), ::testing::ExitedWithCode(0), "^$"); }

TEST(LogDeathTest, a_word_that_is_no_level_is_said_once) {
  EXPECT_EXIT(say_all_and_exit("loud"), ::testing::ExitedWithCode(0),
              "^peal\\[[0-9]+\\] warn: PEAL_LOG_LEVEL='loud' is no level[^\n]*\n"
              "peal\\[[0-9]+\\] error: line 1\npeal\\[[0-9]+\\] warn: line 2\n$");
}

}  // namespace
}  // namespace peal
