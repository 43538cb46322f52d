#include <gtest/gtest.h>

#include <base/units.hpp>
#include <limits>

namespace peal {
namespace {

std::uint64_t bytes(std::string_view text) {
  const auto size = parse_bytes(text);
  EXPECT_TRUE(size.has_value()) << text;
  return size ? size->value : 0;
}

TEST(ParseBytes, takes_whole_numbers) {
  EXPECT_EQ(bytes("0"), 0u);
  EXPECT_EQ(bytes("8"), 8u);
  EXPECT_EQ(bytes(" 8 "), 8u);
  EXPECT_EQ(bytes("8B"), 8u);
  EXPECT_EQ(bytes("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
}

TEST(ParseBytes, suffixes_are_powers_of_1024) {
  EXPECT_EQ(bytes("64K"), 65536u);
  EXPECT_EQ(bytes("64k"), 65536u);
  EXPECT_EQ(bytes("64KB"), 65536u);
  EXPECT_EQ(bytes("64 KiB"), 65536u);
  EXPECT_EQ(bytes("1M"), 1u << 20);
  EXPECT_EQ(bytes("8G"), 8ull << 30);
  EXPECT_EQ(bytes("2T"), 2ull << 40);
  EXPECT_EQ(bytes("3P"), 3ull << 50);
  EXPECT_EQ(bytes("15E"), 15ull << 60);
}

TEST(ParseBytes, refuses_what_does_not_fit) {
  for (const char* text : {"18446744073709551616", "16E", "16384P", "999999999999999999999999G", "18014398509481984K"}) {
    const auto size = parse_bytes(text);
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_EQ(size.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(size.error().message.find("too large"), std::string::npos) << size.error().message;
  }
}

TEST(ParseBytes, refuses_junk_and_says_what_to_type) {
  for (const char* text : {"", " ", "K", "-1", "+1", "1.5M", "8Q", "8KiBs", "8iB", "0x10", "8 8", "1KK", "eight", "8\n"}) {
    const auto size = parse_bytes(text);
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_NE(size.error().message.find("64K"), std::string::npos) << size.error().message;
  }
}

TEST(ToText, sizes_read_back_as_themselves) {
  EXPECT_EQ(to_text(Bytes{0}), "0 B");
  EXPECT_EQ(to_text(Bytes{1023}), "1023 B");
  EXPECT_EQ(to_text(Bytes{65536}), "64 KiB");
  EXPECT_EQ(to_text(Bytes{1536}), "1.50 KiB");
  EXPECT_EQ(to_text(Bytes{std::numeric_limits<std::uint64_t>::max()}), "16.00 EiB");
  for (std::uint64_t value : {8ull, 1024ull, 64ull << 10, 3ull << 20, 1ull << 40, 1ull << 63}) {
    EXPECT_EQ(bytes(to_text(Bytes{value})), value);
  }
}

TEST(ToText, times_choose_their_unit) {
  EXPECT_EQ(to_text(Nanoseconds{12.3}), "12.30 ns");
  EXPECT_EQ(to_text(Nanoseconds{1234.5}), "1.23 us");
  EXPECT_EQ(to_text(Nanoseconds{999.999}), "1.00 us");
  EXPECT_EQ(to_text(Nanoseconds{2.5e6}), "2.50 ms");
  EXPECT_EQ(to_text(Nanoseconds{61e9}), "61.00 s");
  EXPECT_EQ(to_text(Nanoseconds{std::numeric_limits<double>::infinity()}), "never");
}

TEST(Units, time_is_size_over_rate) {
  const Nanoseconds time = Bytes{1'000'000'000} / Bandwidth::gigabytes(2);
  EXPECT_DOUBLE_EQ(time.seconds(), 0.5);
  EXPECT_DOUBLE_EQ((2 * time).microseconds(), 1e6);
}

}  // namespace
}  // namespace peal
