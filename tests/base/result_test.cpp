#include <gtest/gtest.h>

#include <fcntl.h>
#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace peal {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(ErrorCode::invalid_argument, "{} is odd", n);
  return n / 2;
}
Result<int> quarter(int n) {
  PEAL_ASSIGN(const int first, half(n));
  PEAL_ASSIGN(const int second, half(first));
  return second;
}
Status is_quarterable(int n) {
  PEAL_TRY(quarter(n));
  return {};
}

TEST(Result, failures_travel_through_try_and_assign) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(is_quarterable(8).has_value());
  EXPECT_EQ(is_quarterable(7).error().message, "7 is odd");
}

TEST(Result, assign_moves_the_value) {
  const auto made = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto use = [&]() -> Result<int> {
    PEAL_ASSIGN(auto owned, made());
    return *owned;
  };
  EXPECT_EQ(use().value(), 7);
}

TEST(Result, a_thrown_failure_keeps_every_field) {
  try {
    throw_failure(Failure{ErrorCode::rank_dead, "rank 3 ended", 3, 1, "all_reduce"});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::rank_dead);
    EXPECT_STREQ(error.what(), "rank 3 ended");
    EXPECT_EQ(error.rank(), 3);
    EXPECT_EQ(error.peer(), 1);
    EXPECT_EQ(error.operation(), "all_reduce");
  }
}

TEST(Result, value_or_throw_gives_the_value_or_throws) {
  EXPECT_EQ(value_or_throw(half(8)), 4);
  EXPECT_THROW(value_or_throw(half(7)), Error);
  EXPECT_NO_THROW(value_or_throw(Status{}));
}

TEST(ErrorCode, names_are_stable_and_distinct) {
  EXPECT_STREQ(name_of(ErrorCode::ok), "ok");
  EXPECT_STREQ(name_of(ErrorCode::rank_dead), "rank_dead");
  std::set<std::string> seen;
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    const std::string name = name_of(static_cast<ErrorCode>(i));
    EXPECT_NE(name, "unknown");
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
}

TEST(ErrnoText, says_words_and_the_symbol) {
  EXPECT_EQ(errno_text(ECONNREFUSED), "Connection refused (ECONNREFUSED)");
  EXPECT_EQ(errno_text(123456), "unknown error 123456");
}

TEST(FileDescriptor, closes_once_and_moves) {
  const int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(raw, 0);
  {
    FileDescriptor first(raw);
    FileDescriptor second(std::move(first));
    EXPECT_EQ(second.get(), raw);
    EXPECT_NE(::fcntl(raw, F_GETFD), -1);
  }
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace peal
