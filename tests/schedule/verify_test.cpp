// Small plans by hand: what is right passes, and every kind of fault is named with rank, step and reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <schedule/builder.hpp>
#include <schedule/verify.hpp>

namespace peal::schedule {
namespace {

using ::testing::HasSubstr;
using Build = std::function<void(std::int32_t rank, RankBuilder&)>;

Schedule plan(Collective collective, std::int32_t ranks, Build build) {
  Schedule schedule;
  schedule.name = "by hand";
  schedule.request.collective = collective;
  schedule.request.ranks = ranks;
  schedule.request.peer = ranks - 1;
  if (collective == Collective::all_gather) schedule.layouts.output.blocks = ranks, schedule.layouts.output.partition = Partition::blocks;
  schedule.build = [build = std::move(build)](std::int32_t rank) {
    RankBuilder builder;
    build(rank, builder);
    return builder.take();
  };
  return schedule;
}

Verdict judged(const Schedule& schedule, Protocol protocol = Protocol::staged, std::int32_t slots = 0) {
  VerifyOptions options;
  options.protocol = protocol;
  options.slots = slots;
  return verify(schedule, options);
}

Op& finished(Op& op) {
  op.flags |= kFinish;
  return op;
}

// Two ranks swap their inputs and add.
void swap_and_add(std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand("all");
  strand.send(1 - rank, input(0));
  finished(strand.recv_reduce(1 - rank, output(0), input(0)));
}

TEST(Verify, acceptsAnExchangeAndCallsItCanonical) {
  const Verdict verdict = judged(plan(Collective::all_reduce, 2, swap_and_add));
  EXPECT_TRUE(verdict.ok) << verdict.why;
  EXPECT_TRUE(verdict.canonical);
  EXPECT_EQ(verdict.steps, 8U);  // two pieces
  EXPECT_EQ(verdict.rank, -1);
}

// A chain to rank 2; `first` and `second` say how its two sums travel.
Schedule chain_of_three(bool first, bool second) {
  Schedule schedule = plan(Collective::reduce, 3, [=](std::int32_t rank, RankBuilder& builder) {
    StrandBuilder strand = builder.strand("chain");
    const Ref own = input(0);
    if (rank == 0) first ? strand.send_addend(1, own) : strand.send(1, own);
    if (rank == 1) {
      strand.recv_reduce(0, scratch(0), own);
      second ? strand.send_addend(2, scratch(0)) : strand.send(2, scratch(0));
    }
    if (rank == 2) finished(strand.recv_reduce(1, output(0), own));
  });
  schedule.layouts.scratch_copies = 1;
  schedule.request.root = 2;
  schedule.request.wide_partials = true;
  return schedule;
}

TEST(Verify, aPartialSumThatIsSentWideIsReceivedWide) {
  EXPECT_TRUE(judged(chain_of_three(true, true)).ok);
  EXPECT_THAT(judged(chain_of_three(false, true)).why, HasSubstr("expects another wire type than was sent"));
  EXPECT_THAT(judged(chain_of_three(true, false)).why, HasSubstr("expects another wire type than was sent"));
}

TEST(Verify, aPartialSumThatIsRoundedIsRefused) {
  Schedule schedule = plan(Collective::reduce, 3, [](std::int32_t rank, RankBuilder& builder) {
    StrandBuilder strand = builder.strand("chain");
    if (rank == 0) strand.send(1, input(0));
    if (rank == 1) {
      strand.recv_reduce(0, scratch(0), input(0)).wire = Wire::element;
      strand.send_addend(2, input(0));
    }
    if (rank == 2) finished(strand.recv_reduce(1, output(0), input(0)));
  });
  schedule.layouts.scratch_copies = 1;
  schedule.request.root = 2;
  schedule.request.wide_partials = true;
  EXPECT_THAT(judged(schedule).why, HasSubstr("rounds the sum of ranks 0-1, which is not finished"));
  schedule.request.wide_partials = false;
  EXPECT_THAT(judged(schedule).why, ::testing::Not(HasSubstr("rounds"))) << "where nobody asked, sums may be rounded at every hop";
}

TEST(Verify, sumsFromLeftToRightAreNotCanonicalFromFourRanksOn) {
  for (const std::int32_t n : {3, 4}) {
    for (const bool canonical : {false, true}) {
      Schedule schedule = plan(Collective::all_reduce, n, [n, canonical](std::int32_t rank, RankBuilder& builder) {
        StrandBuilder strand = builder.strand("all");
        std::vector<Source> sources;
        for (std::int32_t q = 0; q < n; ++q) {
          if (q != rank) strand.send(q, input(0));
          sources.push_back({q == rank ? static_cast<Ref>(input(0)) : static_cast<Ref>(scratch(q)), -1});
        }
        for (std::int32_t q = 0; q < n; ++q)
          if (q != rank) strand.recv(q, scratch(q));
        finished(strand.reduce(output(0), sources, canonical));
      });
      schedule.layouts.scratch_copies = n;
      const Verdict verdict = judged(schedule);
      EXPECT_TRUE(verdict.ok) << verdict.why;
      EXPECT_EQ(verdict.canonical, canonical || n == 3) << n;
    }
  }
}

TEST(Verify, namesWhoWaitsForEver) {
  const Verdict verdict = judged(plan(Collective::all_reduce, 2, [](std::int32_t rank, RankBuilder& builder) {
    StrandBuilder strand = builder.strand("all");
    if (rank == 0) strand.copy(output(0), input(0));
    finished(strand.recv_reduce(1 - rank, output(0), input(0)));
    strand.send(1 - rank, input(0));
  }));
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_EQ(verdict.step, 0);
  EXPECT_THAT(verdict.why, HasSubstr("recv_reduce from 0 of input[0] into output[0] waits for ever: no message from rank 0 comes"));
}

TEST(Verify, countsSlots) {
  const Schedule schedule = plan(Collective::send_recv, 2, [](std::int32_t rank, RankBuilder& builder) {
    StrandBuilder strand = builder.strand("all");
    if (rank == 0) {
      strand.send(1, input(0));
      strand.send(1, input(0));
      strand.recv(1, scratch(0));
    } else {
      strand.send(0, scratch(0)).src.count = 0;
      strand.recv(0, output(0));
      strand.recv(0, output(0));
    }
  });
  EXPECT_FALSE(judged(schedule).ok);  // lengths: nothing was sent where a chunk is taken
  Schedule tight = plan(Collective::send_recv, 2, [](std::int32_t rank, RankBuilder& builder) {
    StrandBuilder strand = builder.strand("all");
    if (rank == 0) {
      strand.send(1, input(0));
      strand.send(1, input(0)).channel = 1;
    } else {
      strand.recv(0, scratch(0)).channel = 1;
      strand.recv(0, output(0));
    }
  });
  tight.layouts.scratch_copies = 1;
  EXPECT_TRUE(judged(tight, Protocol::staged, 1).ok);
  const Verdict rendezvous = judged(tight, Protocol::direct_write);
  EXPECT_THAT(rendezvous.why, HasSubstr("rank 1 does not come to its receive"));
}

TEST(Verify, seesWhatChangesUnderADirectRead) {
  const Schedule schedule = plan(Collective::all_gather, 2, [](std::int32_t rank, RankBuilder& builder) {
    StrandBuilder strand = builder.strand("all");
    strand.copy(output(rank), input(0));
    strand.copy(scratch(0), input(0));
    strand.send(1 - rank, scratch(0));
    strand.recv(1 - rank, output(1 - rank));
    strand.copy(scratch(0), output(1 - rank));
  });
  Schedule with_scratch = schedule;
  with_scratch.layouts.scratch_copies = 1;
  EXPECT_TRUE(judged(with_scratch, Protocol::staged).ok) << judged(with_scratch).why;
  const Verdict remote = judged(with_scratch, Protocol::direct_read);
  EXPECT_FALSE(remote.ok);
  EXPECT_THAT(remote.why, HasSubstr("a race"));
}

TEST(Verify, namesFaultsOfTheSum) {
  const auto why = [](Build build) { return judged(plan(Collective::all_reduce, 2, std::move(build))).why; };
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) {
                StrandBuilder s = b.strand("all");
                s.send(1 - rank, input(0));
                s.recv_reduce(1 - rank, output(0), input(0));
              }),
              HasSubstr("avg never divided"));
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) {
                StrandBuilder s = b.strand("all");
                s.send(1 - rank, input(0));
                s.recv_reduce(1 - rank, output(0), input(0));
                finished(s.copy(output(0), output(0)));
                finished(s.copy(output(0), output(0)));
              }),
              HasSubstr("a second time"));
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) {
                StrandBuilder s = b.strand("all");
                s.send(1 - rank, input(0));
                s.recv_reduce(1 - rank, output(0), input(0));
                const Source twice[] = {{output(0), -1}, {input(0), -1}};
                finished(s.reduce(output(0), twice, false));
              }),
              HasSubstr("adds a contribution twice"));
  EXPECT_THAT(why([](std::int32_t, RankBuilder& b) { finished(b.strand("all").copy(output(0), input(0))); }),
              HasSubstr("divides for avg what holds only rank 0"));
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) {
                swap_and_add(rank, b);
                b.strand("more").copy(input(0), input(0));
              }),
              HasSubstr("writes the caller's input"));
}

