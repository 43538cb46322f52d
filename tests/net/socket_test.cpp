#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.hpp>
#include <net/descriptor_passing.hpp>
#include <net/interfaces.hpp>
#include <net/socket.hpp>
#include <thread>

#include "loopback_addresses.hpp"

namespace peal::net {
namespace {

using testing::HasSubstr;

class Sockets : public testing::TestWithParam<const char*> {};

TEST_P(Sockets, BytesGoThroughBothWays) {
  const auto start = test::free_address(GetParam());
  auto listener = listen_on(start);
  ASSERT_TRUE(listener) << listener.error().message;
  const Address address = *local_address(listener->get());
  auto here = connect_to(address, deadline_in(5));
  ASSERT_TRUE(here) << here.error().message;
  auto there = accept_before(listener->get(), deadline_in(5));
  ASSERT_TRUE(there) << there.error().message;
  const std::string sent(3 << 20, 'x');  // more than the kernel keeps, so that both sides must wait
  std::string got(sent.size(), '\0');
  std::thread sender([&] { EXPECT_TRUE(send_all(here->get(), sent.data(), sent.size(), deadline_in(10))); });
  EXPECT_TRUE(recv_all(there->get(), got.data(), got.size(), deadline_in(10)));
  sender.join();
  EXPECT_EQ(got, sent);
  ASSERT_TRUE(send_all(there->get(), "back", 4, deadline_in(5)));
  ASSERT_TRUE(recv_all(here->get(), got.data(), 4, deadline_in(5)));
  EXPECT_EQ(got.substr(0, 4), "back");
}

TEST_P(Sockets, DescriptorsDieWithExec) {
  auto listener = listen_on(test::free_address(GetParam()));
  ASSERT_TRUE(listener);
  auto here = connect_to(*local_address(listener->get()), deadline_in(5));
  ASSERT_TRUE(here);
  auto there = accept_before(listener->get(), deadline_in(5));
  ASSERT_TRUE(there);
  for (const int fd : {listener->get(), here->get(), there->get()}) EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

TEST_P(Sockets, APlaceThatIsTakenIsNamed) {
  auto listener = listen_on(test::free_address(GetParam()));
  ASSERT_TRUE(listener);
  const Address address = *local_address(listener->get());
  const auto second = listen_on(address);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr(address.text()));
  EXPECT_THAT(second.error().message, HasSubstr("taken"));
}

TEST_P(Sockets, NobodyListensIsSaidAtTheDeadline) {
  Address address;
  {
    auto listener = listen_on(test::free_address(GetParam()));
    ASSERT_TRUE(listener);
    address = *local_address(listener->get());
  }
  const std::int64_t begin = now_ns();
  const auto found = connect_to(address, deadline_in(0.2));
  const double waited = static_cast<double>(now_ns() - begin) * 1e-9;
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::unreachable);
  EXPECT_THAT(found.error().message, HasSubstr("nobody listens at " + address.text()));
  EXPECT_GE(waited, 0.19);
  EXPECT_LT(waited, 5);
}

TEST_P(Sockets, ConnectWaitsForAListenerThatComesLate) {
  Address address;
  {
    auto listener = listen_on(test::free_address(GetParam()));
    ASSERT_TRUE(listener);
    address = *local_address(listener->get());
  }
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    auto listener = listen_on(address);
    ASSERT_TRUE(listener) << listener.error().message;
    EXPECT_TRUE(accept_before(listener->get(), deadline_in(10)));
  });
  EXPECT_TRUE(connect_to(address, deadline_in(10)));
  late.join();
}

TEST_P(Sockets, DeadlinesAndClosedPeersAreTold) {
  auto listener = listen_on(test::free_address(GetParam()));
  ASSERT_TRUE(listener);
  const auto silence = accept_before(listener->get(), deadline_in(0.05));
  ASSERT_FALSE(silence);
  EXPECT_EQ(silence.error().code, ErrorCode::timeout);
  auto here = connect_to(*local_address(listener->get()), deadline_in(5));
  ASSERT_TRUE(here);
  auto there = accept_before(listener->get(), deadline_in(5));
  ASSERT_TRUE(there);
  char byte = 0;
  EXPECT_EQ(recv_all(here->get(), &byte, 1, deadline_in(0.05)).error().code, ErrorCode::timeout);
  there->reset();
  EXPECT_EQ(recv_all(here->get(), &byte, 1, deadline_in(5)).error().code, ErrorCode::unreachable);
  const std::string much(8 << 20, 'x');
  EXPECT_EQ(send_all(here->get(), much.data(), much.size(), deadline_in(5)).error().code, ErrorCode::unreachable);
}

