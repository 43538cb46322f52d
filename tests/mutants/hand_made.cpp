#include "hand_made.hpp"

#include <schedule/builder.hpp>

namespace peal::mutants {

using schedule::input;
using schedule::Layout;
using schedule::Op;
using schedule::output;
using schedule::Partition;
using schedule::RankBuilder;
using schedule::Schedule;
using schedule::scratch;
using schedule::Source;
using schedule::StrandBuilder;

namespace {

Schedule make(std::string name, Collective collective, std::int32_t ranks) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.request.collective = collective;
  schedule.request.ranks = ranks;
  return schedule;
}

void gather_layouts(Schedule& schedule, std::int32_t ranks) {
  schedule.layouts.input = {Partition::blocks, 1, 1};
  schedule.layouts.output = {Partition::blocks, ranks, 1};
}

}  // namespace

Schedule three_strands(std::int32_t ranks) {
  Schedule schedule = make("three strands", Collective::all_reduce, ranks);
  schedule.layouts.scratch_copies = ranks - 1;
  schedule.build = [ranks](std::int32_t rank) {
    RankBuilder builder;
    const std::int32_t came = builder.event();
    StrandBuilder send = builder.strand("send");
    for (std::int32_t k = 1; k < ranks; ++k) send.send((rank + k) % ranks, input(0));
    StrandBuilder receive = builder.strand("receive");
    for (std::int32_t k = 1; k < ranks; ++k) {
      receive.recv((rank + k) % ranks, scratch(k - 1));
      receive.signal(came);
    }
    StrandBuilder reduce = builder.strand("reduce");
    std::vector<Source> sources{{input(0), -1}};
    for (std::int32_t k = 1; k < ranks; ++k) {
      reduce.wait(came, k);
      sources.push_back({scratch(k - 1), -1});
    }
    reduce.reduce(output(0), sources, false).flags |= schedule::kFinish;
    return builder.take();
  };
  return schedule;
}

Schedule puts(std::int32_t ranks) {
  Schedule schedule = make("puts", Collective::all_gather, ranks);
  gather_layouts(schedule, ranks);
  schedule.build = [ranks](std::int32_t rank) {
    RankBuilder builder;
    const std::int32_t here = builder.event();
    const std::int32_t there = builder.event();
    StrandBuilder own = builder.strand("own");
    own.copy(output(rank), input(0));
    StrandBuilder put = builder.strand("put");
    for (std::int32_t k = 1; k < ranks; ++k) put.signal(here).peer = (rank + k) % ranks;
    for (std::int32_t k = 1; k < ranks; ++k) {
      const std::int32_t peer = (rank + k) % ranks;
      put.wait(here, 1).peer = peer;
      Op& op = put.copy(output(rank), input(0));
      op.peer = peer;
      op.flags |= schedule::kRemoteDst;
      put.signal(there).peer = peer;
    }
    for (std::int32_t k = 1; k < ranks; ++k) put.wait(there, 1).peer = (rank + k) % ranks;
    return builder.take();
  };
  return schedule;
}

Schedule gets(std::int32_t ranks) {
  Schedule schedule = make("gets", Collective::all_gather, ranks);
  gather_layouts(schedule, ranks);
  schedule.build = [ranks](std::int32_t rank) {
    RankBuilder builder;
    const std::int32_t here = builder.event();
    const std::int32_t done = builder.event();
    StrandBuilder get = builder.strand("get");
    get.copy(output(rank), input(0));
    for (std::int32_t k = 1; k < ranks; ++k) get.signal(here).peer = (rank + k) % ranks;
    for (std::int32_t k = 1; k < ranks; ++k) {
      const std::int32_t peer = (rank + k) % ranks;
      get.wait(here, 1).peer = peer;
      Op& op = get.copy(output(peer), input(0));
      op.peer = peer;
      op.flags |= schedule::kRemoteSrc;
      get.signal(done).peer = peer;
    }
    for (std::int32_t k = 1; k < ranks; ++k) get.wait(done, 1).peer = (rank + k) % ranks;
    return builder.take();
  };
  return schedule;
}

Schedule double_buffer() {
  Schedule schedule = make("double buffer", Collective::send_recv, 2);
  schedule.request.root = 0;
  schedule.request.peer = 1;
  schedule.layouts.input = {Partition::even, 1, 8};
  schedule.layouts.output = {Partition::even, 1, 8};
  schedule.layouts.scratch_copies = 1;
  schedule.layouts.uniform = true;  // scratch places hold chunks of any number
  schedule.build = [](std::int32_t rank) {
    RankBuilder builder;
    if (rank == 0) {
      StrandBuilder send = builder.strand("send");
      send.loop(8, [&] { send.send(1, input(0).by(1)); });
      return builder.take();
    }
    const std::int32_t full = builder.event();
    const std::int32_t empty = builder.event();
    StrandBuilder receive = builder.strand("receive");
    receive.loop(2, [&] {
      receive.recv(0, scratch(0).by(1));
      receive.signal(full);
    });
    receive.loop(3, [&] {
      receive.loop(2, [&] {
        Op& wait = receive.wait(empty, 1);
        wait.src.step[0] = 1;
        wait.src.step[1] = 2;
        receive.recv(0, scratch(0).by(1));
        receive.signal(full);
      });
    });
    StrandBuilder copy = builder.strand("copy");
    copy.loop(4, [&] {
      copy.loop(2, [&] {
        Op& wait = copy.wait(full, 1);
        wait.src.step[0] = 1;
        wait.src.step[1] = 2;
        copy.copy(output(0).by(1, 2), scratch(0).by(1));
        copy.signal(empty);
      });
    });
    return builder.take();
  };
  return schedule;
}

std::vector<Schedule> hand_made() {
  std::vector<Schedule> all;
  for (const std::int32_t n : {2, 3, 4}) {
    all.push_back(three_strands(n));
    all.push_back(puts(n));
    all.push_back(gets(n));
  }
  all.push_back(double_buffer());
  return all;
}

}  // namespace peal::mutants
