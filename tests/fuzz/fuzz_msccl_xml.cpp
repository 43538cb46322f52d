// MSCCL files come from anywhere: whatever the bytes, reading ends with a plan or a sentence, and a small plan can be judged.
#include <schedule/msccl_xml.hpp>
#include <schedule/verify.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = peal::schedule::parse_msccl_xml(text, "fuzz");
  if (!plan) {
    if (plan.error().message.empty()) std::abort();
    return 0;
  }
  const auto& schedule = plan->schedule;
  if (schedule.request.ranks > 16 || schedule.layouts.input.chunks() > 256 || schedule.layouts.output.chunks() > 256) return 0;
  const auto verdict = peal::schedule::verify(schedule, {});
  if (verdict.ok != verdict.why.empty()) std::abort();
  return 0;
}
