#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bootstrap/unique_id.hpp>

#include "ranks.hpp"

namespace peal::bootstrap {
namespace {

using test::free_root;
using test::job_at;
using test::join_all;
using testing::HasSubstr;

std::vector<Job> whole_job(const net::Address& root, int size, const net::Key& key, double timeout_s = 20) {
  std::vector<Job> jobs;
  for (int rank = 0; rank < size; ++rank) jobs.push_back(job_at(root, rank, size, key, timeout_s));
  return jobs;
}

class Ways : public testing::TestWithParam<const char*> {};

TEST_P(Ways, EveryRankGetsTheTableTheKeyAndTheSession) {
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    auto joined = join_all(whole_job(free_root(GetParam()), size, net::make_key()));
    for (int rank = 0; rank < size; ++rank) {
      auto& star = joined[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(star) << star.error().message;
      EXPECT_EQ((*star)->rank(), rank);
      ASSERT_EQ((*star)->contacts().size(), static_cast<std::size_t>(size));
      EXPECT_EQ((*star)->contacts(), (*joined[0])->contacts());
      EXPECT_EQ((*star)->contacts()[static_cast<std::size_t>(rank)], [&] {
        auto mine = local_contact(rank);
        return mine;
      }());
      EXPECT_EQ((*star)->data_key().bytes, (*joined[0])->data_key().bytes);
      EXPECT_EQ((*star)->session_id(), (*joined[0])->session_id());
    }
  }
}

TEST_P(Ways, BlobsAreGatheredInRankOrderAgainAndAgain) {
  const int size = 5;
  auto joined = join_all(whole_job(free_root(GetParam()), size, net::make_key()));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ASSERT_TRUE(joined[static_cast<std::size_t>(rank)]) << joined[static_cast<std::size_t>(rank)].error().message;
    ranks.emplace_back([&, rank] {
      Rendezvous& star = **joined[static_cast<std::size_t>(rank)];
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{10}, kMaxBlobBytes}) {
        auto all = star.all_gather(std::string(bytes, static_cast<char>('a' + rank)));
        ASSERT_TRUE(all) << all.error().message;
        ASSERT_EQ(all->size(), static_cast<std::size_t>(size));
        for (int i = 0; i < size; ++i) EXPECT_EQ((*all)[static_cast<std::size_t>(i)], std::string(bytes, static_cast<char>('a' + i)));
        EXPECT_TRUE(star.barrier());
      }
      EXPECT_EQ(star.all_gather(std::string(kMaxBlobBytes + 1, 'x')).error().code, ErrorCode::invalid_argument);
    });
  }
  for (auto& one : ranks) one.join();
}

TEST_P(Ways, ForkedRanksMeet) {
  const auto root = free_root(GetParam());
  const net::Key key = net::make_key();
  const auto codes = test::run_forked(4, [&](int rank) {
    auto star = Rendezvous::join(job_at(root, rank, 4, key), local_contact(rank));
    if (!star) return 1;
    if ((*star)->contacts()[static_cast<std::size_t>(rank)].pid != getpid()) return 2;
    auto all = (*star)->all_gather(std::to_string(getpid()));
    if (!all) return 3;
    for (std::size_t i = 0; i < 4; ++i)
      if ((*all)[i] != std::to_string((*star)->contacts()[i].pid)) return 4;
    (*star)->goodbye();
    return 0;
  });
  EXPECT_THAT(codes, testing::Each(0));
}

TEST_P(Ways, MissingRanksAreNamedOnEveryRankThatCame) {
  const auto root = free_root(GetParam());
  auto jobs = whole_job(root, 8, net::make_key(), 1);
  jobs.erase(jobs.begin() + 5);
  jobs.erase(jobs.begin() + 3);
  const auto joined = join_all(jobs);
  for (const auto& one : joined) {
    ASSERT_FALSE(one);
    EXPECT_EQ(one.error().code, ErrorCode::unreachable);
    EXPECT_THAT(one.error().message, HasSubstr("ranks 3 and 5 of 8 did not come within 1 s"));
    EXPECT_THAT(one.error().message, HasSubstr(root.text()));
    EXPECT_EQ(one.error().rank, 3);
  }
}

TEST_P(Ways, AMissingRankZeroIsNamed) {
  const auto root = free_root(GetParam());
  const auto joined = join_all({job_at(root, 1, 2, net::make_key(), 0.5)});
  ASSERT_FALSE(joined[0]);
  EXPECT_EQ(joined[0].error().code, ErrorCode::unreachable);
  EXPECT_EQ(joined[0].error().rank, 0);
  EXPECT_THAT(joined[0].error().message, HasSubstr("rank 1 could not reach rank 0 of 2 within 0.5 s: nobody listens at " + root.text()));
}

