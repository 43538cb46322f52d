// all_to_all_v whose blocks are of all lengths: no rank knows the others' counts, so plan, protocol and the cutting into messages must not
// depend on more than each pair of ranks knows.
#include <gtest/gtest.h>

#include <base/names.hpp>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

std::uint64_t length_of(int from, int to, int round) {
  constexpr std::uint64_t kLengths[] = {3, 40'000, 0, 9'000, 4'096, 120'000, 1};
  return kLengths[static_cast<std::size_t>(from * 5 + to * 3 + round) % std::size(kLengths)];
}
float value_of(int from, int to, std::uint64_t i) { return static_cast<float>(from * 1000 + to * 100) + static_cast<float>(i % 97); }

void exchange(TransportChoice transport) {
  constexpr int kRanks = 4;
  on_cores(kRanks, core_options(transport), [&](Core& core) -> Status {
    const int me = core.rank();
    for (int round = 0; round < 14; ++round) {
      std::vector<std::uint64_t> counts[2], displs[2];
      std::vector<float> memory[2];
      for (const bool sends : {true, false}) {
        std::uint64_t end = 0;
        for (int peer = 0; peer < kRanks; ++peer) {
          const std::uint64_t n = sends ? length_of(me, peer, round) : length_of(peer, me, round);
          counts[sends].push_back(n);
          displs[sends].push_back(end);
          for (std::uint64_t i = 0; i < n; ++i) memory[sends].push_back(sends ? value_of(me, peer, i) : -1.0f);
          end += n;
        }
      }
      Call call{Collective::all_to_all_v, memory[true].data(), memory[false].data(), 0, DataType::f32};
      call.send_counts = counts[true];
      call.send_displs = displs[true];
      call.receive_counts = counts[false];
      call.receive_displs = displs[false];
      PEAL_TRY(core.run(call));
      const schedule::Protocol protocol = core.last_plan()->protocol;  // some processors read in the sender's memory
      EXPECT_TRUE(protocol == schedule::Protocol::staged ||
                  (transport == TransportChoice::shm && protocol == schedule::Protocol::direct_read));
      for (int peer = 0; peer < kRanks; ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        for (std::uint64_t i = 0; i < counts[false][p]; ++i)
          if (memory[false][displs[false][p] + i] != value_of(peer, me, i)) return fail(ErrorCode::internal, "wrong bytes from {}", peer);
      }
    }
    return {};
  });
}

TEST(Varied, BlocksOfAllLengthsThroughSharedMemory) { exchange(TransportChoice::shm); }
TEST(Varied, BlocksOfAllLengthsThroughSockets) { exchange(TransportChoice::tcp); }

}  // namespace
}  // namespace peal::comm
