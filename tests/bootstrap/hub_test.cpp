// A star around another rank than 0, as jobs over several hosts have a second one for the news of faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "ranks.hpp"

namespace peal::bootstrap {
namespace {

using Kind = ControlEvent::Kind;
using testing::HasSubstr;

/// The jobs of all ranks around `hub`; the root of a TCP job has no port yet.
std::vector<Job> jobs_around(int hub, int size, std::string_view kind, double timeout_s = 20) {
  const net::Key key = net::make_key();
  const net::Address root = kind == "v4"   ? net::Address::loopback_v4(0)
                            : kind == "v6" ? net::Address::loopback_v6(0)
                                           : test::free_root("unix");
  std::vector<Job> out;
  for (int rank = 0; rank < size; ++rank) {
    out.push_back(test::job_at(root, rank, size, key, timeout_s));
    out.back().hub = hub;
  }
  return out;
}

/// The hub listens where the kernel has a port free, and everybody is told.
FileDescriptor listen_and_tell(std::vector<Job>& jobs) {
  auto listener = Rendezvous::listen(jobs.front());
  EXPECT_TRUE(listener) << listener.error().message;
  const auto root = net::local_address(listener->get());
  for (Job& job : jobs) job.root = *root;
  return std::move(*listener);
}

std::vector<test::Joined> join_with(FileDescriptor listener, const std::vector<Job>& jobs) {
  std::vector<test::Joined> out(jobs.size());
  std::vector<std::thread> ranks;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    ranks.emplace_back([&, i] {
      FileDescriptor mine = jobs[i].rank == jobs[i].hub ? std::move(listener) : FileDescriptor();
      out[i] = Rendezvous::join(jobs[i], local_contact(jobs[i].rank), std::move(mine));
    });
  for (auto& one : ranks) one.join();
  return out;
}

std::vector<std::unique_ptr<Rendezvous>> star_around(int hub, int size) {
  auto jobs = jobs_around(hub, size, "v4");
  FileDescriptor listener = listen_and_tell(jobs);
  std::vector<std::unique_ptr<Rendezvous>> out;
  for (auto& one : join_with(std::move(listener), jobs)) {
    EXPECT_TRUE(one) << one.error().message;
    out.push_back(std::move(*one));
  }
  return out;
}

/// The hub's descriptor to `rank`, or a member's only one.
int link_to(const Rendezvous& star, int rank) {
  for (const ControlLink& link : star.control_links())
    if (link.rank == rank) return link.fd;
  return -1;
}

class Hub : public testing::TestWithParam<const char*> {};

TEST_P(Hub, EveryRankMayBeTheHubAndGathersInRankOrder) {
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    for (const int hub : {0, size / 2, size - 1}) {
      auto jobs = jobs_around(hub, size, GetParam());
      FileDescriptor listener = listen_and_tell(jobs);
      auto joined = join_with(std::move(listener), jobs);
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < size; ++rank) {
        auto& star = joined[static_cast<std::size_t>(rank)];
        ASSERT_TRUE(star) << star.error().message;
        EXPECT_EQ((*star)->contacts(), (*joined[0])->contacts());
        std::vector<int> neighbours;
        for (const ControlLink& link : (*star)->control_links()) neighbours.push_back(link.rank);
        std::vector<int> expected;
        for (int other = 0; other < size; ++other)
          if (other != rank && (rank == hub || other == hub)) expected.push_back(other);
        EXPECT_EQ(neighbours, expected) << "rank " << rank << " of " << size << " around " << hub;
        ranks.emplace_back([&star, rank, size] {
          const auto all = (*star)->all_gather(std::to_string(rank));
          ASSERT_TRUE(all) << all.error().message;
          for (int i = 0; i < size; ++i) EXPECT_EQ((*all)[static_cast<std::size_t>(i)], std::to_string(i));
        });
      }
      for (auto& one : ranks) one.join();
    }
  }
}

TEST_P(Hub, MissingRanksAreNamedOnEveryRankThatCame) {
  auto jobs = jobs_around(2, 5, GetParam(), 0.5);
  FileDescriptor listener = listen_and_tell(jobs);
  jobs.erase(jobs.begin() + 3);
  jobs.erase(jobs.begin());
  for (const auto& one : join_with(std::move(listener), jobs)) {
    ASSERT_FALSE(one);
    EXPECT_EQ(one.error().code, ErrorCode::unreachable);
    EXPECT_EQ(one.error().rank, 0);
    EXPECT_THAT(one.error().message, HasSubstr("ranks 0 and 3 of 5 did not come within 0.5 s"));
  }
}

TEST_P(Hub, AMissingHubIsNamed) {
  auto jobs = jobs_around(2, 3, GetParam(), 0.3);
  listen_and_tell(jobs).reset();
  jobs.pop_back();
  for (const auto& one : join_with({}, jobs)) {
    ASSERT_FALSE(one);
    EXPECT_EQ(one.error().code, ErrorCode::unreachable);
    EXPECT_EQ(one.error().rank, 2);
    EXPECT_THAT(one.error().message, HasSubstr("could not reach rank 2 of 3 within 0.3 s"));
  }
}

TEST_P(Hub, AHubThatIsSilentIsNamed) {
  auto jobs = jobs_around(1, 2, GetParam(), 0.2);
  const FileDescriptor listener = listen_and_tell(jobs);  // and nobody accepts there
  const auto joined = Rendezvous::join(jobs[0], local_contact(0));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().rank, 1);
  EXPECT_THAT(joined.error().message, HasSubstr("rank 0 could not reach rank 1 of 2"));
}