TEST_P(Ways, TheSameRankTwiceEndsTheStartForAll) {
  const auto root = free_root(GetParam());
  const net::Key key = net::make_key();
  auto jobs = whole_job(root, 4, key);
  jobs[3].rank = 2;
  const auto joined = join_all(jobs);
  for (const auto& one : joined) {
    ASSERT_FALSE(one);
    EXPECT_EQ(one.error().code, ErrorCode::mismatch) << one.error().message;
    EXPECT_THAT(one.error().message, HasSubstr("two processes say that they are rank 2 of 4"));
  }
}

TEST_P(Ways, AnotherSizeEndsTheStartForAll) {
  const auto root = free_root(GetParam());
  auto jobs = whole_job(root, 3, net::make_key());
  jobs[2].size = 4;
  const auto joined = join_all(jobs);
  for (const auto& one : joined) {
    ASSERT_FALSE(one);
    EXPECT_EQ(one.error().code, ErrorCode::mismatch) << one.error().message;
    EXPECT_THAT(one.error().message, HasSubstr("start every rank with the same size"));
  }
}

TEST_P(Ways, AnotherJobOrKeyIsRefusedAndTheRestGoesOn) {
  const auto root = free_root(GetParam());
  const net::Key key = net::make_key();
  auto jobs = whole_job(root, 3, key);
  auto other_job = job_at(root, 1, 3, key);
  other_job.job_id = 78;
  jobs.push_back(other_job);
  jobs.push_back(job_at(root, 1, 3, net::make_key()));
  // Those who are wrong come first, so that the others are still awaited.
  std::vector<test::Joined> wrong;
  std::thread early([&] { wrong = join_all({jobs[3], jobs[4]}); });
  std::vector<test::Joined> right(3);
  std::thread root_rank([&] { right[0] = Rendezvous::join(jobs[0], local_contact(0)); });
  early.join();
  auto rest = join_all({jobs[1], jobs[2]});
  root_rank.join();
  ASSERT_TRUE(right[0]) << right[0].error().message;
  EXPECT_TRUE(rest[0]) << rest[0].error().message;
  EXPECT_TRUE(rest[1]) << rest[1].error().message;
  ASSERT_FALSE(wrong[0]);
  ASSERT_FALSE(wrong[1]);
  EXPECT_EQ(wrong[0].error().code, ErrorCode::refused);
  EXPECT_EQ(wrong[1].error().code, ErrorCode::refused);
  EXPECT_THAT(wrong[0].error().message, HasSubstr("belongs to job"));
  EXPECT_THAT(wrong[1].error().message, HasSubstr("another key"));
  EXPECT_THAT((*right[0])->notes(), testing::UnorderedElementsAre(HasSubstr("belongs to job"), HasSubstr("another key")));
}

TEST_P(Ways, AnotherWireVersionSaysBothOnBothSides) {
  const auto root = free_root(GetParam());
  auto jobs = whole_job(root, 2, net::make_key(), 2);
  jobs[1].wire_version = 9;
  const auto joined = join_all(jobs);
  ASSERT_FALSE(joined[0]);
  ASSERT_FALSE(joined[1]);
  EXPECT_THAT(joined[0].error().message,
              HasSubstr(fmt::format("speaks wire version 9, this one {}: install the same Peal on every host", net::kWireVersion)));
  EXPECT_THAT(joined[1].error().message,
              HasSubstr(fmt::format("speaks wire version {}, this one 9: install the same Peal on every host", net::kWireVersion)));
}

TEST_P(Ways, StrangersDoNotDisturbTheStart) {
  const auto root = free_root(GetParam());
  const net::Key key = net::make_key();
  test::Joined first;
  std::thread root_rank([&] { first = Rendezvous::join(job_at(root, 0, 4, key), local_contact(0)); });
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 100; ++i) {
    auto fd = net::connect_to(root, net::deadline_in(10));
    ASSERT_TRUE(fd) << fd.error().message;
    if (i % 5 == 1) (void)net::send_all(fd->get(), "GET / HTTP/1.1\r\n\r\n", 18, net::deadline_in(5));
    if (i % 5 == 2) (void)net::send_all(fd->get(), "\x89PEAL\r\n\x1a\1\0", 10, net::deadline_in(5));
    strangers.push_back(std::move(*fd));
  }
  const auto rest = join_all({job_at(root, 1, 4, key), job_at(root, 2, 4, key), job_at(root, 3, 4, key)});
  root_rank.join();
  ASSERT_TRUE(first) << first.error().message;
  for (const auto& one : rest) EXPECT_TRUE(one) << one.error().message;
}

