// What it costs to create communicators: time until all ranks are ready, time of sub-groups, memory.
//   peal run -n N -- bench_creation [--groups G] [--started NS] [--ready-only | --times-only]
// `--started`: when the launcher was started, in nanoseconds of CLOCK_MONOTONIC (creation.py gives it); without it readiness is not shown.
// Shared memory is counted once over all ranks, by blocks that have memory behind them; heap is what malloc has handed out, summed;
// "processes" is what the kernel says of the ranks as a whole (proportional set size: program, libraries and all).
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <peal/communicator.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kLarge = 1 << 20;
constexpr std::size_t kMostSegments = 1000;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Held {
  std::uint64_t heap = 0;
  std::uint64_t process = 0;
  std::uint64_t segments = 0;
  struct Segment {
    std::uint64_t inode, bytes;
  } segment[kMostSegments];
};

std::uint64_t proportional_set_size() {
  std::FILE* file = std::fopen("/proc/self/smaps_rollup", "re");
  if (file == nullptr) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr && std::sscanf(line, "Pss: %llu", &kib) != 1) {
  }
  std::fclose(file);
  return kib * 1024;
}

void look(Held& held) {
  held.process = proportional_set_size();
  held.heap = mallinfo2().uordblks + mallinfo2().hblkhd;
  held.segments = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    char target[64] = {};
    struct stat info {};
    if (readlink(path.c_str(), target, sizeof target - 1) < 0 || std::strncmp(target, "/memfd:peal", 11) != 0) continue;
    if (stat(path.c_str(), &info) == 0 && held.segments < kMostSegments)
      held.segment[held.segments++] = {info.st_ino, static_cast<std::uint64_t>(info.st_blocks) * 512};
  }
  if (folder != nullptr) closedir(folder);
}

/// Of all ranks together.
struct Memory {
  double shared = 0;
  double heap = 0;
  double processes = 0;
  double total() const { return shared + heap; }
};

class Bench {
 public:
  Bench(peal::Communicator& world, int groups) : world_(world), groups_(groups), all_(static_cast<std::size_t>(world.size())) {}

  /// What is measured is on the heap before the first look, so that it cancels out in differences.
  Memory memory() {
    world_.barrier();
    look(mine_);
    world_.barrier();  // nobody goes on while another one looks
    Memory sum;
    std::map<std::uint64_t, std::uint64_t> segments;
    collect();
    for (const Held& one : all_) {
      sum.heap += static_cast<double>(one.heap);
      sum.processes += static_cast<double>(one.process);
      for (std::uint64_t i = 0; i < one.segments; ++i) segments[one.segment[i].inode] = one.segment[i].bytes;
    }
    for (const auto& [inode, bytes] : segments) sum.shared += static_cast<double>(bytes);
    return sum;
  }

  // In messages that need no slots, which would be weighed.
  void collect() {
    const auto words = [](Held& held) { return 3 + 2 * held.segments; };
    constexpr std::size_t kWords = 8;
    if (world_.rank() != 0) {
      const auto* from = reinterpret_cast<const std::uint64_t*>(&mine_);
      for (std::size_t at = 0; at < words(mine_); at += kWords) world_.send(from + at, kWords, peal::DataType::u64, 0);
    }
    if (world_.rank() != 0) return;
    all_[0] = mine_;
    for (int rank = 1; rank < world_.size(); ++rank) {
      Held& held = all_[static_cast<std::size_t>(rank)];
      held.segments = 0;
      auto* to = reinterpret_cast<std::uint64_t*>(&held);
      for (std::size_t at = 0; at < words(held); at += kWords) world_.receive(to + at, kWords, peal::DataType::u64, rank);
    }
  }

  double slowest(double value) {
    double out = 0;
    world_.all_reduce(&value, &out, 1, peal::DataType::f64, peal::ReduceOp::max);
    return out;
  }