INSTANTIATE_TEST_SUITE_P(Families, Hub, testing::Values("v4", "v6", "unix"));

TEST(Hub, NewsOfOneMemberReachesAllThroughTheHub) {
  const int hub = 2;
  auto stars = star_around(hub, 4);
  ASSERT_TRUE(stars[3]->broadcast_control("rank 0 is stopped"));
  const auto at_hub = test::next_event(*stars[hub], link_to(*stars[hub], 3));
  EXPECT_EQ(at_hub.kind, Kind::message);
  EXPECT_EQ(at_hub.from, 3);
  for (const std::size_t rank : {0u, 1u}) {
    const auto event = test::next_event(*stars[rank], link_to(*stars[rank], hub));
    EXPECT_EQ(event.kind, Kind::message);
    EXPECT_EQ(event.from, 3);
    EXPECT_EQ(event.bytes, "rank 0 is stopped");
  }
  EXPECT_EQ(stars[3]->receive_control(link_to(*stars[3], hub))->kind, Kind::none) << "the origin must not hear itself";
}

TEST(Hub, AMessageToOneIsHeardByThatOneOnly) {
  auto stars = star_around(1, 4);
  ASSERT_TRUE(stars[0]->send_control(3, "hello"));
  EXPECT_EQ(test::next_event(*stars[1], link_to(*stars[1], 0), 0.3).kind, Kind::none);  // passed through
  const auto event = test::next_event(*stars[3], link_to(*stars[3], 1));
  EXPECT_EQ(event.from, 0);
  EXPECT_EQ(event.bytes, "hello");
  EXPECT_EQ(stars[2]->receive_control(link_to(*stars[2], 1))->kind, Kind::none);
}

TEST(Hub, AnOrderlyEndIsNotADeath) {
  const int hub = 2;
  auto stars = star_around(hub, 3);
  stars[0]->goodbye();
  stars[0].reset();
  const int fd = link_to(*stars[hub], 0);
  EXPECT_EQ(test::next_event(*stars[hub], fd).kind, Kind::goodbye);
  EXPECT_EQ(test::next_event(*stars[hub], fd, 0.2).kind, Kind::none);
  stars[hub]->goodbye();
  stars[hub].reset();
  EXPECT_EQ(test::next_event(*stars[1], link_to(*stars[1], hub)).kind, Kind::goodbye);
}

TEST(Hub, AnEndWithoutAGoodbyeIsADeathOfTheRightRank) {
  const int hub = 1;
  auto stars = star_around(hub, 3);
  stars[0].reset();
  const auto member = test::next_event(*stars[hub], link_to(*stars[hub], 0));
  EXPECT_EQ(member.kind, Kind::closed);
  EXPECT_EQ(member.from, 0);
  stars[hub].reset();
  const auto event = test::next_event(*stars[2], link_to(*stars[2], hub));
  EXPECT_EQ(event.kind, Kind::closed);
  EXPECT_EQ(event.from, hub);
}

TEST(Hub, AnExchangeNamesTheHubThatEnds) {
  auto jobs = jobs_around(2, 3, "v4");
  FileDescriptor listener = listen_and_tell(jobs);
  const auto codes = test::run_forked(3, [&](int rank) {
    FileDescriptor mine = rank == 2 ? std::move(listener) : FileDescriptor();
    listener.reset();
    auto star = Rendezvous::join(jobs[static_cast<std::size_t>(rank)], local_contact(rank), std::move(mine));
    if (!star) return 9;
    if (rank == 2) raise(SIGKILL);
    const auto all = (*star)->all_gather("x");
    if (all || all.error().code != ErrorCode::rank_dead || all.error().rank != 2) return 1;
    return all.error().message.starts_with("rank 2 (pid ") ? 0 : 2;
  });
  EXPECT_THAT(codes, testing::ElementsAre(0, 0, -SIGKILL));
}

TEST(Hub, ItsListenerClosesWhenAllHaveCome) {
  auto jobs = jobs_around(1, 2, "v4");
  FileDescriptor listener = listen_and_tell(jobs);
  const auto joined = join_with(std::move(listener), jobs);
  for (const auto& one : joined) ASSERT_TRUE(one) << one.error().message;
  EXPECT_FALSE(net::connect_to(jobs.front().root, net::deadline_in(0.1)));
}

TEST(Hub, AnotherKeyIsRefused) {
  auto jobs = jobs_around(1, 2, "v4", 1);
  FileDescriptor listener = listen_and_tell(jobs);
  jobs[0].key = net::make_key();
  const auto joined = join_with(std::move(listener), jobs);
  ASSERT_FALSE(joined[0]);
  EXPECT_EQ(joined[0].error().code, ErrorCode::refused);
  ASSERT_FALSE(joined[1]);
  EXPECT_THAT(joined[1].error().message, HasSubstr("another key"));
}

TEST(Hub, AHubOutsideTheJobIsRefused) {
  for (const int hub : {-1, 3}) {
    const Status checked = check(jobs_around(hub, 3, "unix").front());
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::invalid_argument);
  }
}

TEST(Hub, TooFewDescriptorsAreNamedBeforeItListens) {
  const auto codes = test::run_forked(1, [](int) {
    const rlimit few{60, 60};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 9;
    const auto listener = Rendezvous::listen(jobs_around(2, 4, "v4").front());
    if (listener || listener.error().code != ErrorCode::system) return 1;
    return listener.error().message.starts_with("rank 2 needs about 132 descriptors for 4 ranks and may have 60") ? 0 : 2;
  });
  EXPECT_THAT(codes, testing::Each(0));
}

}  // namespace
}  // namespace peal::bootstrap
