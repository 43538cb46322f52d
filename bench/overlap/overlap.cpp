// How much of an asynchronous all-reduce hides behind computation on the same cores: see overlap.py. A rank of a job:
//     peal run -n 2 -- bench_overlap thread|poll REPEATS SLICES BYTES...
// thread: Peal's progress thread works while the rank computes; poll: no such thread, the rank calls test() between slices.
#include <algorithm>
#include <cstring>
#include <peal/communicator.hpp>
#include <string>
#include <vector>

#include "overlap_common.h"

namespace {

struct Times {
  std::vector<double> alone, computing, both;
};

double longest(peal::Communicator& world, double mine) {
  double all = 0;
  world.all_reduce(&mine, &all, 1, peal::DataType::f64, peal::ReduceOp::max);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || (std::strcmp(argv[1], "thread") != 0 && std::strcmp(argv[1], "poll") != 0)) {
    std::fprintf(stderr, "bench_overlap: type peal run -n 2 -- bench_overlap thread|poll REPEATS SLICES BYTES...\n");
    return 2;
  }
  const bool polls = std::strcmp(argv[1], "poll") == 0;
  const int repeats = std::max(3, std::atoi(argv[2]));
  const long slices = std::max(1, std::atoi(argv[3]));
  try {
    peal::Options options;
    options.progress_thread = !polls;
    peal::Communicator world = peal::init(options);
    for (int a = 4; a < argc; ++a) {
      const std::size_t bytes = std::strtoull(argv[a], nullptr, 10);
      const std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float));
      std::vector<float> in(count, 1.0f), out(count);
      Times times;
      long rounds = 0;
      for (int i = -3; i < repeats; ++i) {
        world.barrier();
        double begin = now_us();
        world.all_reduce(in.data(), out.data(), count, peal::DataType::f32);
        const double alone = longest(world, now_us() - begin);
        if (i < 0) {
          rounds = rounds_for(alone);  // as long as the communication alone
          continue;
        }
        world.barrier();
        begin = now_us();
        volatile double sink = 0;
        for (long s = 0; s < slices; ++s) sink = sink + compute(rounds / slices);
        const double computing = longest(world, now_us() - begin);
        world.barrier();
        begin = now_us();
        peal::Work work = world.all_reduce_async(in.data(), out.data(), count, peal::DataType::f32);
        for (long s = 0; s < slices; ++s) {
          sink = sink + compute(rounds / slices);
          if (polls) work.test();
        }
        work.wait();
        const double both = longest(world, now_us() - begin);
        times.alone.push_back(alone);
        times.computing.push_back(computing);
        times.both.push_back(both);
      }
      if (world.rank() == 0)
        say(argv[1], bytes, median(times.alone.data(), repeats), median(times.computing.data(), repeats),
            median(times.both.data(), repeats));
    }
  } catch (const peal::Error& error) {
    std::fprintf(stderr, "bench_overlap: %s\n", error.what());
    return 1;
  }
  return 0;
}