TEST(Verify, seesARaceBetweenStrandsAndItsRepair) {
  for (const bool with_event : {false, true}) {
    Schedule schedule = plan(Collective::all_reduce, 2, [with_event](std::int32_t rank, RankBuilder& builder) {
      const std::int32_t event = builder.event();
      StrandBuilder send = builder.strand("send");
      send.send(1 - rank, input(0));
      StrandBuilder receive = builder.strand("receive");
      receive.recv(1 - rank, scratch(0));
      if (with_event) receive.signal(event);
      StrandBuilder reduce = builder.strand("reduce");
      if (with_event) reduce.wait(event, 1);
      const Source sources[] = {{input(0), -1}, {scratch(0), -1}};
      finished(reduce.reduce(output(0), sources, false));
    });
    schedule.layouts.scratch_copies = 1;
    const Verdict verdict = judged(schedule);
    EXPECT_EQ(verdict.ok, with_event) << verdict.why;
    EXPECT_EQ(verdict.why.empty(), with_event);
  }
}

TEST(Verify, refusesAWaitThatEitherOfTwoStrandsCouldSatisfy) {
  Schedule schedule = plan(Collective::all_reduce, 2, [](std::int32_t rank, RankBuilder& builder) {
    const std::int32_t event = builder.event();
    builder.strand("other").signal(event);
    StrandBuilder receive = builder.strand("receive");
    receive.send(1 - rank, input(0));
    receive.recv(1 - rank, scratch(0));
    receive.signal(event);
    StrandBuilder reduce = builder.strand("reduce");
    reduce.wait(event, 1);
    const Source sources[] = {{input(0), -1}, {scratch(0), -1}};
    finished(reduce.reduce(output(0), sources, false));
  });
  schedule.layouts.scratch_copies = 1;
  EXPECT_FALSE(judged(schedule).ok);
}

