#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <base/clock.hpp>
#include <net/acceptor.hpp>
#include <net/handshake.hpp>
#include <net/socket.hpp>
#include <thread>

#include "loopback_addresses.hpp"

namespace peal::net {
namespace {

using testing::HasSubstr;

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    a = FileDescriptor(ends[0]);
    b = FileDescriptor(ends[1]);
  }
  FileDescriptor a, b;
};

Party root_of(std::uint32_t size) { return Party{Role::root, 0, size, 42}; }
Party member_of(std::uint32_t size, std::uint32_t rank) { return Party{Role::member, rank, size, 42}; }

struct Outcome {
  Result<Party> connector;
  Result<Party> acceptor;
};

Outcome shake(const Key& connector_key, const Party& connector, const Key& acceptor_key, const Party& acceptor) {
  Pair pair;
  Result<Party> accepted = fail(ErrorCode::internal, "not run");
  std::thread server([&] {
    accepted = acceptor_handshake(pair.b.get(), acceptor_key, acceptor, "here", deadline_in(5));
    pair.b.reset();
  });
  auto connected = connector_handshake(pair.a.get(), connector_key, connector, "there", deadline_in(5));
  pair.a.reset();
  server.join();
  return {std::move(connected), std::move(accepted)};
}

TEST(Handshake, BothSidesLearnWhoTheOtherIs) {
  const Key key = make_key();
  const auto out = shake(key, member_of(4, 3), key, root_of(4));
  ASSERT_TRUE(out.connector) << out.connector.error().message;
  ASSERT_TRUE(out.acceptor) << out.acceptor.error().message;
  EXPECT_EQ(out.connector->role, Role::root);
  EXPECT_EQ(out.connector->rank, 0u);
  EXPECT_EQ(out.acceptor->rank, 3u);
  EXPECT_EQ(out.acceptor->role, Role::member);
}

TEST(Handshake, AnotherKeyIsRefusedOnBothSides) {
  const auto out = shake(make_key(), member_of(4, 3), make_key(), root_of(4));
  ASSERT_FALSE(out.connector);
  ASSERT_FALSE(out.acceptor);
  for (const auto* side : {&out.connector, &out.acceptor}) {
    EXPECT_EQ(side->error().code, ErrorCode::refused);
    EXPECT_THAT(side->error().message, HasSubstr("another key"));
    EXPECT_THAT(side->error().message, HasSubstr("PEAL_KEY_FILE"));
  }
}

TEST(Handshake, DifferentVersionsSayBothVersionsOnBothSides) {
  const Key key = make_key();
  Party old = member_of(4, 3);
  old.wire_version = kWireVersion + 1;
  const auto out = shake(key, old, key, root_of(4));
  ASSERT_FALSE(out.connector);
  ASSERT_FALSE(out.acceptor);
  EXPECT_EQ(out.connector.error().code, ErrorCode::refused);
  EXPECT_EQ(out.acceptor.error().code, ErrorCode::refused);
  EXPECT_THAT(out.connector.error().message,
              HasSubstr(fmt::format("there speaks wire version {}, this one {}: install the same Peal on every host", kWireVersion,
                                    kWireVersion + 1)));
  EXPECT_THAT(out.acceptor.error().message,
              HasSubstr(fmt::format("here speaks wire version {}, this one {}: install the same Peal on every host", kWireVersion + 1,
                                    kWireVersion)));
}

TEST(Handshake, AnotherJobSizeRankOrRoleIsRefusedOnBothSides) {
  const Key key = make_key();
  Party other_job = member_of(4, 3);
  other_job.job = 43;
  auto out = shake(key, other_job, key, root_of(4));
  ASSERT_FALSE(out.connector);
  ASSERT_FALSE(out.acceptor);
  EXPECT_THAT(out.connector.error().message, HasSubstr("belongs to job"));
  EXPECT_THAT(out.acceptor.error().message, HasSubstr("belongs to job"));

  out = shake(key, member_of(8, 3), key, root_of(4));
  ASSERT_FALSE(out.connector);
  ASSERT_FALSE(out.acceptor);
  EXPECT_EQ(out.connector.error().code, ErrorCode::mismatch);
  EXPECT_THAT(out.acceptor.error().message, HasSubstr("rank 3 at here was started as one of 8 ranks, rank 0 as one of 4"));

  out = shake(key, member_of(4, 9), key, root_of(4));
  ASSERT_FALSE(out.connector);
  ASSERT_FALSE(out.acceptor);
  EXPECT_THAT(out.acceptor.error().message, HasSubstr("rank 9 of 4"));

  out = shake(key, member_of(4, 0), key, root_of(4));
  ASSERT_FALSE(out.acceptor);
  EXPECT_THAT(out.acceptor.error().message, HasSubstr("two processes say that they are rank 0"));
  ASSERT_FALSE(out.connector);

  Party data = member_of(4, 3);
  data.role = Role::data_connector;
  out = shake(key, data, key, root_of(4));
  EXPECT_FALSE(out.connector);
  EXPECT_FALSE(out.acceptor);
}

