#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <base/clock.hpp>
#include <base/file_descriptor.hpp>
#include <base/percentile.hpp>
#include <cstring>
#include <ctime>
#include <discovery/measure.hpp>
#include <map>
#include <system_error>
#include <thread>

#include "kernel.hpp"

namespace peal::discovery {
namespace {

constexpr int kRounds = 21;
constexpr std::uint32_t kExchanges = 200;
constexpr std::size_t kMostPairedCores = 64;
constexpr std::size_t kCopyBytes = 64u << 20;
constexpr std::size_t kLeastCopyBytes = 4u << 20;
constexpr std::size_t kCopyPiece = 1u << 20;  // done before the scheduler looks again
constexpr int kCopyRounds = 4;
constexpr int kPings = 2000;
constexpr std::size_t kStreamBytes = 128u << 20;
constexpr std::int64_t kSocketTimeoutNs = 5'000'000'000;
constexpr unsigned kPollsAYield = 256;

/// Others' work on the machine only ever makes a round longer.
double lower_quartile(std::vector<double> values) { return value_at(std::move(values), 0.25); }

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);  // refused: measured where the kernel puts it
}

/// One processor of every core that may be used.
std::vector<int> one_of_each_core(const Roots& roots) {
  std::map<std::string, int> cores;
  for (int cpu : find_cpus(roots).allowed) {
    const std::string folder = fmt::format("{}/devices/system/cpu/cpu{}/topology", roots.sys, cpu);
    const std::string siblings = read_line(folder + "/core_cpus_list").value_or(std::to_string(cpu));
    cores.emplace(siblings, cpu);
  }
  std::vector<int> cpus;
  for (const auto& [siblings, cpu] : cores) cpus.push_back(cpu);
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

struct alignas(128) Flag {
  std::atomic<std::uint32_t> value{0};
};

/// Rounds of exchanges from the side of flags[side]; only side 0 looks at the clock.
void exchange(Flag* flags, int side, std::vector<double>* rounds) {
  std::atomic<std::uint32_t>& mine = flags[side].value;
  const std::atomic<std::uint32_t>& other = flags[1 - side].value;
  std::uint32_t count = 0;
  for (int round = 0; round <= kRounds; ++round) {  // the first one warms up
    const std::int64_t begin = now_ns();
    for (std::uint32_t i = 0; i < kExchanges; ++i) {
      mine.store(++count, std::memory_order_release);
      for (std::uint32_t spins = 1; other.load(std::memory_order_acquire) < count; ++spins)
        if (spins % 65536 == 0) ::sched_yield();  // both were bound to one processor after all
    }
    if (round > 0 && rounds != nullptr) rounds->push_back(static_cast<double>(now_ns() - begin) / kExchanges);
  }
}

double exchange_of(int cpu_a, int cpu_b) {
  Flag flags[2];
  std::vector<double> rounds;
  std::thread other([&] {
    bind_to(cpu_b);
    exchange(flags, 1, nullptr);
  });
  bind_to(cpu_a);
  exchange(flags, 0, &rounds);
  other.join();
  return lower_quartile(rounds);
}

bool is_sampled(std::size_t a, std::size_t b, std::size_t cores) {
  const std::size_t distance = b - a;
  return cores <= kMostPairedCores || (distance & (distance - 1)) == 0;
}

/// Memory of one core's copies, touched by whoever uses it.
struct Buffer {
  explicit Buffer(std::size_t size) : bytes(size) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data = memory == MAP_FAILED ? nullptr : memory;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data != nullptr) ::munmap(data, bytes);
  }
  std::size_t bytes;
  void* data = nullptr;
};

/// Cores that copy at once.
struct Copiers {
  std::atomic<int> arrived{0};
  std::atomic<int> expected{0};
  std::atomic<bool> is_out_of_memory{false};
  std::atomic<double> least_share{1};  // of a processor that one of them got
};