TEST(Verify, namesMalformedOps) {
  const auto why = [](Build build) { return judged(plan(Collective::all_reduce, 2, std::move(build))).why; };
  EXPECT_THAT(why([](std::int32_t, RankBuilder& b) { b.strand("all").send(5, input(0)); }),
              HasSubstr("names rank 5, which does not exist"));
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) { b.strand("all").send(rank, input(0)); }), HasSubstr("names itself"));
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) { b.strand("all").send(1 - rank, input(3)); }),
              HasSubstr("the buffer has 1 chunks"));
  EXPECT_THAT(why([](std::int32_t, RankBuilder& b) { b.strand("all").copy(output(0), chunks_of(7, 0)); }), HasSubstr("does not exist"));
  EXPECT_THAT(why([](std::int32_t, RankBuilder& b) { b.strand("all").copy(output(0), output(0)); }), HasSubstr("nobody has written"));
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) {
                swap_and_add(rank, b);
                if (rank == 0) b.strand("more").send(1, input(0)).channel = 1;
              }),
              HasSubstr("never received"));
  EXPECT_THAT(why([](std::int32_t rank, RankBuilder& b) {
                swap_and_add(rank, b);
                StrandBuilder more = b.strand("more");
                more.send(1 - rank, input(0));
                more.recv(1 - rank, output(0));
              }),
              HasSubstr("too"));
  const auto program = [](std::vector<Op> ops) {
    return [ops = std::move(ops)](std::int32_t rank) {
      Program made;
      made.rank = rank;
      made.ranks = 1;
      made.ops = ops;
      made.strand_begin = {0, static_cast<std::uint32_t>(ops.size())};
      return made;
    };
  };
  Request alone;
  Op loop;
  loop.kind = OpKind::loop;
  loop.operand = 3;
  loop.more = 5;
  EXPECT_THAT(verify_programs(alone, {}, true, program({loop}), {}).why, HasSubstr("loop has no end"));
  EXPECT_THAT(verify_programs(alone, {}, true, program({Op{}}), {}).why, HasSubstr("does not match its loop"));
  Op wait;
  wait.kind = OpKind::wait;
  EXPECT_THAT(verify_programs(alone, {}, true, program({wait}), {}).why, HasSubstr("event that the program does not have"));
  Op strange;
  strange.kind = static_cast<OpKind>(99);
  EXPECT_THAT(verify_programs(alone, {}, true, program({strange}), {}).why, HasSubstr("is not an op"));
}