  template <class Make>
  void time_groups(const char* what, Make&& make) {
    std::vector<peal::Communicator> made(static_cast<std::size_t>(groups_));
    world_.barrier();
    const std::int64_t begin = now_ns();
    for (int g = 0; g < groups_; ++g) made[static_cast<std::size_t>(g)] = make(g);
    const double took = slowest(static_cast<double>(now_ns() - begin) / 1e6);
    say("%d sub-groups, %s: %.1f ms\n", groups_, what, took);
    world_.barrier();
  }

  void time_all() {
    const int size = world_.size();
    const int rank = world_.rank();
    time_groups("all ranks, one after another", [&](int) { return world_.split(0, rank); });
    time_groups("overlapping halves and quarters",
                [&](int g) { return world_.split((rank + g) % size / std::max(1, size / (2 + 2 * (g % 2))), rank); });
    time_groups("of one rank each", [&](int) { return world_.split(rank, 0); });
  }

  /// Memory that one communicator adds, and `groups` of them: made, after a small call in each, after a large one in each.
  void weigh(const char* what, bool is_alone) {
    std::vector<float> buffer(kLarge / sizeof(float), 1.0F);
    std::vector<peal::Communicator> made;
    made.reserve(static_cast<std::size_t>(groups_));
    const Memory before = memory();
    double one[3] = {}, one_whole[3] = {};
    for (const int many : {1, groups_}) {
      while (static_cast<int>(made.size()) < many) made.push_back(world_.split(is_alone ? world_.rank() : 0, world_.rank()));
      double now[3];
      for (int stage = 0; stage < 3; ++stage) {
        const std::size_t count = stage == 1 ? 2 : buffer.size();
        if (stage > 0)
          for (auto& group : made) group.all_reduce(buffer.data(), buffer.data(), count, peal::DataType::f32, peal::ReduceOp::max);
        const Memory after = memory();
        now[stage] = after.total() - before.total();
        const char* stages[] = {"made", "after all_reduce of 8 B", "after all_reduce of 1 MiB"};
        say("%4d %s, %-26s shared %9.1f KiB, heap %9.1f KiB, processes %7.1f MiB", many, what, stages[stage],
            (after.shared - before.shared) / 1024, (after.heap - before.heap) / 1024, after.processes / (1 << 20));
        if (many == 1) one[stage] = now[stage], one_whole[stage] = after.processes;
        if (many != 1) say(": %.2f times one, processes %.2f", now[stage] / one[stage], after.processes / one_whole[stage]);
        say("\n");
      }
    }
  }

  template <class... Values>
  void say(const char* format, Values... values) {
    if (world_.rank() != 0) return;
    std::printf(format, values...);
    std::fflush(stdout);
  }

 private:
  peal::Communicator& world_;
  int groups_;
  Held mine_;
  std::vector<Held> all_;
};

}  // namespace

int main(int argc, char** argv) {
  int groups = 100;
  std::int64_t started = 0;
  bool is_ready_only = false;
  bool has_times_only = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--groups" && i + 1 < argc) groups = std::atoi(argv[++i]);
    if (word == "--started" && i + 1 < argc) started = std::atoll(argv[++i]);
    if (word == "--ready-only") is_ready_only = true;
    if (word == "--times-only") has_times_only = true;
  }
  try {
    const std::int64_t begin = now_ns();
    peal::Communicator world = peal::init();
    const std::int64_t ready = now_ns();
    Bench bench(world, groups);
    const double slowest = bench.slowest(static_cast<double>(ready - started) / 1e6);
    const double inside = bench.slowest(static_cast<double>(ready - begin) / 1e6);
    bench.say("%d ranks", world.size());
    if (started != 0) bench.say(", ready %.0f ms after the launcher's start", slowest);
    bench.say(", in init at most %.0f ms", inside);
    bench.say(", first call done %.0f ms after the launcher's start\n", started == 0 ? 0.0 : static_cast<double>(now_ns() - started) / 1e6);
    if (is_ready_only) return 0;
    for (int i = 0; i < 2; ++i) bench.memory();  // what it takes itself is not to be weighed
    bench.time_all();
    if (has_times_only) return 0;
    bench.weigh("groups of one", true);
    bench.weigh("groups of all", false);
  } catch (const peal::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
