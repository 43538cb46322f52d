// What Highway's headers ask of Highway's library: which targets the CPU has, and which is chosen. Given here, so that the library is not
// loaded: on loading, version 1.0.3 of it measures a timer for 6 ms (its benchmark harness does), half of what a process of Peal takes to
// start, and a rank starts as a process.
#include <hwy/targets.h>

#include <atomic>

namespace hwy {
namespace {

std::atomic<std::int64_t> targets_for_test{0};

/// Of the targets that this build compiles kernels for, what each needs of the CPU and of the operating system that saves its registers.
std::int64_t targets_of_this_cpu() {
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86_64 && !defined(HWY_COMPILE_ONLY_STATIC)
  static_assert((HWY_TARGETS & ~(HWY_STATIC_TARGET | HWY_AVX2 | HWY_AVX3)) == 0, "say here what the new target needs");
  __builtin_cpu_init();
  if (__builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c")) {
    targets |= HWY_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd"))
      targets |= HWY_AVX3;
  }
#endif
  return targets;
}

}  // namespace

std::int64_t SupportedTargets() {
  const std::int64_t wanted = targets_for_test.load(std::memory_order_relaxed);
  static const std::int64_t targets = targets_of_this_cpu();
  return wanted != 0 ? wanted : targets;
}

void SetSupportedTargetsForTest(std::int64_t targets) { targets_for_test.store(targets, std::memory_order_relaxed); }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