TEST(Verify, aBarrierLetsNobodyLeaveBeforeAllHaveCome) {
  const auto around = [](std::int32_t rounds) {
    return plan(Collective::barrier, 3, [rounds](std::int32_t rank, RankBuilder& builder) {
      StrandBuilder strand = builder.strand("ring");
      for (std::int32_t k = 0; k < rounds; ++k) {
        if (rank == 0 || k > 0) strand.send((rank + 1) % 3, Ref{});
        strand.recv((rank + 2) % 3, Ref{});
        if (rank != 0 && k == 0) strand.send((rank + 1) % 3, Ref{});
      }
    });
  };
  EXPECT_TRUE(judged(around(2)).ok) << judged(around(2)).why;
  const Verdict once = judged(around(1));
  EXPECT_FALSE(once.ok);
  EXPECT_THAT(once.why, HasSubstr("leaves the barrier"));
}

TEST(Verify, refusesRequestsThatMakeNoSense) {
  Schedule schedule = plan(Collective::all_to_all, 2, swap_and_add);
  schedule.request.in_place = true;
  schedule.layouts.input.blocks = schedule.layouts.output.blocks = 2;
  EXPECT_THAT(judged(schedule).why, HasSubstr("cannot be in place"));
  schedule.request.root = 9;
  EXPECT_THAT(judged(schedule).why, HasSubstr("root 9 is not below 2 ranks"));
}

// Three ranks: a switch sums three chunks, one for each. `change` may spoil an op of rank 1.
Schedule sum_of_three(std::function<void(Op&)> change, std::vector<std::int32_t> group_of_one = {0, 1, 2}) {
  Schedule schedule = plan(Collective::reduce_scatter, 3, [=](std::int32_t rank, RankBuilder& builder) {
    const std::vector<std::int32_t> all{0, 1, 2};
    const SwitchGroup group = builder.switch_group(rank == 1 ? group_of_one : all);
    Op& op = finished(builder.strand("sum").switch_reduce(group, output(0), input(0, 3), rank));
    if (rank == 1) change(op);
  });
  schedule.layouts.input.blocks = 3;
  schedule.layouts.input.partition = Partition::blocks;
  return schedule;
}