TEST(Handshake, AReflectedHelloProvesNothing) {
  // An attacker without the key sends the acceptor's own messages back to it.
  Pair pair;
  const Key key = make_key();
  AcceptorHandshake handshake(key, root_of(4), "attacker", deadline_in(5));
  const auto hello = encode(Hello{member_of(4, 1), {}});
  ASSERT_TRUE(send_all(pair.a.get(), hello.data(), hello.size(), deadline_in(5)));
  handshake.advance(pair.b.get());
  std::array<std::uint8_t, kHelloBytes> answer{};
  ASSERT_TRUE(recv_all(pair.a.get(), answer.data(), answer.size(), deadline_in(5)));
  ASSERT_TRUE(send_all(pair.a.get(), answer.data(), kMacBytes, deadline_in(5)));
  EXPECT_EQ(handshake.advance(pair.b.get()), AcceptorHandshake::State::refused);
  EXPECT_EQ(handshake.verdict(), Verdict::wrong_key);
  EXPECT_FALSE(handshake.is_proven());
}

TEST(Handshake, ARecordedHandshakeCannotBeReplayed) {
  const Key key = make_key();
  std::array<std::uint8_t, kHelloBytes> hello{};
  std::array<std::uint8_t, kHelloBytes> answer{};
  std::array<std::uint8_t, kMacBytes> proof{};
  {  // An attacker in the middle records what a member says to the acceptor, and the acceptor accepts the member.
    Pair member;
    Pair server;
    AcceptorHandshake handshake(key, root_of(4), "peer", deadline_in(5));
    std::thread rank([&] { EXPECT_TRUE(connector_handshake(member.a.get(), key, member_of(4, 1), "there", deadline_in(5))); });
    EXPECT_TRUE(recv_all(member.b.get(), hello.data(), hello.size(), deadline_in(5)));
    EXPECT_TRUE(send_all(server.a.get(), hello.data(), hello.size(), deadline_in(5)));
    handshake.advance(server.b.get());
    EXPECT_TRUE(recv_all(server.a.get(), answer.data(), answer.size(), deadline_in(5)));
    EXPECT_TRUE(send_all(member.b.get(), answer.data(), answer.size(), deadline_in(5)));
    EXPECT_TRUE(recv_all(member.b.get(), proof.data(), proof.size(), deadline_in(5)));
    EXPECT_TRUE(send_all(server.a.get(), proof.data(), proof.size(), deadline_in(5)));
    EXPECT_EQ(handshake.advance(server.b.get()), AcceptorHandshake::State::accepted);
    std::array<std::uint8_t, kVerdictBytes> verdict{};
    EXPECT_TRUE(recv_all(server.a.get(), verdict.data(), verdict.size(), deadline_in(5)));
    EXPECT_TRUE(send_all(member.b.get(), verdict.data(), verdict.size(), deadline_in(5)));
    rank.join();
  }
  Pair again;
  AcceptorHandshake handshake(key, root_of(4), "attacker", deadline_in(5));
  ASSERT_TRUE(send_all(again.a.get(), hello.data(), hello.size(), deadline_in(5)));
  handshake.advance(again.b.get());
  ASSERT_TRUE(send_all(again.a.get(), proof.data(), proof.size(), deadline_in(5)));
  EXPECT_EQ(handshake.advance(again.b.get()), AcceptorHandshake::State::refused);
  EXPECT_EQ(handshake.verdict(), Verdict::wrong_key);
}

TEST(Handshake, AForgedAcceptanceIsNotBelieved) {
  // A false acceptor that says "accepted" without the key.
  Pair pair;
  std::thread liar([&] {
    std::array<std::uint8_t, kHelloBytes> hello{};
    ASSERT_TRUE(recv_all(pair.b.get(), hello.data(), hello.size(), deadline_in(5)));
    const auto mine = encode(Hello{root_of(4), {}});
    ASSERT_TRUE(send_all(pair.b.get(), mine.data(), mine.size(), deadline_in(5)));
    std::array<std::uint8_t, kVerdictBytes> verdict{};
    verdict[0] = 1;
    ASSERT_TRUE(send_all(pair.b.get(), verdict.data(), verdict.size(), deadline_in(5)));
  });
  const auto out = connector_handshake(pair.a.get(), make_key(), member_of(4, 1), "there", deadline_in(5));
  liar.join();
  ASSERT_FALSE(out);
  EXPECT_THAT(out.error().message, HasSubstr("another key"));
}

