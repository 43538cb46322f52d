#include <gtest/gtest.h>

#include <base/settings.hpp>
#include <cstdlib>
#include <set>

namespace peal {
namespace {

/// Sets a variable for the length of one test.
class Scoped {
 public:
  Scoped(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      old_ = old;
      had_ = true;
    }
    if (value != nullptr) {
      setenv(name, value, 1);
    } else {
      unsetenv(name);
    }
  }
  ~Scoped() {
    if (had_) {
      setenv(name_, old_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(Settings, table_is_alphabetical_and_says_what_each_is_for) {
  std::string_view previous;
  ASSERT_FALSE(all_settings().empty());
  for (const Setting& s : all_settings()) {
    EXPECT_LT(previous, s.name);
    previous = s.name;
    EXPECT_FALSE(s.what.empty()) << s.name;
    EXPECT_EQ(s.what.back(), '.') << s.name;
  }
}

TEST(Settings, unset_and_empty_mean_the_default) {
  {
    const Scoped unset("PEAL_TIMEOUT", nullptr);
    EXPECT_FALSE(has_setting("PEAL_TIMEOUT"));
    EXPECT_EQ(setting("PEAL_TIMEOUT"), "1800");
  }
  const Scoped empty("PEAL_TIMEOUT", "");
  EXPECT_FALSE(has_setting("PEAL_TIMEOUT"));
  EXPECT_EQ(setting("PEAL_TIMEOUT"), "1800");
}

TEST(Settings, environment_wins_over_the_default) {
  const Scoped set("PEAL_TRANSPORT", "tcp");
  EXPECT_TRUE(has_setting("PEAL_TRANSPORT"));
  EXPECT_EQ(setting("PEAL_TRANSPORT"), "tcp");
}

TEST(Settings, integers_outside_their_range_name_the_variable) {
  for (const char* text : {"0", "-5", "1e3", "12 ", "0x10", "99999999999999999999", "ten", "4000"}) {
    const Scoped set("PEAL_START_TIMEOUT", text);
    const auto value = integer_setting("PEAL_START_TIMEOUT", 1, 3600);
    ASSERT_FALSE(value.has_value()) << text;
    EXPECT_NE(value.error().message.find("PEAL_START_TIMEOUT"), std::string::npos);
    EXPECT_NE(value.error().message.find("3600"), std::string::npos);
  }
  const Scoped set("PEAL_START_TIMEOUT", "3600");
  EXPECT_EQ(integer_setting("PEAL_START_TIMEOUT", 1, 3600).value(), 3600);
}

TEST(Settings, an_integer_without_value_or_default_is_an_error) {
  const Scoped unset("PEAL_RANK", nullptr);
  EXPECT_FALSE(integer_setting("PEAL_RANK", 0, 10).has_value());
}

TEST(Settings, sizes_and_flags_parse_or_name_the_variable) {
  {
    const Scoped set("PEAL_PORT", "64K");
    EXPECT_EQ(bytes_setting("PEAL_PORT").value(), 65536u);
  }
  {
    const Scoped set("PEAL_PORT", "many");
    const auto size = bytes_setting("PEAL_PORT");
    ASSERT_FALSE(size.has_value());
    EXPECT_NE(size.error().message.find("PEAL_PORT"), std::string::npos);
  }
  for (const char* yes : {"1", "true", "YES", "on"}) {
    const Scoped set("PEAL_JOB", yes);
    EXPECT_TRUE(flag_setting("PEAL_JOB").value()) << yes;
  }
  for (const char* no : {"0", "False", "no", "off"}) {
    const Scoped set("PEAL_JOB", no);
    EXPECT_FALSE(flag_setting("PEAL_JOB").value()) << no;
  }
  const Scoped set("PEAL_JOB", "maybe");
  const auto flag = flag_setting("PEAL_JOB");
  ASSERT_FALSE(flag.has_value());
  EXPECT_NE(flag.error().message.find("PEAL_JOB"), std::string::npos);
}

}  // namespace
}  // namespace peal