TEST(Verify, aSwitchSumsEveryContributionOnce) {
  const Verdict verdict = judged(sum_of_three([](Op&) {}));
  EXPECT_TRUE(verdict.ok) << verdict.why;
  EXPECT_FALSE(verdict.canonical) << "nobody says in which order a switch adds three";
  EXPECT_EQ(verdict.steps, 6U);
}

TEST(Verify, aSumInASwitchThatIsWrongIsRefused) {
  const auto why = [](std::function<void(Op&)> change, std::vector<std::int32_t> group = {0, 1, 2}) {
    const Verdict verdict = judged(sum_of_three(std::move(change), std::move(group)));
    EXPECT_FALSE(verdict.ok);
    return verdict.why;
  };
  EXPECT_THAT(why([](Op& op) { op.channel = 1; }), HasSubstr("rank 1 of its group does not come"));
  EXPECT_THAT(why([](Op&) {}, {1, 2}), HasSubstr("rank 1 of its group does not come"));
  EXPECT_THAT(why([](Op&) {}, {0, 2}), HasSubstr("does not belong to"));
  EXPECT_THAT(why([](Op&) {}, {0, 1, 3}), HasSubstr("do not exist"));
  EXPECT_THAT(why([](Op& op) { op.src.count = 2; }), HasSubstr("brings other chunks than rank 0"));
  EXPECT_THAT(why([](Op& op) { op.operand = 0; }), HasSubstr("gives a sum to several members, but not to all"));
  EXPECT_THAT(why([](Op& op) { op.operand = 3; }), HasSubstr("does not bring"));
  EXPECT_THAT(why([](Op& op) { op.flags = 0; }), HasSubstr("avg never divided"));
  EXPECT_THAT(why([](Op& op) { op.dst.count = 0; }), HasSubstr("never written"));
  EXPECT_THAT(why([](Op& op) { op.kind = OpKind::switch_multicast; }), HasSubstr("does not come"));
  EXPECT_THAT(why([](Op& op) { op.src.first = 1; }), HasSubstr("but the buffer has 3 chunks"));
}

// Ranks 0 and 1 meet twice, and rank 1 brings the sum of the first time to the second.
TEST(Verify, whatASwitchHasSummedIsNotSummedAgain) {
  const Verdict verdict = judged(plan(Collective::all_reduce, 2, [](std::int32_t, RankBuilder& builder) {
    const std::vector<std::int32_t> both{0, 1};
    const SwitchGroup group = builder.switch_group(both);
    StrandBuilder strand = builder.strand("twice");
    strand.switch_reduce(group, output(0), input(0));
    finished(strand.switch_reduce(group, output(0), output(0)));
  }));
  EXPECT_THAT(verdict.why, HasSubstr("adds a contribution twice"));
}

TEST(Verify, aMulticastNeedsRoomForAllThatIsBrought) {
  const auto gathered = [](std::int32_t room, bool reads_early) {
    return plan(Collective::all_gather, 3, [=](std::int32_t rank, RankBuilder& builder) {
      const std::vector<std::int32_t> all{0, 1, 2};
      const SwitchGroup group = builder.switch_group(all);
      builder.strand("spread").switch_multicast(group, output(0, rank == 2 ? room : 3), input(0));
      if (reads_early && rank == 0) builder.strand("early").copy(output(1), output(2));
    });
  };
  EXPECT_TRUE(judged(gathered(3, false)).ok);
  EXPECT_THAT(judged(gathered(2, false)).why, HasSubstr("takes 2 chunks, but its group brings 3"));
  EXPECT_THAT(judged(gathered(3, true)).why, HasSubstr("a race"));
}

}  // namespace
}  // namespace peal::schedule