/// Bytes a second of one of them.
double copy_on(int cpu, std::size_t bytes, Copiers& copiers) {
  bind_to(cpu);
  const Buffer from(bytes), to(bytes);
  const bool is_there = from.data != nullptr && to.data != nullptr;
  if (is_there) {
    std::memset(from.data, 1, bytes);
    std::memset(to.data, 2, bytes);
  }
  ++copiers.arrived;
  if (!is_there) {
    copiers.is_out_of_memory = true;
    return 0;
  }
  while (copiers.arrived.load() < copiers.expected.load()) ::sched_yield();
  std::vector<double> times;
  const double worked = processor_seconds();
  const std::int64_t started = now_ns();
  for (int round = 0; round < kCopyRounds; ++round) {
    for (std::size_t at = 0; at + kCopyPiece <= bytes; at += kCopyPiece) {
      const std::int64_t begin = now_ns();
      std::memcpy(static_cast<char*>(to.data) + at, static_cast<const char*>(from.data) + at, kCopyPiece);
      times.push_back(static_cast<double>(std::max<std::int64_t>(1, now_ns() - begin)));
    }
  }
  const double share = (processor_seconds() - worked) * 1e9 / static_cast<double>(std::max<std::int64_t>(1, now_ns() - started));
  double known = copiers.least_share.load();
  while (share < known && !copiers.least_share.compare_exchange_weak(known, share)) {
  }
  return static_cast<double>(kCopyPiece) / lower_quartile(times) * 1e9;
}

/// Bytes a second that the cores copy together, all of them at once; 0 where there is no memory for it.
double copy_rate(const std::vector<int>& cpus, std::size_t bytes, double& least_share) {
  Copiers copiers;
  copiers.expected = static_cast<int>(cpus.size());
  std::vector<double> rates(cpus.size());
  std::vector<std::thread> threads;
  try {
    for (std::size_t i = 0; i < cpus.size(); ++i) threads.emplace_back([&, i] { rates[i] = copy_on(cpus[i], bytes, copiers); });
  } catch (const std::system_error&) {
    copiers.expected = 0;  // those that have started wait for nobody
    for (std::thread& t : threads) t.join();
    throw;
  }
  for (std::thread& t : threads) t.join();
  least_share = std::min(least_share, copiers.least_share.load());
  double sum = 0;
  for (double rate : rates) sum += rate;
  return copiers.is_out_of_memory ? 0 : sum;
}

std::size_t bytes_to_copy(std::size_t cores) {
  const auto pages = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_AVPHYS_PAGES)));
  const std::size_t share = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 4 / (2 * std::max<std::size_t>(1, cores));
  return std::clamp(share, kLeastCopyBytes, kCopyBytes);
}

/// Polls, as ranks do: to be woken takes ten times as long as the message.
bool move_all(int fd, bool is_send, char* data, std::size_t bytes) {
  std::int64_t waits_since = 0;
  for (unsigned polls = 1; bytes > 0; ++polls) {
    const ssize_t done = is_send ? ::send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : ::recv(fd, data, bytes, MSG_DONTWAIT);
    if (done == 0) return false;
    if (done > 0) {
      data += done;
      bytes -= static_cast<std::size_t>(done);
      waits_since = 0;
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    if (polls % kPollsAYield != 0) continue;
    const std::int64_t now = now_ns();
    if (waits_since == 0) waits_since = now;
    if (now - waits_since > kSocketTimeoutNs) return false;
    ::sched_yield();  // the other end may be waiting for this processor
  }
  return true;
}

/// Both ends of a TCP connection over 127.0.0.1; nothing where the host has none.
std::optional<std::pair<FileDescriptor, FileDescriptor>> connect_loopback() {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  constexpr char kControl[] = "reno";  // Peal's within a host; asked for before there is a connection, or it would be paced all the same
  for (const int fd : {listener.get(), client.get()}) ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kControl, sizeof kControl - 1);
  if (!listener || !client || ::bind(listener.get(), name, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), name, &length) != 0 || ::connect(client.get(), name, length) != 0)
    return std::nullopt;
  FileDescriptor server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!server) return std::nullopt;
  const int on = 1;
  for (const int fd : {client.get(), server.get()}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return std::pair{std::move(client), std::move(server)};
}