TEST_P(Ways, ARankThatEndsDuringTheStartIsNamed) {
  const auto root = free_root(GetParam());
  const net::Key key = net::make_key();
  const auto codes = test::run_forked(3, [&](int rank) {
    if (rank == 2) {  // comes, and is gone while rank 1 is still awaited
      alarm(1);
      (void)Rendezvous::join(job_at(root, rank, 3, key), local_contact(rank));
      return 9;
    }
    if (rank == 1) return 0;
    auto star = Rendezvous::join(job_at(root, rank, 3, key), local_contact(rank));
    return !star && star.error().code == ErrorCode::rank_dead && star.error().rank == 2 ? 0 : 1;
  });
  EXPECT_THAT(codes, testing::ElementsAre(0, 0, -SIGALRM));
}

INSTANTIATE_TEST_SUITE_P(Families, Ways, testing::Values("v4", "v6", "unix"));

TEST(Rendezvous, APortThatIsTakenIsNamed) {
  auto listener = net::listen_on(net::Address::loopback_v4(0));
  ASSERT_TRUE(listener);
  const auto root = *net::local_address(listener->get());
  const auto joined = Rendezvous::join(job_at(root, 0, 2, net::make_key()), local_contact(0));
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().message, HasSubstr("port taken: another process listens at " + root.text()));
}

TEST(Rendezvous, TcpWithoutAKeyIsRefusedWithHowToMakeOne) {
  Job job = job_at(net::Address::loopback_v4(29999), 1, 2, {});
  job.key.reset();
  const auto joined = Rendezvous::join(job, local_contact(1));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::refused);
  EXPECT_THAT(joined.error().message, HasSubstr("PEAL_KEY_FILE"));
  EXPECT_THAT(joined.error().message, HasSubstr("peal run"));
}

TEST(Rendezvous, OneHostNeedsNoKeyAndSharesAFreshOne) {
  const auto root = free_root("unix");
  auto jobs = whole_job(root, 3, {});
  for (auto& job : jobs) job.key.reset();
  auto joined = join_all(jobs);
  for (auto& one : joined) {
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_EQ((*one)->data_key().bytes, (*joined[0])->data_key().bytes);
    EXPECT_NE((*one)->data_key().bytes, net::Key{}.bytes);
  }
}

TEST(Rendezvous, AnotherUserCannotJoin) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user for this test";
  const auto root = free_root("unix");
  const net::Key key = net::make_key();
  const auto codes = test::run_forked(2, [&](int rank) {
    if (rank == 1 && setresuid(65534, 65534, 65534) != 0) return 9;
    const auto star = Rendezvous::join(job_at(root, rank, 2, key, 1), local_contact(rank));
    if (star) return 1;
    if (rank == 1) return star.error().code == ErrorCode::refused ? 0 : 2;
    return star.error().message.find("belongs to user 65534") != std::string::npos ? 0 : 3;
  });
  EXPECT_THAT(codes, testing::Each(0));
}

TEST(Rendezvous, TwoJobsAtTheSameTimeDoNotMeet) {
  const UniqueId a = make_unique_id();
  const UniqueId b = make_unique_id();
  std::vector<Job> jobs;
  for (int rank = 0; rank < 3; ++rank) {
    jobs.push_back(*job_from_unique_id(a, rank, 3));
    jobs.push_back(*job_from_unique_id(b, rank, 3));
  }
  auto joined = join_all(jobs);
  for (std::size_t i = 0; i < joined.size(); ++i) {
    ASSERT_TRUE(joined[i]) << joined[i].error().message;
    EXPECT_EQ((*joined[i])->session_id(), (*joined[i % 2])->session_id());
  }
  EXPECT_NE((*joined[0])->session_id(), (*joined[1])->session_id());
}

TEST(Rendezvous, TheSameUniqueIdServesAgain) {
  const UniqueId id = make_unique_id();
  for (int round = 0; round < 3; ++round) {
    const auto joined = join_all({*job_from_unique_id(id, 0, 2), *job_from_unique_id(id, 1, 2)});
    for (const auto& one : joined) ASSERT_TRUE(one) << one.error().message;
  }
}

TEST(Rendezvous, ManyRanksMeet) {
  const int size = 48;
  const UniqueId id = make_unique_id();
  std::vector<Job> jobs;
  for (int rank = 0; rank < size; ++rank) jobs.push_back(*job_from_unique_id(id, rank, size));
  const auto joined = join_all(jobs);
  for (const auto& one : joined) ASSERT_TRUE(one) << one.error().message;
}

}  // namespace
}  // namespace peal::bootstrap
