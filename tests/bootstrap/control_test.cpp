#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <bootstrap/unique_id.hpp>

#include "ranks.hpp"

namespace peal::bootstrap {
namespace {

using Kind = ControlEvent::Kind;

std::vector<std::unique_ptr<Rendezvous>> threads_of(int size) {
  const UniqueId id = make_unique_id();
  std::vector<Job> jobs;
  for (int rank = 0; rank < size; ++rank) jobs.push_back(*job_from_unique_id(id, rank, size));
  std::vector<std::unique_ptr<Rendezvous>> out;
  for (auto& one : test::join_all(jobs)) {
    EXPECT_TRUE(one) << one.error().message;
    out.push_back(std::move(*one));
  }
  return out;
}

int only_link(const Rendezvous& star) { return star.control_links().at(0).fd; }

TEST(Control, LinksAreAStarAroundRankZero) {
  auto stars = threads_of(4);
  EXPECT_EQ(stars[0]->control_links().size(), 3u);
  for (std::size_t rank = 1; rank < 4; ++rank) {
    ASSERT_EQ(stars[rank]->control_links().size(), 1u);
    EXPECT_EQ(stars[rank]->control_links()[0].rank, 0);
    EXPECT_EQ(stars[0]->control_links()[rank - 1].rank, static_cast<int>(rank));
  }
}

TEST(Control, NewsOfOneMemberReachesAllThroughTheRoot) {
  auto stars = threads_of(4);
  ASSERT_TRUE(stars[2]->broadcast_control("rank 1 is dead"));
  const auto at_root = test::next_event(*stars[0], stars[0]->control_links()[1].fd);
  EXPECT_EQ(at_root.kind, Kind::message);
  EXPECT_EQ(at_root.from, 2);
  EXPECT_EQ(at_root.bytes, "rank 1 is dead");
  for (const std::size_t rank : {1u, 3u}) {
    const auto event = test::next_event(*stars[rank], only_link(*stars[rank]));
    EXPECT_EQ(event.kind, Kind::message);
    EXPECT_EQ(event.from, 2);
    EXPECT_EQ(event.bytes, "rank 1 is dead");
  }
  EXPECT_EQ(stars[2]->receive_control(only_link(*stars[2]))->kind, Kind::none) << "the origin must not hear itself";
}

TEST(Control, AMessageToOneIsHeardByThatOneOnly) {
  auto stars = threads_of(4);
  ASSERT_TRUE(stars[1]->send_control(3, "hello"));
  EXPECT_EQ(test::next_event(*stars[0], stars[0]->control_links()[0].fd, 0.3).kind, Kind::none);  // passed through
  const auto event = test::next_event(*stars[3], only_link(*stars[3]));
  EXPECT_EQ(event.from, 1);
  EXPECT_EQ(event.bytes, "hello");
  EXPECT_EQ(stars[2]->receive_control(only_link(*stars[2]))->kind, Kind::none);
  EXPECT_FALSE(stars[1]->send_control(1, "self"));
  EXPECT_FALSE(stars[1]->send_control(4, "nobody"));
  EXPECT_FALSE(stars[1]->send_control(0, std::string(kMaxControlBytes + 1, 'x')));
}

TEST(Control, AnOrderlyEndIsNotADeath) {
  auto stars = threads_of(3);
  stars[1]->goodbye();
  stars[1].reset();
  const int fd = stars[0]->control_links()[0].fd;
  EXPECT_EQ(test::next_event(*stars[0], fd).kind, Kind::goodbye);
  EXPECT_EQ(test::next_event(*stars[0], fd, 0.2).kind, Kind::none);
  stars[0]->goodbye();
  stars[0].reset();
  EXPECT_EQ(test::next_event(*stars[2], only_link(*stars[2])).kind, Kind::goodbye);
}

TEST(Control, AKilledProcessIsToldFromOneThatSaidGoodbye) {
  const UniqueId id = make_unique_id();
  const auto codes = test::run_forked(3, [&](int rank) {
    auto star = Rendezvous::join(*job_from_unique_id(id, rank, 3), local_contact(rank));
    if (!star || !(*star)->barrier()) return 9;
    if (rank == 2) raise(SIGKILL);
    if (rank == 1) return test::next_event(**star, only_link(**star)).bytes == "2 died" ? 0 : 1;
    const auto event = test::next_event(**star, (*star)->control_links()[1].fd);
    if (event.kind != Kind::closed || event.from != 2) return 2;
    if (test::next_event(**star, (*star)->control_links()[1].fd, 0.1).kind != Kind::none) return 3;
    (void)(*star)->broadcast_control("2 died");
    return test::next_event(**star, (*star)->control_links()[0].fd).kind == Kind::closed ? 0 : 4;
  });
  EXPECT_THAT(codes, testing::ElementsAre(0, 0, -SIGKILL));
}

TEST(Control, NewsThatComesDuringAnExchangeIsKept) {
  auto stars = threads_of(3);
  ASSERT_TRUE(stars[2]->broadcast_control("early"));
  std::vector<std::thread> ranks;
  for (auto& star : stars) ranks.emplace_back([&] { EXPECT_TRUE(star->barrier()); });
  for (auto& one : ranks) one.join();
  EXPECT_EQ(test::next_event(*stars[0], stars[0]->control_links()[1].fd).bytes, "early");
  EXPECT_EQ(test::next_event(*stars[1], only_link(*stars[1])).bytes, "early");
}

TEST(Control, AStoppedNeighbourNeverBlocksTheSender) {
  auto stars = threads_of(2);  // rank 1 reads nothing
  const std::string news(kMaxControlBytes, 'n');
  Status last;
  int taken = 0;
  const std::int64_t begin = now_ns();
  while ((last = stars[0]->send_control(1, news)) && taken < 10'000) ++taken;
  EXPECT_LT(static_cast<double>(now_ns() - begin) * 1e-9, 10);
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::unreachable);
  EXPECT_GE(taken, 64);
  std::thread pump([&] {  // what was taken comes whole and in order once the neighbour reads
    for (int i = 0; i < 200; ++i) {
      (void)stars[0]->receive_control(stars[0]->control_links()[0].fd);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  for (int i = 0; i < taken; ++i) ASSERT_EQ(test::next_event(*stars[1], only_link(*stars[1])).bytes, news) << i;
  pump.join();
}

TEST(Control, AnExchangeNamesTheRankThatEnds) {
  const UniqueId id = make_unique_id();
  const auto codes = test::run_forked(3, [&](int rank) {
    auto star = Rendezvous::join(*job_from_unique_id(id, rank, 3), local_contact(rank));
    if (!star) return 9;
    if (rank == 1) raise(SIGKILL);
    const auto all = (*star)->all_gather("x");
    return !all && all.error().code == ErrorCode::rank_dead && all.error().rank == 1 ? 0 : 1;
  });
  EXPECT_THAT(codes, testing::ElementsAre(0, -SIGKILL, 0));
}

TEST(Control, AnExchangeNamesTheRankThatDoesNotTakePart) {
  const UniqueId id = make_unique_id();
  std::vector<Job> jobs;
  for (int rank = 0; rank < 3; ++rank) {
    jobs.push_back(*job_from_unique_id(id, rank, 3));
    jobs.back().start_timeout_s = 1;
  }
  auto joined = test::join_all(jobs);
  std::vector<std::thread> ranks;
  for (const std::size_t rank : {0u, 2u}) {
    ranks.emplace_back([&, rank] {
      const auto all = (*joined[rank])->all_gather("x");
      ASSERT_FALSE(all);
      EXPECT_EQ(all.error().code, ErrorCode::timeout);
      EXPECT_THAT(all.error().message, testing::HasSubstr("rank 1 of 3 did not take part"));
    });
  }
  for (auto& one : ranks) one.join();
}

}  // namespace
}  // namespace peal::bootstrap