void measure_loopback(const std::vector<int>& cpus, HostMeasurements& found) {
  auto ends = connect_loopback();
  if (!ends) return;
  constexpr std::size_t kPiece = 1u << 20;
  std::thread echo([&] {
    bind_to(cpus.back());
    std::vector<char> piece(kPiece);
    char byte = 0;
    for (int i = 0; i < kPings; ++i)
      if (!move_all(ends->second.get(), false, &byte, 1) || !move_all(ends->second.get(), true, &byte, 1)) return;
    for (std::size_t got = 0; got < kStreamBytes; got += kPiece)
      if (!move_all(ends->second.get(), false, piece.data(), kPiece)) return;
    move_all(ends->second.get(), true, &byte, 1);
  });
  const auto ask = [&](int fd) {
    bind_to(cpus.front());
    std::vector<double> pings;
    std::vector<char> piece(kPiece, 1);
    char byte = 0;
    for (int i = 0; i < kPings; ++i) {
      const std::int64_t begin = now_ns();
      if (!move_all(fd, true, &byte, 1) || !move_all(fd, false, &byte, 1)) return;
      pings.push_back(static_cast<double>(now_ns() - begin) / 2);
    }
    found.loopback_latency = Nanoseconds{lower_quartile(pings)};
    const std::int64_t begin = now_ns();
    for (std::size_t sent = 0; sent < kStreamBytes; sent += kPiece)
      if (!move_all(fd, true, piece.data(), kPiece)) return;
    if (!move_all(fd, false, &byte, 1)) return;
    found.loopback = Bandwidth{static_cast<double>(kStreamBytes) / static_cast<double>(now_ns() - begin) * 1e9};
  };
  ask(ends->first.get());
  ::shutdown(ends->first.get(), SHUT_RDWR);  // should the measurement have ended early
  echo.join();
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = "";
  std::tm broken{};
  if (::gmtime_r(&now, &broken) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &broken);
  return text;
}

/// On a thread of its own, which is bound to one core after the other.
Status measure_all(HostMeasurements& found) {
  const std::size_t cores = found.cpus.size();
  const std::size_t bytes = bytes_to_copy(cores);
  try {
    for (std::size_t a = 0; a < cores; ++a)
      for (std::size_t b = a + 1; b < cores; ++b)
        if (is_sampled(a, b, cores)) found.exchange_ns[a][b] = found.exchange_ns[b][a] = exchange_of(found.cpus[a], found.cpus[b]);
    found.core_copy = {copy_rate({found.cpus.front()}, bytes, found.processor_share)};
    found.all_copy = {copy_rate(found.cpus, bytes, found.processor_share)};
    measure_loopback(found.cpus, found);
  } catch (const std::system_error& error) {  // of std::thread
    return fail(ErrorCode::system, "cannot start the threads that measure: {}; see `ulimit -u`", error.what());
  }
  if (found.core_copy.value > 0 && found.all_copy.value > 0) return {};
  return fail(ErrorCode::system, "no memory for buffers of {} a core: end what else runs, or raise the container's memory limit",
              to_text(Bytes{2 * bytes}));
}

}  // namespace

Result<HostMeasurements> measure_host(const Roots& roots) {
  HostMeasurements found;
  found.cpus = one_of_each_core(roots);
  if (found.cpus.empty())
    return fail(ErrorCode::system, "no processor is listed below {}/devices/system/cpu: is {} mounted?", roots.sys, roots.sys);
  found.source = fmt::format("measured {} on this host", today());
  found.exchange_ns.assign(found.cpus.size(), std::vector<double>(found.cpus.size(), 0));
  Status done;
  try {
    std::thread([&] { done = measure_all(found); }).join();
  } catch (const std::system_error& error) {
    return fail(ErrorCode::system, "cannot start a thread to measure: {}; see `ulimit -u`", error.what());
  }
  PEAL_TRY(done);
  return found;
}

}  // namespace peal::discovery
