#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <net/frame.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>

namespace peal::net {
namespace {

using testing::HasSubstr;

std::span<const std::uint8_t> as_span(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

struct FramePair {
  FramePair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    a = FileDescriptor(ends[0]);
    b = FileDescriptor(ends[1]);
  }
  FileDescriptor a, b;
};

TEST(Frame, EveryPrefixOfAFrameIsIncompleteAndTheWholeParses) {
  const std::string bytes = frame_bytes(7, "payload");
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::string cut = bytes.substr(0, n);
    const auto parsed = parse_frame(as_span(cut));
    ASSERT_TRUE(parsed) << n;
    EXPECT_FALSE(*parsed) << n;
  }
  const std::string two = bytes + bytes;
  const auto parsed = parse_frame(as_span(two));
  ASSERT_TRUE(parsed && *parsed);
  EXPECT_EQ((*parsed)->type, 7u);
  EXPECT_EQ((*parsed)->consumed, bytes.size());
  EXPECT_EQ(std::string((*parsed)->payload.begin(), (*parsed)->payload.end()), "payload");
}

TEST(Frame, WrongMagicReservedWordAndSizeAreRefused) {
  std::string bytes = frame_bytes(7, "payload");
  EXPECT_THAT(parse_frame(as_span(bytes), 6).error().message, HasSubstr("limit is 6"));
  for (const std::size_t at : {0u, 3u, 12u, 15u}) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(wrong[at] + 1);
    const auto parsed = parse_frame(as_span(wrong));
    ASSERT_FALSE(parsed) << at;
    EXPECT_EQ(parsed.error().code, ErrorCode::corrupt);
  }
}

TEST(Frame, TheReaderPutsPiecesTogether) {
  FramePair pair;
  FrameReader reader;
  const std::string bytes = frame_bytes(1, "one") + frame_bytes(2, "") + frame_bytes(3, std::string(100'000, 'z'));
  std::vector<Frame> got;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t piece = std::min<std::size_t>(at < 64 ? 1 : 5000, bytes.size() - at);
    ASSERT_TRUE(send_all(pair.a.get(), bytes.data() + at, piece, deadline_in(5)));
    at += piece;
    for (;;) {
      auto frame = reader.next(pair.b.get());
      ASSERT_TRUE(frame) << frame.error().message;
      if (!*frame) break;
      got.push_back(std::move(**frame));
    }
  }
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].payload, "one");
  EXPECT_EQ(got[1].payload, "");
  EXPECT_EQ(got[2].payload, std::string(100'000, 'z'));
  EXPECT_FALSE(reader.is_closed());
  pair.a.reset();
  EXPECT_EQ(reader.wait(pair.b.get(), deadline_in(5)).error().code, ErrorCode::unreachable);
  EXPECT_TRUE(reader.is_closed());
}

TEST(Frame, AnAnnouncementAboveTheLimitIsRefusedBeforeItsBytesCome) {
  FramePair pair;
  FrameReader reader(1024);
  const auto header = encode(FrameHeader{1, 0xffffffff});
  ASSERT_TRUE(send_all(pair.a.get(), header.data(), header.size(), deadline_in(5)));
  const auto frame = reader.next(pair.b.get());
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::corrupt);
}

TEST(Wire, ReadersStopAtTheEndAndAtLimits) {
  const std::string bytes = WireWriter().u32(7).u64(1ull << 40).text("abc").bytes();
  WireReader all(bytes);
  EXPECT_EQ(all.u32(), 7u);
  EXPECT_EQ(all.u64(), 1ull << 40);
  EXPECT_EQ(all.text(3), "abc");
  EXPECT_TRUE(all.is_finished());
  EXPECT_EQ(all.u32(), 0u);
  EXPECT_FALSE(all.is_good());
  WireReader limited(std::string_view(bytes).substr(12));
  EXPECT_EQ(limited.text(2), "");
  EXPECT_FALSE(limited.is_good());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    WireReader cut(std::string_view(bytes).substr(0, n));
    cut.u32();
    cut.u64();
    cut.text(100);
    EXPECT_FALSE(cut.is_finished()) << n;
  }
}

}  // namespace
}  // namespace peal::net
