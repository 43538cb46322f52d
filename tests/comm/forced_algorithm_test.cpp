// Every algorithm of the registry, asked for by name, over real transports.
#include <base/names.hpp>
#include <comm/shared_buffer.hpp>
#include <schedule/registry.hpp>
#include <set>

#include "../executor/collective_case.hpp"
#include "core_ranks.hpp"

namespace peal::comm {
namespace {

using test::CollectiveCase;
using test::RankBuffers;

/// The case as a call; spans point into `kept`.
Call call_of(const CollectiveCase& c, int rank, RankBuffers& buffers, std::array<std::vector<std::uint64_t>, 4>& kept) {
  Call call;
  call.collective = c.collective;
  call.send = buffers.send();
  call.receive = buffers.receive();
  call.count = c.count;
  call.type = DataType::i32;
  call.root = c.is_rooted() ? c.root : -1;
  kept = c.lists(rank);
  call.send_counts = kept[0];
  call.send_displs = kept[1];
  call.receive_counts = kept[2];
  call.receive_displs = kept[3];
  if (varies(c.collective)) call.count = c.is_rooted() ? c.block(rank) : 0;
  return call;
}

/// Of all that a host can do: no switch computes between processes.
std::set<std::string> names_of_registry() {
  std::set<std::string> names;
  for (const schedule::Algorithm& algorithm : schedule::registry())
    if (algorithm.switches == 0) names.insert(std::string(algorithm.name));
  return names;
}

/// How many calls were served by `name`.
int force(const std::string& name, const std::string& protocol, int ranks, TransportChoice transport, const Counts& counts,
          bool is_shared = false) {
  CoreOptions options = core_options(transport);
  options.wishes.algorithm = name;
  options.wishes.protocol = protocol;
  std::vector<int> served(static_cast<std::size_t>(ranks));
  on_cores(ranks, options, [&](Core& core) -> Status {
    for (int collective = 0; collective < kCollectiveCount; ++collective) {
      if (static_cast<Collective>(collective) == Collective::send_recv) continue;  // groups have programs of their own
      if (!schedule::find_algorithm(static_cast<Collective>(collective), name)) continue;
      for (const std::uint64_t count : counts) {
        for (const bool in_place : {false, true}) {
          const CollectiveCase c{static_cast<Collective>(collective), ranks, ranks - 1, 0, count, in_place};
          if (in_place && !c.has_in_place()) continue;
          RankBuffers buffers(c, core.rank());
          std::unique_ptr<SharedBuffer> memory;
          if (is_shared) {
            PEAL_ASSIGN(memory, SharedBuffer::create(core, buffers.elements() * sizeof(std::int32_t)));
            buffers.move_to(reinterpret_cast<std::int32_t*>(memory->data()));
          }
          std::array<std::vector<std::uint64_t>, 4> kept;
          const Call call = call_of(c, core.rank(), buffers, kept);
          Status status = core.run(call);
          if (!status) {
            // A wish that cannot be served is refused by name before anything is sent, alike on all ranks.
            EXPECT_NE(status.error().message.find(protocol.empty() ? name : protocol), std::string::npos) << status.error().message;
            EXPECT_TRUE(core.fault()) << status.error().message;
            if (!core.fault()) return status;
            continue;
          }
          EXPECT_TRUE(buffers.is_right()) << name_of(c.collective) << " by " << name << " " << protocol << " of " << count << " on "
                                          << ranks << " ranks" << (in_place ? ", in place" : "") << ", rank " << core.rank();
          EXPECT_TRUE(core.last_plan() != nullptr && core.last_plan()->algorithm == name) << name;
          ++served[static_cast<std::size_t>(core.rank())];
        }
      }
    }
    return {};
  });
  for (const int s : served) EXPECT_EQ(s, served[0]) << name;
  return served[0];
}

TEST(ForcedAlgorithm, GivesRightBytesThroughSharedMemory) {
  const Counts counts = unless_sanitized({5, 300'000}, {5}), counts_of_three = unless_sanitized(counts, {5, 70'001});
  for (const std::string& name : names_of_registry()) {
    int served = 0;
    for (const int ranks : {2, 3, 4, 5}) served += force(name, "", ranks, TransportChoice::shm, ranks == 3 ? counts_of_three : counts);
    // These need groups, which one host has not.
    if (name != "send_recv" && name != "hierarchical" && name != "leader_chain" && name != "grid" && name != "bidirectional_ring") {
      EXPECT_GT(served, 0) << name;
    }
  }
}

TEST(ForcedAlgorithm, GivesRightBytesFromMemoryThatRanksShare) {
  const Counts counts = unless_sanitized({5, 100'000}, {5}), counts_of_three = unless_sanitized(counts, {5, 70'001});
  for (const std::string& name : names_of_registry())
    for (const int ranks : {2, 3, 5}) force(name, "", ranks, TransportChoice::shm, ranks == 3 ? counts_of_three : counts, true);
}

TEST(ForcedAlgorithm, GivesRightBytesThroughSockets) {
  const Counts counts = unless_sanitized({5, 100'000}, {5, 30'001});
  for (const std::string& name : names_of_registry())
    for (const int ranks : {2, 4}) force(name, "", ranks, TransportChoice::tcp, counts);
}

TEST(ForcedAlgorithm, WithEveryProtocolThatIsOffered) {
  int served = 0;
  for (const std::string& name : names_of_registry())
    for (const char* protocol : {"line", "staged"}) served += force(name, protocol, 3, TransportChoice::shm, {1, 1000});
  EXPECT_GT(served, 50);
}

TEST(ForcedAlgorithm, ZeroCountsToo) {
  for (const std::string& name : names_of_registry()) force(name, "", 3, TransportChoice::shm, {0});
}

}  // namespace
}  // namespace peal::comm
