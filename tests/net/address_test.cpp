#include <gtest/gtest.h>

#include <net/address.hpp>

namespace peal::net {
namespace {

TEST(Address, NumericTextComesBackUnchanged) {
  for (const char* text : {"10.0.0.1:29500", "127.0.0.1:0", "[::1]:5000", "[2001:db8::7]:65535", "unix:peal-job-7"}) {
    const auto address = Address::parse(text);
    ASSERT_TRUE(address) << text << ": " << address.error().message;
    EXPECT_EQ(address->text(), text);
  }
}

TEST(Address, KnowsFamilyPortAndLoopback) {
  EXPECT_TRUE(Address::parse("127.3.4.5:1")->is_loopback());
  EXPECT_TRUE(Address::parse("[::1]:1")->is_loopback());
  EXPECT_FALSE(Address::parse("10.0.0.1:1")->is_loopback());
  EXPECT_TRUE(Address::parse("0.0.0.0:1")->is_any());
  EXPECT_TRUE(Address::parse("[::]:1")->is_any());
  EXPECT_EQ(Address::parse("10.0.0.1:29500")->port(), 29500);
  EXPECT_EQ(Address::parse("10.0.0.1:29500")->with_port(7).text(), "10.0.0.1:7");
  EXPECT_EQ(Address::parse("[::1]:1")->with_port(7).text(), "[::1]:7");
  EXPECT_EQ(Address().family(), Family::none);
  EXPECT_EQ(Address().text(), "nowhere");
  EXPECT_TRUE(is_same_host(*Address::parse("10.0.0.1:1"), *Address::parse("10.0.0.1:2")));
  EXPECT_FALSE(is_same_host(*Address::parse("10.0.0.1:1"), *Address::parse("10.0.0.2:1")));
}

TEST(Address, WrongTextIsRefusedWithWhatToWrite) {
  for (const char* text : {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:1x", ":80", "::1:80", "[::1]", "[::1:80",
                           "[::1]80", "10.0.0.256:1", "[zz]:1", "unix:", "unix:a b", "unix:\x01"}) {
    const auto address = Address::parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code, ErrorCode::invalid_argument) << text;
  }
  EXPECT_NE(Address::parse("10.0.0.1").error().message.find("unix:NAME"), std::string::npos);
  EXPECT_FALSE(Address::unix_name(std::string(101, 'x')));
  EXPECT_TRUE(Address::unix_name(std::string(100, 'x')));
}

TEST(Address, NamesAreLookedUp) {
  const auto local = Address::resolve("localhost:123");
  ASSERT_TRUE(local) << local.error().message;
  EXPECT_TRUE(local->is_loopback());
  EXPECT_EQ(local->port(), 123);
  const auto nowhere = Address::resolve("no-such-host.invalid:1");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::unreachable);
  EXPECT_NE(nowhere.error().message.find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace peal::net
