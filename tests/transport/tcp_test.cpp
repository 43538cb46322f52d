// What is particular to TCP: connections that are made late, lost, refused or abused. Order and content: tests/conformance.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cstring>
#include <net/handshake.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>
#include <thread>
#include <transport/tcp.hpp>
#include <vector>

#include "tcp_pair.hpp"

namespace peal::transport {
namespace {

const std::byte kByte{7};

bool is_closed_by_peer(int fd) {
  return wait_for([&] {
    char byte = 0;
    auto moved = net::recv_now(fd, &byte, 1);
    return !moved || moved->closed;
  });
}

TEST(Tcp, ConnectsAtFirstUseOnly) {
  TcpPair p;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(p.one->receiver(0), nullptr) << "the higher rank does not connect";
  ASSERT_TRUE(p.connect());
  EXPECT_TRUE(p.zero->health());
  EXPECT_EQ(p.door1->refused_count(), 0u);
}

TEST(Tcp, ConnectionThatComesBeforeItsTransportWaits) {
  TcpPair p;
  p.one.reset();
  ASSERT_TRUE(wait_for([&] { return p.zero->sender(1) != nullptr; }));
  ASSERT_TRUE(p.zero->sender(1)->send(&kByte, 1, nullptr));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  p.one = p.open(*p.door1, 1);
  ASSERT_TRUE(wait_for([&] { return p.one->receiver(0) != nullptr && p.one->receiver(0)->peek() != nullptr; }));
  EXPECT_EQ(p.one->receiver(0)->peek()->data[0], kByte);
}

TEST(Tcp, UnknownCommunicatorIsClosedAfterItsTime) {
  auto door = listen(1, 1, kSecond / 5);
  const auto fd = intruder(*door, {12345, 0, 1, 0});
  EXPECT_TRUE(is_closed_by_peer(fd.get()));
  EXPECT_EQ(door->refused_count(), 1u);
}

TEST(Tcp, ImpossibleRoutesAreClosed) {
  TcpPair p;
  EXPECT_TRUE(is_closed_by_peer(intruder(*p.door1, {kCommunicator, 1, 1, 0}).get()));
  EXPECT_TRUE(is_closed_by_peer(intruder(*p.door1, {kCommunicator, 0, 1, 2}).get()));
  EXPECT_TRUE(p.one->health()) << "strange routes do not break a transport";
  EXPECT_TRUE(p.connect());
}

TEST(Tcp, PeerThatEndsIsNamedToWhoWaitsAndItsLastWordsArrive) {
  TcpPair p;
  ASSERT_TRUE(p.connect());
  ASSERT_TRUE(p.zero->sender(1)->send(&kByte, 1, nullptr));
  p.zero.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto* in = p.one->receiver(0);
  ASSERT_TRUE(wait_for([&] { return in->peek() != nullptr; }));
  in->release();
  EXPECT_TRUE(p.one->health()) << "an orderly end is no error until somebody waits for more";
  ASSERT_TRUE(wait_for([&] { return in->peek() == nullptr && !p.one->health(); }));
  const Failure failure = p.one->health().error();
  EXPECT_EQ(failure.code, ErrorCode::rank_dead);
  EXPECT_EQ(failure.rank, 0);
  EXPECT_NE(failure.message.find("rank 0"), std::string::npos) << failure.message;
  EXPECT_EQ(in->peek(), nullptr) << "a broken end stays usable";
  EXPECT_FALSE(p.one->sender(0)->send(&kByte, 1, nullptr));
}

TEST(Tcp, KilledProcessIsNoticedWithinASecond) {
  auto door0 = listen(0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string address0 = door0->address().text();
#if defined(__SANITIZE_THREAD__)
  close(ends[0]);
  close(ends[1]);
  GTEST_SKIP() << "no fork of a process with threads under the thread sanitizer";
#endif
  const pid_t child = fork();
  if (child == 0) {
    auto door1 = listen(1);
    char text[64] = {};
    std::strncpy(text, door1->address().text().c_str(), 63);
    if (write(ends[1], text, 64) != 64) _exit(1);
    auto one = TcpTransport::open(*door1, kCommunicator, 1, {*net::Address::parse(address0), door1->address()});
    wait_for([&] { return (*one)->receiver(0) != nullptr; });
    for (;;) pause();
  }
  char text[64] = {};
  ASSERT_EQ(read(ends[0], text, 64), 64);
  auto zero = TcpTransport::open(*door0, kCommunicator, 0, {door0->address(), *net::Address::parse(text)});
  ASSERT_TRUE(wait_for([&] { return (*zero)->receiver(1) != nullptr; }));
  EXPECT_EQ((*zero)->receiver(1)->peek(), nullptr);
  EXPECT_TRUE((*zero)->health());
  kill(child, SIGKILL);
  EXPECT_TRUE(wait_for([&] { return (*zero)->receiver(1)->peek() == nullptr && !(*zero)->health(); }, kSecond));
  EXPECT_EQ((*zero)->health().error().rank, 1);
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(Tcp, GarbageInsteadOfFramesIsCorrupt) {
  for (int kind = 0; kind < 3; ++kind) {
    TcpPair p;
    const auto fd = intruder(*p.door1, {kCommunicator, 0, 1, 0});
    ASSERT_TRUE(wait_for([&] { return p.one->receiver(0) != nullptr; }));
    // A frame of the right form first: {magic, length, sequence, flags, tag}.
    std::uint32_t header[10] = {0x4c414550, 4, 0, 0};
    if (kind == 0) header[0] = 0x20544547;      // "GET "
    if (kind == 1) header[1] = 256 * 1024 + 1;  // longer than a message may be
    if (kind == 2) header[2] = 1;               // out of sequence
    ASSERT_TRUE(net::send_all(fd.get(), header, sizeof header, net::deadline_in(3)));
    ASSERT_TRUE(wait_for([&] { return p.one->receiver(0)->peek() == nullptr && !p.one->health(); }));
    EXPECT_EQ(p.one->health().error().code, ErrorCode::corrupt) << p.one->health().error().message;
    EXPECT_EQ(p.one->health().error().rank, 0);
    EXPECT_EQ(p.one->receiver(0)->peek(), nullptr);
  }
}

TEST(Tcp, StrangersDoNotDisturb) {
  TcpPair p;
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 20; ++i) {
    auto fd = net::connect_to(p.door1->address(), net::deadline_in(3));
    ASSERT_TRUE(fd);
    const char text[] = "GET / HTTP/1.1\r\nHost: nobody.invalid\r\nAccept: everything there is\r\n\r\n";
    if (i % 2 == 0) {
      ASSERT_TRUE(net::send_all(fd->get(), text, sizeof text, net::deadline_in(3)));
    }
    strangers.push_back(std::move(*fd));
  }
  ASSERT_TRUE(p.connect());
  EXPECT_TRUE(wait_for([&] { return p.door1->refused_count() >= 10; }));
  EXPECT_TRUE(p.one->health());
}

TEST(Tcp, WrongKeyIsRefusedAndTheRankNamed) {
  TcpPair p(2);
  ASSERT_TRUE(wait_for([&] { return p.zero->sender(1) == nullptr && !p.zero->health(); }));
  EXPECT_EQ(p.zero->health().error().code, ErrorCode::refused) << p.zero->health().error().message;
  EXPECT_EQ(p.zero->health().error().rank, 1);
  EXPECT_TRUE(p.one->health());
}

TEST(Tcp, NobodyListeningIsUnreachableAndTheRankNamed) {
  TcpPair p;
  p.one.reset();
  p.door1.reset();
  TcpOptions options;
  p.zero.reset();
  options.connect_timeout_ns = kSecond / 4;
  auto zero = TcpTransport::open(*p.door0, kCommunicator, 0, p.peers, options);
  ASSERT_TRUE(zero);
  ASSERT_TRUE(wait_for([&] { return (*zero)->sender(1) == nullptr && !(*zero)->health(); }, 5 * kSecond));
  EXPECT_EQ((*zero)->health().error().code, ErrorCode::unreachable);
  EXPECT_EQ((*zero)->health().error().rank, 1);
  EXPECT_NE((*zero)->health().error().message.find(p.peers[1].text()), std::string::npos) << (*zero)->health().error().message;
}

TEST(Tcp, EndingWhileConnectingIsQuick) {
  // A listener that accepts in the kernel and never answers: the handshake hangs.
  auto silent = net::listen_on(net::Address::loopback_v4(0));
  ASSERT_TRUE(silent);
  auto door = listen(0);
  auto zero = TcpTransport::open(*door, kCommunicator, 0, {door->address(), *net::local_address(silent->get())});
  EXPECT_EQ((*zero)->sender(1), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto start = now_ns();
  zero->reset();
  door.reset();
  EXPECT_LT(now_ns() - start, 2 * kSecond);
}

TEST(Tcp, OneRegistrationForEachRankOfACommunicator) {
  TcpPair p;
  EXPECT_FALSE(TcpTransport::open(*p.door0, kCommunicator, 0, p.peers));
  EXPECT_TRUE(TcpTransport::open(*p.door0, kCommunicator + 1, 0, p.peers));
  EXPECT_FALSE(TcpTransport::open(*p.door0, kCommunicator + 2, 2, p.peers));
  EXPECT_EQ(p.zero->sender(0), nullptr);
  EXPECT_FALSE(p.zero->health());
}

TEST(Tcp, WishesThatAreNotGrantedAreTold) {
  TcpPair p;
  p.zero.reset();
  TcpOptions options;
  options.congestion_control = "no_such_thing";
  options.socket_buffer_bytes = 1 << 30;
  p.zero = p.open(*p.door0, 0, options);
  ASSERT_TRUE(p.connect());
  ASSERT_EQ(p.zero->notes().size(), 2u);
  EXPECT_NE(p.zero->notes()[0].find("wmem_max"), std::string::npos);
  EXPECT_NE(p.zero->notes()[1].find("no_such_thing"), std::string::npos) << p.zero->notes()[1];
}

TEST(Tcp, ConnectionsWithinAHostAreNotPaced) {
  TcpPair p;
  ASSERT_TRUE(p.connect());
  EXPECT_EQ(net::congestion_control_of(p.zero->sender(1)->poll_descriptor()), "reno");
  EXPECT_EQ(net::congestion_control_of(p.one->receiver(0)->poll_descriptor()), "reno");
}

TEST(Tcp, BetweenMachinesTheCongestionControlIsTheSystems) {
  TcpPair p;
  TcpOptions options;
  for (const bool is_near : {false, true}) {
    p.zero.reset();
    p.one.reset();
    options.is_on_machine = {is_near, is_near};
    p.zero = p.open(*p.door0, 0, options);
    p.one = p.open(*p.door1, 1, options);
    ASSERT_TRUE(p.connect());
    const std::string want = is_near ? "reno" : net::system_congestion_control();
    EXPECT_EQ(net::congestion_control_of(p.zero->sender(1)->poll_descriptor()), want);
    EXPECT_EQ(net::congestion_control_of(p.one->receiver(0)->poll_descriptor()), want);
  }
  options.is_on_machine = {true};
  EXPECT_FALSE(TcpTransport::open(*p.door0, kCommunicator + 1, 0, p.peers, options));
}

TEST(Tcp, BothMaySendFarMoreThanTheKernelHoldsWhileTheyPoll) {
  TcpPair p;
  ASSERT_TRUE(p.connect());
  constexpr int kMessages = 200;
  constexpr std::size_t kBytes = 256 * 1024;
  const auto rank = [&](TcpTransport& mine, int peer) {
    std::vector<std::byte> data(kBytes, std::byte{1}), target(kBytes);
    int sent = 0;
    int taken = 0;
    const std::int64_t deadline = now_ns() + 30 * kSecond;
    while ((sent < kMessages || taken < kMessages || !mine.sender(peer)->flush()) && now_ns() < deadline) {
      bool moved = false;
      // As long as it can it only sends: what is held back must go while the other one polls its receiver.
      while (sent < kMessages && mine.sender(peer)->send(data.data(), kBytes, nullptr)) ++sent, moved = true;
      std::size_t got = 0;
      Tag tag;
      bool has_tag = false;
      while (taken < kMessages && mine.receiver(peer)->receive(target.data(), kBytes, &got, &tag, &has_tag)) ++taken, moved = true;
      if (!moved) mine.sleep(1000);
    }
    return sent == kMessages && taken == kMessages;
  };
  bool is_fine1 = false;
  std::thread other([&] { is_fine1 = rank(*p.one, 0); });
  EXPECT_TRUE(rank(*p.zero, 1));
  other.join();
  EXPECT_TRUE(is_fine1);
}

/// Sends messages of `data` until one has gone in part only; how many went before it, or -1.
int fill_up(Sender& out, const std::vector<std::byte>& data) {
  for (int sent = 0; sent < 1000; ++sent)
    if (!out.send(data.data(), data.size(), nullptr)) return sent;
  return -1;
}

/// Takes messages until none comes for a while, and looks whether all their bytes are `value`.
int drain(TcpTransport& mine, std::byte value) {
  int taken = 0;
  Receiver& in = *mine.receiver(0);
  while (wait_for([&] { return in.peek() != nullptr; }, kSecond / 5)) {
    const Message& message = *in.peek();
    for (std::size_t i = 0; i < message.bytes; ++i)
      if (message.data[i] != value) return -1;
    in.release();
    ++taken;
  }
  return taken;
}

TEST(Tcp, LongMessageWaitsForTheKernelAWhileAndIsThenHeldBack) {
  TcpPair p;
  ASSERT_TRUE(p.connect());
  Sender& out = *p.zero->sender(1);
  std::vector<std::byte> data(256 * 1024, std::byte{1});
  int sent = fill_up(out, data);
  ASSERT_GT(sent, 0);
  // Nobody receives, so it is copied, and then the source may change.
  int tries = 0;
  while (!out.send(data.data(), data.size(), nullptr) && tries < 100000) ++tries;
  ASSERT_LT(tries, 100000) << "a message that nobody receives is never held back";
  ++sent;
  std::fill(data.begin(), data.end(), std::byte{2});
  int taken = 0;
  std::thread receiver([&] { taken = drain(*p.one, std::byte{1}); });
  EXPECT_TRUE(wait_for([&] { return out.flush(); }));
  receiver.join();
  EXPECT_EQ(taken, sent);
}

TEST(Tcp, LongMessageGoesOutOfTheCallersMemoryAndNothingOvertakesIt) {
  TcpPair p;
  ASSERT_TRUE(p.connect());
  Sender& out = *p.zero->sender(1);
  const std::vector<std::byte> data(256 * 1024, std::byte{1});
  int sent = fill_up(out, data);
  ASSERT_GT(sent, 0);
  EXPECT_TRUE(out.is_ready()) << "who sends it must come back";
  EXPECT_FALSE(out.send(&kByte, 1, nullptr));
  EXPECT_EQ(out.acquire(8), nullptr);
  EXPECT_FALSE(out.flush());
  int taken = 0;
  std::thread receiver([&] { taken = drain(*p.one, std::byte{1}); });
  EXPECT_TRUE(wait_for([&] { return out.send(data.data(), data.size(), nullptr); }));
  EXPECT_TRUE(wait_for([&] { return out.flush(); }));
  receiver.join();
  EXPECT_EQ(taken, sent + 1);
}

}  // namespace
}  // namespace peal::transport
