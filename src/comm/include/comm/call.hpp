// One call of the user, before anything is known about how it will be done.
#pragma once

#include <base/names.hpp>
#include <base/result.hpp>
#include <cstdint>
#include <peal/types.hpp>
#include <span>
#include <vector>

namespace peal::comm {

/// Counts in elements; meaning by collective as in <peal/communicator.hpp>. gather_v and scatter_v: `count` is this rank's own; the lists
/// are the root's alone and empty elsewhere.
struct Call {
  Collective collective = Collective::barrier;
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t count = 0;
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = -1;
  double premul = 1.0;
  bool is_internal = false;  ///< Peal's own exchange: the user's wishes for algorithm and protocol are not for it
  std::span<const std::uint64_t> send_counts, send_displs, receive_counts, receive_displs;  ///< v-collectives
};

/// Checks what one rank alone can check; the message says what to give instead. `ranks` and `rank` of the communicator.
Status check(const Call& call, int rank, int ranks);

/// True when the buffers lie as the collective's in-place form has them.
bool is_in_place(const Call& call, int rank, int ranks);

/// What stands for the size of an all_to_all_v, gather_v or scatter_v, whose counts not all ranks know all of: its plan must be the same
/// whatever they are, and one that moves much well moves little well, too.
inline constexpr std::uint64_t kNominalBytes = 1 << 20;

/// Size of the call in bytes as nccl-tests counts it; 0 for barrier.
std::uint64_t size_in_bytes(const Call& call, int ranks);

}  // namespace peal::comm
