// Calls that take far longer than the others: all_reduce again and again, each call timed.
//   peal run -n N -- bench_stalls [--bytes B] [--calls C]
// Rank 0 prints one JSON object: p50_us, p99_us, most_us, seconds, and `late`: [when in s, how long in ms] of every call of 5 ms and more.
// A call's time is the longest over all ranks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <peal/communicator.hpp>
#include <string_view>
#include <vector>

namespace {

constexpr double kLateUs = 5000;

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

struct Times {
  std::vector<double> begin_us;  // since the first call
  std::vector<double> took_us;
};

Times measure(peal::Communicator& world, std::size_t bytes, std::size_t calls) {
  std::vector<float> in(std::max<std::size_t>(1, bytes / sizeof(float)), 1.0F);
  std::vector<float> out(in.size());
  const auto call = [&] { world.all_reduce(in.data(), out.data(), in.size(), peal::DataType::f32); };
  for (int i = 0; i < 100; ++i) call();
  Times times;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) {
    const Clock::time_point begin = Clock::now();
    call();
    times.begin_us.push_back(microseconds(begin - start));
    times.took_us.push_back(microseconds(Clock::now() - begin));
  }
  world.all_reduce(times.took_us.data(), times.took_us.data(), calls, peal::DataType::f64, peal::ReduceOp::max);
  return times;
}

void print(const Times& times) {
  std::vector<double> sorted = times.took_us;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t last = sorted.size() - 1;
  std::printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f, \"seconds\": %.3f, \"late\": [", sorted[last / 2],
              sorted[last * 99 / 100], sorted[last], (times.begin_us.back() + times.took_us.back()) * 1e-6);
  const char* separator = "";
  for (std::size_t i = 0; i <= last; ++i) {
    if (times.took_us[i] < kLateUs) continue;
    std::printf("%s[%.3f, %.1f]", separator, times.begin_us[i] * 1e-6, times.took_us[i] * 1e-3);
    separator = ", ";
  }
  std::printf("]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t bytes = 8;
  std::size_t calls = 10000;
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--bytes") bytes = std::strtoull(argv[i + 1], nullptr, 10);
    if (word == "--calls") calls = std::max(1ULL, std::strtoull(argv[i + 1], nullptr, 10));
  }
  try {
    peal::Communicator world = peal::init();
    const Times times = measure(world, bytes, calls);
    if (world.rank() == 0) print(times);
  } catch (const peal::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
