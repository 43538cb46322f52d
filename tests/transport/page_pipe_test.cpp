// Pages that are lent to sockets: nobody copies them before their receiver does, and whoever sent them learns when it has.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cstring>
#include <net/socket.hpp>
#include <numeric>
#include <thread>
#include <transport/lend_choice.hpp>
#include <transport/page_pipe.hpp>
#include <vector>

#include "tcp_pair.hpp"

namespace peal::transport {
namespace {

constexpr std::size_t kLong = 200'000;
constexpr std::int64_t kMillisecond = 1'000'000;

TcpOptions lending(Lending wanted) {
  TcpOptions options;
  options.lending = wanted;
  return options;
}

std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>((i * 7 + (i >> 9) + static_cast<std::size_t>(seed)) & 0xff);
  return made;
}

/// The next message; `pushed` sends on meanwhile what it holds back.
bool receive(Receiver& in, std::vector<std::byte>& into, Sender* pushed = nullptr) {
  std::size_t got = 0;
  Tag tag;
  bool has_tag = false;
  return wait_for([&] {
           if (pushed != nullptr) pushed->flush();
           return in.receive(into.data(), into.size(), &got, &tag, &has_tag);
         }) &&
         got == into.size();
}

/// A pair whose rank 0 may lend to rank 1, and the ends of that way.
struct LendingPair : TcpPair {
  explicit LendingPair(Lending wanted = Lending::always) : TcpPair(1, lending(wanted)) {
    EXPECT_TRUE(connect());
    out = zero->sender(1);
    in = one->receiver(0);
  }
  /// Messages go until there are references.
  bool begin() {
    std::vector<std::byte> buffer(kLong);
    return wait_for([&] {
      if (out->has_references()) return true;
      return wait_for([&] { return out->send(buffer.data(), buffer.size(), nullptr); }) && receive(*in, buffer) && out->has_references();
    });
  }
  Sender* out = nullptr;
  Receiver* in = nullptr;
};

TEST(LentPages, ReceiverSeesTheSendersMemoryAsItIsWhenItReceives) {
  LendingPair p;
  ASSERT_TRUE(p.begin());
  std::vector<std::byte> sent = pattern(kLong, 1), target(kLong);
  ASSERT_TRUE(p.out->send_reference(sent.data(), sent.size(), nullptr));
  EXPECT_FALSE(p.out->is_drained());
  const std::vector<std::byte> later = pattern(kLong, 2);
  std::memcpy(sent.data(), later.data(), kLong);  // which nobody may do who wants `sent` to arrive
  ASSERT_TRUE(receive(*p.in, target));
  EXPECT_EQ(target, later) << "a copy was made when it was sent";
  EXPECT_TRUE(wait_for([&] { return p.out->is_drained(); }));
}

TEST(LentPages, BothWaysAtOnceInOrderBetweenCopies) {
  LendingPair p;
  ASSERT_TRUE(p.begin());
  Sender* back = p.one->sender(0);
  ASSERT_TRUE(wait_for([&] { return p.zero->receiver(1) != nullptr; }));
  Receiver* home = p.zero->receiver(1);
  std::thread other([&] {
    std::vector<std::byte> target(kLong), sent;
    for (int k = 0; k < 60; ++k) {
      sent = pattern(kLong, k + 1000);
      const bool lends = back->has_references();
      EXPECT_TRUE(
          wait_for([&] { return lends ? back->send_reference(sent.data(), kLong, nullptr) : back->send(sent.data(), kLong, nullptr); }));
      EXPECT_TRUE(receive(*p.in, target));
      EXPECT_EQ(target, pattern(kLong, k)) << k;
      EXPECT_TRUE(wait_for([&] { return back->flush() && back->is_drained(); }));
    }
  });
  std::vector<std::byte> target(kLong), sent;
  for (int k = 0; k < 60; ++k) {
    sent = pattern(kLong, k);
    const bool lends = k % 3 != 0;
    EXPECT_TRUE(
        wait_for([&] { return lends ? p.out->send_reference(sent.data(), kLong, nullptr) : p.out->send(sent.data(), kLong, nullptr); }));
    EXPECT_TRUE(receive(*home, target));
    EXPECT_EQ(target, pattern(kLong, k + 1000)) << k;
    EXPECT_TRUE(wait_for([&] { return p.out->flush() && p.out->is_drained(); }));
  }
  other.join();
}

// As many as there are slots go without their receiver, as copies do; the next one waits.
TEST(LentPages, SlotsAreAsManyAsForCopies) {
  LendingPair p;
  ASSERT_TRUE(p.begin());
  std::vector<std::vector<std::byte>> sent;
  for (int k = 0; k < 20; ++k) sent.push_back(pattern(kLong, k));
  std::size_t went = 0;
  while (went < sent.size() && p.out->send_reference(sent[went].data(), kLong, nullptr)) ++went;
  EXPECT_GE(went, 4u);
  EXPECT_LT(went, sent.size());
  EXPECT_FALSE(p.out->flush());
  std::vector<std::byte> target(kLong);
  for (std::size_t k = 0; k < sent.size(); ++k) {
    while (went < sent.size() && p.out->send_reference(sent[went].data(), kLong, nullptr)) ++went;
    ASSERT_TRUE(receive(*p.in, target, p.out));
    EXPECT_EQ(target, sent[k]) << k;
  }
  EXPECT_TRUE(wait_for([&] { return p.out->flush() && p.out->is_drained(); }));
}

// A call has failed: its memory may go, and what was not under way yet arrives as it was then.
TEST(LentPages, WithdrawnMessagesAreCopied) {
  LendingPair p;
  ASSERT_TRUE(p.begin());
  std::vector<std::vector<std::byte>> sent;
  for (int k = 0; k < 4; ++k) sent.push_back(pattern(kLong, k));
  for (auto& each : sent) ASSERT_TRUE(p.out->send_reference(each.data(), kLong, nullptr));
  p.out->withdraw_references();
  EXPECT_FALSE(p.out->has_references());
  std::fill(sent[3].begin(), sent[3].end(), std::byte{0});
  std::vector<std::byte> target(kLong);
  for (int k = 0; k < 4; ++k) {
    ASSERT_TRUE(receive(*p.in, target, p.out));
    EXPECT_EQ(target, pattern(kLong, k)) << k;
  }
}

TEST(LentPages, NeverWhereThatIsSaid) {
  LendingPair p(Lending::never);
  std::vector<std::byte> buffer(kLong);
  for (int k = 0; k < 20; ++k) {
    ASSERT_TRUE(wait_for([&] { return p.out->send(buffer.data(), kLong, nullptr); }));
    ASSERT_TRUE(receive(*p.in, buffer));
    EXPECT_FALSE(p.out->has_references());
    EXPECT_FALSE(p.out->send_reference(buffer.data(), kLong, nullptr));
  }
}

// A peer that is gone: splice would raise SIGPIPE, which ends a process by default.
TEST(LentPages, PeerThatEndsBreaksTheWayAndNotTheProcess) {
  LendingPair p;
  ASSERT_TRUE(p.begin());
  const std::vector<std::byte> sent = pattern(kLong, 1);
  p.one.reset();
  EXPECT_TRUE(wait_for([&] {
    (void)p.out->send_reference(sent.data(), kLong, nullptr);
    p.out->is_drained();
    return !p.zero->health();
  }));
  const Failure failure = p.zero->health().error();
  EXPECT_EQ(failure.code, ErrorCode::rank_dead);
  EXPECT_EQ(failure.rank, 1);
}

TEST(LentPages, PeerThatEndsWhenItHasReceivedAllIsNoFault) {
  LendingPair p;
  ASSERT_TRUE(p.begin());
  const std::vector<std::byte> sent = pattern(kLong, 1);
  std::vector<std::byte> target(kLong);
  ASSERT_TRUE(p.out->send_reference(sent.data(), kLong, nullptr));
  ASSERT_TRUE(receive(*p.in, target));
  p.one.reset();
  EXPECT_TRUE(wait_for([&] { return p.out->is_drained(); }));
  for (int k = 0; k < 100; ++k) EXPECT_TRUE(p.out->is_drained() && p.out->flush());
  (void)p.out->has_references();
  EXPECT_TRUE(p.zero->health()) << p.zero->health().error().message;
}

// Who sent its last call's data and left, while a rank that comes late is yet to receive it.
TEST(LentPages, LookingForAnswersOfAPeerThatEndedIsNoFault) {
  TcpPair p(1, lending(Lending::where_copies_are_slow));
  ASSERT_TRUE(p.connect());
  ASSERT_TRUE(wait_for([&] { return p.one->sender(0) != nullptr; }));
  std::vector<std::byte> buffer(kLong);
  ASSERT_TRUE(wait_for([&] { return p.one->sender(0)->send(buffer.data(), kLong, nullptr); }));
  ASSERT_TRUE(wait_for([&] { return p.zero->receiver(1) != nullptr; }) && receive(*p.zero->receiver(1), buffer));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the connection of answers is there, and rank 1 has said nothing on it
  p.zero->health();
  ASSERT_TRUE(wait_for([&] { return p.one->sender(0)->send(buffer.data(), kLong, nullptr); }));
  ASSERT_TRUE(wait_for([&] { return p.one->sender(0)->flush(); }));
  p.one.reset();
  for (int k = 0; k < 100; ++k) EXPECT_FALSE(p.zero->sender(1)->has_references());
  EXPECT_TRUE(p.zero->health()) << p.zero->health().error().message;
  EXPECT_TRUE(receive(*p.zero->receiver(1), buffer));
}

TEST(LentPages, AnAnswerThatNobodyWaitsForMayBeLost) {
  for (const bool is_refused : {true, false}) {
    TcpOptions options = lending(Lending::where_copies_are_slow);
    options.connect_timeout_ns = 100 * kMillisecond;
    TcpPair p(1, options);
    ASSERT_TRUE(p.connect());
    ASSERT_TRUE(wait_for([&] { return p.one->sender(0) != nullptr; }));
    std::vector<std::byte> buffer(kLong);
    for (int k = 0; k < 3; ++k) ASSERT_TRUE(wait_for([&] { return p.one->sender(0)->send(buffer.data(), kLong, nullptr); }));
    ASSERT_TRUE(wait_for([&] { return p.one->sender(0)->flush(); }));
    Receiver* in = p.zero->receiver(1);
    if (!is_refused) {  // it is gone when the connection is there
      ASSERT_TRUE(receive(*in, buffer));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    p.one.reset();
    if (is_refused) p.door1.reset();
    for (int k = is_refused ? 0 : 1; k < 3; ++k) {
      ASSERT_TRUE(receive(*in, buffer));
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      EXPECT_TRUE(p.zero->health()) << p.zero->health().error().message;
    }
  }
}

TEST(LentPages, WhereNoPipeIsToBeHadTheyAreCopied) {
  LendingPair p;
  ASSERT_TRUE(p.begin());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::vector<std::byte> sent = pattern(kLong, 1);
  std::vector<std::byte> target(kLong);
  EXPECT_TRUE(p.out->send_reference(sent.data(), kLong, nullptr));
  EXPECT_TRUE(receive(*p.in, target));
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(target, sent);
  EXPECT_FALSE(p.out->has_references());
  EXPECT_TRUE(wait_for([&] { return p.out->is_drained(); }));
}

TEST(LentPages, AnswersToWhatWasNotLentAreCorrupt) {
  TcpPair p(1, lending(Lending::always));
  ASSERT_TRUE(p.connect());
  const FileDescriptor forged = intruder(*p.door1, {kCommunicator, 0, 1, 1});
  const TcpAnswer answer{0, 7};
  const TcpHeader header{kTcpMagic, sizeof answer, 0, 0, {}};
  ASSERT_TRUE(net::send_all(forged.get(), &header, sizeof header, net::deadline_in(3)));
  ASSERT_TRUE(net::send_all(forged.get(), &answer, sizeof answer, net::deadline_in(3)));
  ASSERT_TRUE(wait_for([&] { return !p.one->sender(0)->has_references() && !p.one->health(); }));
  EXPECT_EQ(p.one->health().error().code, ErrorCode::corrupt);
}

TEST(PagePipe, MovesAsMuchAsTheSocketTakes) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor from(ends[0]), to(ends[1]);
  ASSERT_TRUE(net::set_nonblocking(from.get(), true));
  const std::vector<std::byte> sent = pattern(4'000'000, 3);
  std::vector<std::byte> got;
  PagePipe pipe;
  PagePipe::Progress progress;
  std::vector<std::byte> part(100'000);
  int turns = 0;
  for (PagePipe::Outcome outcome = PagePipe::Outcome::full; outcome != PagePipe::Outcome::moved || got.size() < sent.size(); ++turns) {
    if (outcome == PagePipe::Outcome::full) outcome = pipe.move(from.get(), sent.data(), sent.size(), progress);
    ASSERT_TRUE(outcome == PagePipe::Outcome::full || outcome == PagePipe::Outcome::moved) << pipe.error();
    ASSERT_LE(progress.written, progress.lent);
    ASSERT_LT(turns, 10'000);
    const auto moved = net::recv_now(to.get(), part.data(), part.size());
    ASSERT_TRUE(moved && !moved->closed);
    got.insert(got.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(moved->bytes));
  }
  EXPECT_GT(turns, 1);
  EXPECT_EQ(got, sent);
}

TEST(PagePipe, MemoryThatIsNotThereIsRefused) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor from(ends[0]), to(ends[1]);
  PagePipe pipe;
  PagePipe::Progress progress;
  EXPECT_EQ(pipe.move(from.get(), reinterpret_cast<const std::byte*>(64), 8192, progress), PagePipe::Outcome::refused);
  EXPECT_EQ(pipe.error(), EFAULT);
  EXPECT_EQ(progress.lent, 0u);
}

constexpr std::size_t kMessage = 1 << 20;
std::int64_t taking(double ns_per_byte) { return static_cast<std::int64_t>(LendChoice::kCallNs + ns_per_byte * kMessage); }

TEST(LendChoice, SlowCopiesAreSavedAndLookedAtAgain) {
  LendChoice choice;
  std::int64_t now = 0;
  EXPECT_FALSE(choice.lends(now));
  const auto copy = [&](double ns_per_byte, int times) {
    for (int i = 0; i < times; ++i) choice.note_copied(kMessage, taking(ns_per_byte), ++now);
  };
  copy(0.1, 100);
  EXPECT_FALSE(choice.lends(now));
  copy(0.5, LendChoice::kCopies);
  EXPECT_TRUE(choice.lends(now));
  const auto lend = [&] {
    EXPECT_TRUE(choice.lends(now + 10 * LendChoice::kLastLookNs)) << "who calls rarely lends all the same";
    for (int i = 0; i < LendChoice::kLeastBetweenLooks; ++i) choice.note_lent();
  };
  lend();
  EXPECT_TRUE(choice.lends(now));
  EXPECT_FALSE(choice.lends(now + LendChoice::kFirstLookNs));
  // Still slow: the next look comes later, and later again, up to a limit.
  std::int64_t after = LendChoice::kFirstLookNs;
  for (int look = 0; look < 8; ++look) {
    now += after;
    copy(0.5, LendChoice::kCopies);
    after = std::min(2 * after, LendChoice::kLastLookNs);
    lend();
    EXPECT_TRUE(choice.lends(now + after - 1)) << look;
    EXPECT_FALSE(choice.lends(now + after)) << look;
  }
  now += after;
  copy(0.1, LendChoice::kCopies);
  EXPECT_FALSE(choice.lends(now));
}

TEST(LendChoice, OneFastCopyAmongFourIsEnoughToCopyOn) {
  LendChoice choice;
  for (int i = 0; i < 40; ++i) {
    choice.note_copied(kMessage, taking(i % LendChoice::kCopies == 1 ? 0.12 : 2.0), kMillisecond * i);
    EXPECT_FALSE(choice.lends(kMillisecond * i)) << i;
  }
}

}  // namespace
}  // namespace peal::transport