INSTANTIATE_TEST_SUITE_P(Families, Sockets, testing::Values("v4", "v6", "unix"));

TEST(Socket, AnAddressOfAnotherHostCannotBeListenedOn) {
  const auto found = listen_on(*Address::parse("192.0.2.1:0"));
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("192.0.2.1:0 is not an address of this host"));
}

TEST(Socket, ConnectingToItselfIsNotAConnection) {
  // Linux lets a socket that is bound to a port connect to that port; connect_to must not take that for a listener.
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address any = Address::loopback_v4(0);
  ASSERT_EQ(::bind(fd.get(), any.data(), any.size()), 0);
  const Address own = *local_address(fd.get());
  ASSERT_EQ(::connect(fd.get(), own.data(), own.size()), 0);
  fd.reset();
  EXPECT_FALSE(connect_to(own, deadline_in(0.1)));
}

TEST(Socket, CongestionControlIsGrantedOrExplained) {
  auto listener = listen_on(Address::loopback_v4(0));
  ASSERT_TRUE(listener);
  const auto nonsense = request_congestion_control(listener->get(), "nonsense");
  ASSERT_TRUE(nonsense) << nonsense.error().message;
  EXPECT_FALSE(nonsense->is_granted);
  EXPECT_THAT(nonsense->note, HasSubstr(nonsense->in_force));
  const auto kept = request_congestion_control(listener->get(), nonsense->in_force);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->is_granted);
  EXPECT_TRUE(kept->note.empty());
}

TEST(Socket, BothEndsBeginWithTheCongestionControlAskedFor) {
  const std::string usual = system_congestion_control();
  ASSERT_FALSE(usual.empty());
  for (const std::string wish : {std::string("reno"), std::string("nonsense"), std::string()}) {
    auto listener = listen_on(Address::loopback_v4(0), kBacklog, wish);
    ASSERT_TRUE(listener);
    auto here = connect_to(*local_address(listener->get()), deadline_in(5), wish);
    ASSERT_TRUE(here);
    auto there = accept_before(listener->get(), deadline_in(5));
    ASSERT_TRUE(there);
    const std::string want = wish == "reno" ? wish : usual;
    EXPECT_EQ(congestion_control_of(here->get()), want);
    EXPECT_EQ(congestion_control_of(there->get()), want);
  }
}

TEST(Socket, CredentialsOfAUnixPeerAreTheKernelsWord) {
  auto listener = listen_on(test::free_address("unix"));
  ASSERT_TRUE(listener);
  auto here = connect_to(*local_address(listener->get()), deadline_in(5));
  ASSERT_TRUE(here);
  auto there = accept_before(listener->get(), deadline_in(5));
  ASSERT_TRUE(there);
  const auto who = peer_credentials(there->get());
  ASSERT_TRUE(who);
  EXPECT_EQ(who->pid, getpid());
  EXPECT_EQ(who->uid, geteuid());
  EXPECT_TRUE(check_same_user(there->get()));
}

TEST(Interfaces, LoopbackIsListedAndChosenOnlyForALoopbackRoot) {
  const auto all = list_interfaces();
  ASSERT_TRUE(all);
  EXPECT_TRUE(
      std::any_of(all->begin(), all->end(), [](const Interface& one) { return one.is_loopback && one.address.host() == "127.0.0.1"; }));
  const auto choice = choose_interface("", Address::loopback_v4(1));
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_TRUE(choice->interface.is_loopback);
  EXPECT_THAT(choice->why, HasSubstr("127.0.0.1"));
  for (const Interface& one : *all) {
    if (one.is_loopback || !one.is_up || one.address.family() != Family::ipv4) continue;
    const auto real = choose_interface("", one.address.with_port(1));
    ASSERT_TRUE(real) << real.error().message;
    EXPECT_EQ(real->interface.name, one.name);
    EXPECT_THAT(real->why, HasSubstr("own address"));
  }
}

TEST(Interfaces, AWishMustExistAndTheErrorListsWhatDoes) {
  const auto by_address = choose_interface("127.0.0.1", Address::loopback_v4(1));
  ASSERT_TRUE(by_address) << by_address.error().message;
  EXPECT_THAT(by_address->why, HasSubstr("PEAL_INTERFACE"));
  const auto by_name = choose_interface("lo", Address::loopback_v4(1));
  ASSERT_TRUE(by_name) << by_name.error().message;
  EXPECT_EQ(by_name->interface.address.host(), "127.0.0.1");
  const auto wrong = choose_interface("nosuch0", Address::loopback_v4(1));
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("nosuch0"));
  EXPECT_THAT(wrong.error().message, HasSubstr("lo 127.0.0.1"));
}

}  // namespace
}  // namespace peal::net
