// Two hosts made of network namespaces and a virtual cable between them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <net/interfaces.hpp>

#include "ranks.hpp"

namespace peal::bootstrap {
namespace {

bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

/// Namespaces NAME0 and NAME1 with 10.77.0.1 / fd77::1 and 10.77.0.2 / fd77::2; gone with the object.
class TwoHosts {
 public:
  TwoHosts() : name_(fmt::format("pealt{}", getpid() % 100000)) {
    ok_ =
        run(fmt::format("ip netns add {0}0 && ip netns add {0}1 && ip -n {0}0 link add veth0 type veth peer name veth0 netns {0}1", name_));
    for (int i = 0; i < 2 && ok_; ++i) {
      const std::string ns = space(i);
      ok_ = run(
          fmt::format("ip -n {0} addr add 10.77.0.{1}/24 dev veth0 && ip -n {0} link set lo up && ip -n {0} link set veth0 up", ns, i + 1));
      has_v6_ = run(fmt::format("ip -n {0} addr add fd77::{1}/64 dev veth0 nodad", ns, i + 1)) && (i == 0 || has_v6_);
    }
  }
  ~TwoHosts() {
    run("ip netns del " + space(0));
    run("ip netns del " + space(1));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  bool is_ready() const { return ok_; }
  bool has_v6() const { return has_v6_; }
  std::string space(int host) const { return fmt::format("{}{}", name_, host); }
  /// Moves this (forked, single-threaded) process onto a host.
  bool enter(int host) const {
    const FileDescriptor fd(::open(("/var/run/netns/" + space(host)).c_str(), O_RDONLY | O_CLOEXEC));
    return fd && setns(fd.get(), CLONE_NEWNET) == 0;
  }

 private:
  std::string name_;
  bool ok_ = false;
  bool has_v6_ = false;
};

class Hosts : public testing::TestWithParam<const char*> {};

TEST_P(Hosts, FourRanksOnTwoHostsMeetAndKnowWhoIsNear) {
  const TwoHosts hosts;
  if (!hosts.is_ready()) GTEST_SKIP() << "`ip netns add` is not permitted here";
  const auto root = *net::Address::parse(GetParam());
  if (root.family() == net::Family::ipv6 && !hosts.has_v6()) GTEST_SKIP() << "no IPv6 in network namespaces here";
  const net::Key key = net::make_key();
  const auto codes = test::run_forked(4, [&](int rank) {
    const int host = rank / 2;
    if (!hosts.enter(host)) return 9;
    const auto choice = net::choose_interface("", root);
    if (!choice || choice->interface.name != "veth0" || choice->interface.is_loopback) return 8;
    Contact mine = local_contact(rank);
    mine.data_address = choice->interface.address.with_port(4000).text();
    auto star = Rendezvous::join(test::job_at(root, rank, 4, key), mine);
    if (!star) return 1;
    const auto& all = (*star)->contacts();
    for (int other = 0; other < 4; ++other) {
      const bool is_same = all[static_cast<std::size_t>(other)].host_identity == all[static_cast<std::size_t>(rank)].host_identity;
      if (is_same != (other / 2 == host)) return 2;
    }
    if ((all[0].data_address == all[3].data_address) || all[0].data_address != all[1].data_address) return 3;
    if (!(*star)->barrier()) return 4;
    (*star)->goodbye();
    return 0;
  });
  EXPECT_THAT(codes, testing::Each(0));
}

INSTANTIATE_TEST_SUITE_P(Families, Hosts, testing::Values("10.77.0.1:29517", "[fd77::1]:29517"));

TEST(Hosts, AHostWithoutARouteIsNamedAtOnce) {
  const TwoHosts hosts;
  if (!hosts.is_ready()) GTEST_SKIP() << "`ip netns add` is not permitted here";
  const auto root = *net::Address::parse("10.78.0.1:29517");
  const auto codes = test::run_forked(1, [&](int) {
    if (!hosts.enter(1)) return 9;
    const auto star = Rendezvous::join(test::job_at(root, 1, 2, net::make_key(), 30), local_contact(1));
    if (star || star.error().code != ErrorCode::unreachable) return 1;
    if (star.error().message.find("host unreachable: there is no way to 10.78.0.1:29517") == std::string::npos) return 2;
    const auto choice = net::choose_interface("", root);
    return !choice && choice.error().message.find("veth0 10.77.0.2") != std::string::npos ? 0 : 3;
  });
  EXPECT_THAT(codes, testing::Each(0));
}

TEST(Hosts, AHostWhoseCableIsPulledIsNamedAfterTheStartTimeout) {
  const TwoHosts hosts;
  if (!hosts.is_ready()) GTEST_SKIP() << "`ip netns add` is not permitted here";
  const auto root = *net::Address::parse("10.77.0.1:29517");
  const net::Key key = net::make_key();
  ASSERT_TRUE(run("ip -n " + hosts.space(0) + " link set veth0 down"));
  const auto codes = test::run_forked(2, [&](int rank) {
    if (!hosts.enter(rank)) return 9;
    const auto star = Rendezvous::join(test::job_at(root, rank, 2, key, 1), local_contact(rank));
    if (star || star.error().code != ErrorCode::unreachable) return 1;
    return star.error().rank == 1 - rank ? 0 : 2;
  });
  EXPECT_THAT(codes, testing::Each(0));
}

}  // namespace
}  // namespace peal::bootstrap
