// An MSCCL file as it stands: GPUs, thread blocks, steps. Private to this room; msccl_xml.cpp reads it, msccl_schedule.cpp translates it.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <peal/types.hpp>
#include <schedule/msccl_xml.hpp>
#include <string>
#include <vector>

namespace peal::schedule {

enum class MscclType : std::uint8_t {
  send,
  recv,
  recv_copy_send,
  recv_reduce_send,
  recv_reduce_copy,
  recv_reduce_copy_send,
  copy,
  reduce,
  nop
};

constexpr bool receives(MscclType t) noexcept { return t >= MscclType::recv && t <= MscclType::recv_reduce_copy_send; }
constexpr bool sends(MscclType t) noexcept {
  return t == MscclType::send || t == MscclType::recv_copy_send || t == MscclType::recv_reduce_send ||
         t == MscclType::recv_reduce_copy_send;
}
constexpr bool adds(MscclType t) noexcept { return t >= MscclType::recv_reduce_send && t <= MscclType::recv_reduce_copy_send; }
/// Reads (srcbuf, srcoff).
constexpr bool reads_source(MscclType t) noexcept {
  return t == MscclType::send || adds(t) || t == MscclType::copy || t == MscclType::reduce;
}
/// Writes (dstbuf, dstoff).
constexpr bool writes_target(MscclType t) noexcept {
  return t != MscclType::send && t != MscclType::recv_reduce_send && t != MscclType::nop;
}

struct MscclStep {
  MscclType type = MscclType::nop;
  char source = 'i';  ///< 'i', 'o' or 's'
  char target = 'o';
  std::int32_t source_at = 0;
  std::int32_t target_at = 0;
  std::int32_t count = 0;
  std::int32_t after_block = -1;  ///< waits for this thread block ...
  std::int32_t after_step = -1;   ///< ... to have finished this step
  bool announces = false;         ///< hasdep
  // Found by following the contributions:
  bool source_is_raw = false;
  bool target_is_raw = false;  ///< of `re`: what it adds to
  bool completes = false;      ///< the result holds every contribution
};

struct MscclBlock {
  std::int32_t send = -1;
  std::int32_t recv = -1;
  std::int32_t channel = 0;
  std::vector<MscclStep> steps;
  bool is_there = false;
};

struct MscclGpu {
  std::int32_t input_chunks = 0;
  std::int32_t output_chunks = 0;
  std::int32_t scratch_chunks = 0;
  std::vector<MscclBlock> blocks;
  bool is_there = false;
};

struct MscclFile {
  std::string name;
  Collective collective = Collective::all_reduce;
  std::int32_t root = 0;
  std::string origin;
  std::vector<MscclGpu> gpus;
};

/// Layouts, names of buffers, events: fills plan.schedule. `plan` has the flags of the file.
Status translate(MscclFile file, MscclPlan& plan);

}  // namespace peal::schedule