TEST(Handshake, AStrangerIsClosedAfterHisFirstBytesWithoutAnAnswer) {
  Pair pair;
  AcceptorHandshake handshake(make_key(), root_of(4), "stranger", deadline_in(5));
  ASSERT_TRUE(send_all(pair.a.get(), "GET / HTTP/1.1\r\n\r\n", 18, deadline_in(5)));
  EXPECT_EQ(handshake.advance(pair.b.get()), AcceptorHandshake::State::refused);
  EXPECT_THAT(handshake.failure().message, HasSubstr("not Peal"));
  pair.b.reset();
  char byte;
  EXPECT_EQ(recv_all(pair.a.get(), &byte, 1, deadline_in(1)).error().code, ErrorCode::unreachable);
}

TEST(Handshake, ASlowPeerIsRefusedAtTheDeadline) {
  Pair pair;
  AcceptorHandshake handshake(make_key(), root_of(4), "slow", deadline_in(0.2));
  const auto hello = encode(Hello{member_of(4, 1), {}});
  std::size_t sent = 0;
  while (handshake.advance(pair.b.get()) == AcceptorHandshake::State::in_progress && sent < 60) {
    ASSERT_TRUE(send_all(pair.a.get(), hello.data() + sent++, 1, deadline_in(5)));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(handshake.state(), AcceptorHandshake::State::refused);
  EXPECT_EQ(handshake.failure().code, ErrorCode::timeout);
  EXPECT_LT(sent, 60u);
}

TEST(Handshake, TheConnectorNamesASilentAndAForeignPeer) {
  Pair pair;
  const auto silent = connector_handshake(pair.a.get(), make_key(), member_of(4, 1), "there", deadline_in(0.1));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::timeout);
  Pair other;
  ASSERT_TRUE(send_all(other.b.get(), "SSH-2.0-OpenSSH_9.2\r\n", 21, deadline_in(1)));
  const auto foreign = connector_handshake(other.a.get(), make_key(), member_of(4, 1), "there", deadline_in(5));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::refused);
  EXPECT_THAT(foreign.error().message, HasSubstr("not Peal"));
}

class Acceptors : public testing::TestWithParam<const char*> {};

TEST_P(Acceptors, StrangersAndAFloodDoNotKeepMembersOut) {
  const Key key = make_key();
  auto listener = listen_on(test::free_address(GetParam()));
  ASSERT_TRUE(listener);
  const Address address = *local_address(listener->get());
  Acceptor acceptor(std::move(*listener), key, root_of(8));
  std::atomic<bool> is_over{false};
  std::size_t most_half_open = 0;
  std::vector<std::uint32_t> ranks;
  std::thread server([&] {
    while (!is_over.load(std::memory_order_acquire)) {
      for (auto& one : acceptor.wait(deadline_in(0.02))) ranks.push_back(one.peer.rank);
      most_half_open = std::max(most_half_open, acceptor.half_open());
    }
  });
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 100; ++i) {
    auto fd = connect_to(address, deadline_in(10));
    ASSERT_TRUE(fd) << fd.error().message;
    silent.push_back(std::move(*fd));
  }
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "\x89PEAL\r\n\x1a", "\0\0\0\0", ""}) {
    auto fd = connect_to(address, deadline_in(10));
    ASSERT_TRUE(fd);
    (void)send_all(fd->get(), text, std::string_view(text).size(), deadline_in(5));
    silent.push_back(std::move(*fd));
  }
  for (std::uint32_t rank = 1; rank < 8; ++rank) {
    auto fd = connect_to(address, deadline_in(10));
    ASSERT_TRUE(fd);
    const auto out = connector_handshake(fd->get(), key, member_of(8, rank), address.text(), deadline_in(20));
    EXPECT_TRUE(out) << out.error().message;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  is_over.store(true, std::memory_order_release);
  server.join();
  EXPECT_THAT(ranks, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_LE(most_half_open, kMaxHalfOpen);
  EXPECT_GE(acceptor.refused_count(), 36u);
}

INSTANTIATE_TEST_SUITE_P(Families, Acceptors, testing::Values("v4", "v6", "unix"));

TEST(Acceptor, SilentConnectionsAreClosedAfterTheTimeout) {
  auto listener = listen_on(Address::loopback_v4(0));
  ASSERT_TRUE(listener);
  const Address address = *local_address(listener->get());
  Acceptor acceptor(std::move(*listener), make_key(), root_of(2), 100'000'000);
  auto fd = connect_to(address, deadline_in(5));
  ASSERT_TRUE(fd);
  EXPECT_TRUE(acceptor.wait(deadline_in(0.3)).empty());
  EXPECT_EQ(acceptor.half_open(), 0u);
  const auto refusals = acceptor.take_refusals();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].failure.code, ErrorCode::timeout);
  char byte;
  EXPECT_EQ(recv_all(fd->get(), &byte, 1, deadline_in(5)).error().code, ErrorCode::unreachable);
}

}  // namespace
}  // namespace peal::net
