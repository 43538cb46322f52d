// One way through a channel: two processes on two cores play ping-pong over shared memory; half of a round is one way.
// Also the rate of large messages, staged (copied in and out of a slot) and read by reference.
//   bench_channel_latency [rounds]
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cstdio>
#include <cstdlib>
#include <transport/shm.hpp>
#include <vector>

using namespace peal;
using namespace peal::transport;

namespace {

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  sched_setaffinity(0, sizeof set, &set);
}

struct Ends {
  ShmSender* sender;
  ShmReceiver* receiver;
};

void send(Ends& e, const std::byte* data, std::size_t bytes, const Tag* tag) {
  while (!e.sender->send(data, bytes, tag)) {
  }
}
void receive(Ends& e, std::byte* data, std::size_t bytes) {
  std::size_t got = 0;
  Tag tag;
  bool has_tag = false;
  while (!e.receiver->receive(data, bytes, &got, &tag, &has_tag)) {
  }
}

/// Median nanoseconds one way over batches of 64 rounds, at rank 0.
double ping_pong(Ends& e, int rank, std::size_t bytes, const Tag* tag, int rounds) {
  std::vector<std::byte> out(bytes + 1), in(bytes + 1);
  std::vector<double> times;
  for (int batch = 0; batch < rounds / 64; ++batch) {
    const auto start = now_ns();
    for (int i = 0; i < 64; ++i) {
      if (rank == 0) send(e, out.data(), bytes, tag);
      receive(e, in.data(), bytes);
      if (rank == 1) send(e, out.data(), bytes, tag);
    }
    times.push_back(static_cast<double>(now_ns() - start) / 128);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// Both send to each other at once, as an all-reduce of two ranks does. Median ns of one exchange.
double exchange(Ends& e, std::size_t bytes, const Tag* tag, int rounds) {
  std::vector<std::byte> out(bytes + 1), in(bytes + 1);
  std::vector<double> times;
  for (int batch = 0; batch < rounds / 64; ++batch) {
    const auto start = now_ns();
    for (int i = 0; i < 64; ++i) {
      send(e, out.data(), bytes, tag);
      receive(e, in.data(), bytes);
    }
    times.push_back(static_cast<double>(now_ns() - start) / 64);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// GB/s from rank 0 to rank 1.
double stream(Ends& e, int rank, std::size_t bytes, int messages) {
  std::vector<std::byte> buffer(bytes);
  const auto start = now_ns();
  for (int i = 0; i < messages; ++i) {
    if (rank == 0) {
      send(e, buffer.data(), bytes, nullptr);
    } else {
      receive(e, buffer.data(), bytes);
    }
  }
  return static_cast<double>(bytes) * messages / static_cast<double>(now_ns() - start);
}

double stream_references(Ends& e, int rank, std::size_t bytes, int messages, bool is_idle) {
  std::vector<std::byte> buffer(bytes);
  std::fill(buffer.begin(), buffer.end(), std::byte{1});
  const auto start = now_ns();
  for (int i = 0; i < messages; ++i) {
    if (rank == 0) {
      while (!e.sender->send_reference(buffer.data(), bytes, nullptr, is_idle))
        if (is_idle) e.sender->is_drained();
    } else {
      receive(e, buffer.data(), bytes);
    }
  }
  while (rank == 0 && !e.sender->is_drained()) {
  }
  return static_cast<double>(bytes) * messages / static_cast<double>(now_ns() - start);
}

int run(SharedSegment& segment, const ShmLayout& layout, int rank, int rounds) {
  pin(rank);
  auto transport = ShmTransport::open(segment, layout, rank);
  if (!transport) return 1;
  const int peer = 1 - rank;
  Ends e{(*transport)->sender(peer), (*transport)->receiver(peer)};
  std::byte token{};
  const auto barrier = [&] {
    send(e, &token, 1, nullptr);
    receive(e, &token, 1);
  };
  barrier();
  if (rank == 0) std::printf("%10s %14s %14s %14s\n", "bytes", "one way ns", "tagged ns", "exchange ns");
  const Tag tag{{1, 2, 3}};
  for (std::size_t bytes : {0, 8, 24, 48, 64, 88, 112, 256, 1024, 4096, 65536, 262144}) {
    const int n = bytes > 4096 ? rounds / 32 : rounds;
    ping_pong(e, rank, bytes, nullptr, n / 4);
    const double plain = ping_pong(e, rank, bytes, nullptr, n);
    const double tagged = ping_pong(e, rank, bytes, &tag, n);
    barrier();
    const double both = exchange(e, bytes, &tag, n);
    barrier();
    if (rank == 0) std::printf("%10zu %14.1f %14.1f %14.1f\n", bytes, plain, tagged, both);
  }
  for (std::size_t bytes : {16384, 65536, 262144}) {
    stream(e, rank, bytes, 64);
    barrier();
    const double rate = stream(e, rank, bytes, 4096);
    barrier();
    if (rank == 1) std::printf("stream of %zu bytes: %.2f GB/s\n", bytes, rate);
  }
  barrier();
  if (rank == 0 && !e.sender->has_references()) std::printf("no references: the other process cannot read this one's memory\n");
  for (std::size_t bytes : {16384, 65536, 262144}) {
    for (const bool is_idle : {false, true}) {
      barrier();
      if (rank == 0 && !e.sender->has_references()) return 0;
      const double rate = stream_references(e, rank, bytes, 1024, is_idle);
      if (rank == 1) std::printf("references of %zu bytes, copied by %s: %.2f GB/s\n", bytes, is_idle ? "both" : "the receiver", rate);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200000;
  const auto layout = ShmLayout::of(2);
  auto segment = SharedSegment::create(layout.total_bytes(), "peal-bench");
  if (!segment) {
    std::fprintf(stderr, "%s\n", segment.error().message.c_str());
    return 1;
  }
  const pid_t child = fork();
  if (child == 0) {
    const int rc = run(*segment, layout, 1, rounds);
    std::fflush(stdout);
    _exit(rc);
  }
  const int rc = run(*segment, layout, 0, rounds);
  int status = 0;
  waitpid(child, &status, 0);
  return rc != 0 || status != 0 ? 1 : 0;
}
