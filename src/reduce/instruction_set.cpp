// Names for Highway's targets.
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <reduce/instruction_set.hpp>

namespace peal::reduce {
namespace {

constexpr std::int64_t kFallback = HWY_STATIC_TARGET;

}  // namespace

std::string_view instruction_set() {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable ? usable & -usable : kFallback);  // the lowest bit is the best
}

std::vector<std::string_view> instruction_sets() {
  std::vector<std::string_view> names;
  bool has_fallback = false;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.push_back(hwy::TargetName(target));
    has_fallback |= target == kFallback;
  }
  if (!has_fallback) names.push_back(hwy::TargetName(kFallback));
  return names;
}

bool use_instruction_set(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  std::int64_t wanted = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) wanted = target;
  }
  if (name == hwy::TargetName(kFallback)) wanted = kFallback;
  if (!name.empty() && !wanted) return false;
  hwy::SetSupportedTargetsForTest(wanted);
  hwy::GetChosenTarget().DeInit();  // the next call looks again
  return true;
}

}  // namespace peal::reduce
