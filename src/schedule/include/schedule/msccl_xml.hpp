// Import of MSCCL algorithm XML (the form of msccl-tools, as collected by Azure, RCCL and ASTRA-sim): a file becomes a schedule.
//
// Thread blocks become strands, dependencies between them events. A plan's chunks are all equally long, so the schedule serves calls
// whose count is a multiple of its chunks (Layouts::uniform), as MSCCL itself demands. MSCCL does not say which reads of an in-place
// buffer are raw inputs, nor where a sum is complete; the reader finds both by following the contributions through the plan.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <schedule/schedule.hpp>
#include <string>
#include <string_view>

namespace peal::schedule {

/// What a file says beside its schedule.
struct MscclPlan {
  Schedule schedule;
  std::string protocol;         ///< "Simple", "LL" or "LL128"
  std::uint64_t min_bytes = 0;  ///< the calls that it is meant for
  std::uint64_t max_bytes = ~std::uint64_t{0};
  bool in_place = false;      ///< may serve calls in place; the schedule is in place where this holds and out_of_place does not
  bool out_of_place = false;  ///< may serve calls out of place
  std::int32_t channels = 1;
  std::uint64_t steps = 0;
};

/// Parses the text of a file. `origin` names it in messages. At most 64 MiB, 1,024 GPUs, 4,194,304 steps, 256 channels.
/// Says in one sentence what is wrong, where, and what to do; whether the plan is *right* is the verifier's business.
Result<MscclPlan> parse_msccl_xml(std::string_view text, std::string_view origin);

/// Reads a file.
Result<MscclPlan> read_msccl_plan(const std::string& path);
Result<Schedule> read_msccl_xml(const std::string& path);

}  // namespace peal::schedule
