// What two cores can do: an all-reduce of two ranks (f32, sum) as loops written by hand, without a library. One line of JSON a size:
// nanoseconds of a flag exchange, and microseconds a call, median of the samples, of
//   in_place    both buffers shared: each rank sums one half and writes it into both
//   out_of_place  inputs shared: each rank reads both and writes its own output
//   staged      private buffers: each rank copies its input through slots in the caches and sums own input and slot; the best of several
//               slot sizes
//
//   bench_bounds SIZE...        e.g. bench_bounds 65536 1048576
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr int kSamples = 9;
constexpr int kSlots = 4;
constexpr std::size_t kSlotSizes[] = {16 << 10, 64 << 10, 256 << 10};

#define MANY_TARGETS __attribute__((noinline, target_clones("avx512f", "avx2", "default")))

MANY_TARGETS void sum(float* __restrict out, const float* __restrict a, const float* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

MANY_TARGETS void sum_into_both(float* __restrict a, float* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
}

struct alignas(128) Flag {
  std::atomic<std::uint64_t> value{0};
  void raise(std::uint64_t to) { value.store(to, std::memory_order_release); }
  void await(std::uint64_t at_least) const {
    while (value.load(std::memory_order_acquire) < at_least) _mm_pause();
  }
};

struct Memory {
  explicit Memory(std::size_t bytes) : size(bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) {
      std::perror("memory");
      std::exit(1);
    }
    data = static_cast<float*>(at);
  }
  Memory(const Memory&) = delete;
  ~Memory() { ::munmap(data, size); }
  float* data;
  std::size_t size;
};

/// Two threads on two cores: ready[r] and done[r] count what rank r has begun and ended, for whichever loop runs.
struct Pair {
  Flag ready[2], done[2];
  std::uint64_t at[2] = {0, 0};

  /// Runs body(rank, calls) on both; microseconds a call, median over samples of the slower rank.
  double time(const std::function<void(int, int)>& body, int calls) {
    std::array<std::array<double, kSamples>, 2> us{};
    std::thread threads[2];
    std::atomic<int> arrived{0};
    for (int r = 0; r < 2; ++r) {
      threads[r] = std::thread([&, r] {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(r, &set);
        ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
        body(r, 1);
        for (int s = 0; s < kSamples; ++s) {
          arrived.fetch_add(1);
          while (arrived.load() < 2 * (s + 1)) _mm_pause();
          const auto begin = std::chrono::steady_clock::now();
          body(r, calls);
          us[static_cast<std::size_t>(r)][static_cast<std::size_t>(s)] =
              std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::array<double, kSamples> slower{};
    for (std::size_t s = 0; s < kSamples; ++s) slower[s] = std::max(us[0][s], us[1][s]);
    std::sort(slower.begin(), slower.end());
    return slower[kSamples / 2];
  }
};

double flag_exchange(Pair& pair) {
  return 1000 * pair.time(
                    [&](int r, int calls) {
                      for (int i = 0; i < calls; ++i) {
                        pair.ready[r].raise(++pair.at[r]);
                        pair.ready[1 - r].await(pair.at[r]);
                      }
                    },
                    20'000);
}

double in_place(Pair& pair, std::size_t bytes, int calls) {
  const Memory a(bytes), b(bytes);
  const std::size_t half = bytes / sizeof(float) / 2;
  return pair.time(
      [&](int r, int n) {
        for (int i = 0; i < n; ++i) {
          pair.ready[r].raise(++pair.at[r]);
          pair.ready[1 - r].await(pair.at[r]);
          sum_into_both(a.data + static_cast<std::size_t>(r) * half, b.data + static_cast<std::size_t>(r) * half, half);
          pair.done[r].raise(pair.at[r]);
          pair.done[1 - r].await(pair.at[r]);
        }
      },
      calls);
}

double out_of_place(Pair& pair, std::size_t bytes, int calls) {
  const Memory a(bytes), b(bytes), out0(bytes), out1(bytes);
  return pair.time(
      [&](int r, int n) {
        for (int i = 0; i < n; ++i) {
          pair.ready[r].raise(++pair.at[r]);
          pair.ready[1 - r].await(pair.at[r]);
          sum(r == 0 ? out0.data : out1.data, a.data, b.data, bytes / sizeof(float));
          pair.done[r].raise(pair.at[r]);
          pair.done[1 - r].await(pair.at[r]);
        }
      },
      calls);
}

double staged(Pair& pair, std::size_t bytes, std::size_t slot, int calls) {
  const Memory in0(bytes), in1(bytes), out0(bytes), out1(bytes), slots0(slot * kSlots), slots1(slot * kSlots);
  const std::size_t messages = (bytes + slot - 1) / slot;
  const std::size_t stride = slot / sizeof(float);
  return pair.time(
      [&](int r, int n) {
        const float* in = r == 0 ? in0.data : in1.data;
        float* out = r == 0 ? out0.data : out1.data;
        float* own = r == 0 ? slots0.data : slots1.data;
        const float* theirs = r == 0 ? slots1.data : slots0.data;
        for (int i = 0; i < n; ++i) {
          const std::uint64_t base = pair.at[r];
          std::uint64_t sent = 0;
          for (std::uint64_t got = 0; got < messages; ++got) {
            for (; sent < messages && sent < got + 2; ++sent) {
              const std::uint64_t id = base + sent;
              if (id >= kSlots) pair.done[1 - r].await(id - kSlots + 1);
              const std::size_t length = std::min(slot, bytes - sent * slot);
              std::memcpy(own + id % kSlots * stride, in + sent * stride, length);
              pair.ready[r].raise(id + 1);
            }
            const std::uint64_t id = base + got;
            pair.ready[1 - r].await(id + 1);
            sum(out + got * stride, in + got * stride, theirs + id % kSlots * stride, std::min(slot, bytes - got * slot) / sizeof(float));
            pair.done[r].raise(id + 1);
          }
          pair.at[r] = base + messages;
        }
      },
      calls);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10) / 64 * 64;
    if (bytes == 0) {
      std::fprintf(stderr, "%s is no size in bytes of 64 or more; e.g. bench_bounds 65536 1048576\n", argv[i]);
      return 1;
    }
    const int calls = static_cast<int>(std::clamp<std::size_t>((std::size_t{16} << 20) / bytes, 1, 2000));
    // A pair each: its counters begin at 0.
    const auto fresh = [](auto&& measure) {
      Pair pair;
      return measure(pair);
    };
    double best = 0;
    for (const std::size_t slot : kSlotSizes) {
      if (slot > kSlotSizes[0] && slot * 2 > bytes) continue;
      const double us = fresh([&](Pair& pair) { return staged(pair, bytes, slot, calls); });
      best = best == 0 ? us : std::min(best, us);
    }
    std::printf("{\"bytes\":%zu,\"flag_ns\":%.1f,\"in_place\":%.3f,\"out_of_place\":%.3f,\"staged\":%.3f}\n", bytes, fresh(flag_exchange),
                fresh([&](Pair& pair) { return in_place(pair, bytes, calls); }),
                fresh([&](Pair& pair) { return out_of_place(pair, bytes, calls); }), best);
    std::fflush(stdout);
  }
}
