// The worlds of the conformance suite: the same bodies run over every transport, by threads or by forked processes.
#pragma once

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <base/clock.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <transport/channel.hpp>
#include <vector>

namespace peal::transport::conformance {

inline constexpr int kMaxRanks = 16;
inline constexpr std::int64_t kSecond = 1'000'000'000;

struct Shape {
  int ranks = 2;
  int channels = 1;
  int slots = 4;
  std::size_t message_bytes = 256 * 1024;
};

/// What the ranks of a test share besides the transport: in memory that forked processes share too.
struct Board {
  std::atomic<int> arrived{0};
  std::atomic<int> generation{0};
  std::atomic<int> is_failed{0};
  std::atomic<std::uint64_t> numbers[64] = {};
  char addresses[kMaxRanks][64] = {};
  char errors[kMaxRanks][512] = {};
};

class SharedBoard {
 public:
  SharedBoard() {
    void* at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no memory for a board");
    board_ = new (at) Board;
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& operator*() const { return *board_; }

 private:
  Board* board_;
};

[[noreturn]] inline void broken(const std::string& what) { throw std::runtime_error(what); }
inline void require(bool holds, const std::string& what) {
  if (!holds) broken(what);
}

/// Waits until `done` says true; every wait of the suite ends.
template <class Done>
void wait_until(const Board& board, const char* what, Done done, std::int64_t limit_ns = 40 * kSecond) {
  const std::int64_t deadline = now_ns() + limit_ns;
  for (int spins = 0; !done(); ++spins) {
    if (spins < 64) continue;
    std::this_thread::yield();  // there may be fewer cores than ranks
    if (spins % 16 != 0) continue;
    if (now_ns() > deadline) broken(fmt::format("deadline passed while waiting for {}", what));
    if (board.is_failed.load() != 0) broken(fmt::format("another rank failed while this one waited for {}", what));
  }
}

/// One rank of a running test.
struct Rank {
  int rank;
  int ranks;
  Transport& transport;
  Board& board;

  void barrier() {
    const int seen = board.generation.load();
    if (board.arrived.fetch_add(1) + 1 == ranks) {
      board.arrived.store(0);
      board.generation.fetch_add(1);
      return;
    }
    wait_until(board, "a barrier", [&] { return board.generation.load() != seen; });
  }
  void check_health(const char* what) {
    if (auto health = transport.health(); !health) broken(std::string(what) + ": " + health.error().message);
  }
  Sender& to(int peer, int channel = 0) {
    Sender* end = nullptr;
    wait_until(board, "a sender", [&] {
      check_health("opening a sender");
      return (end = transport.sender(peer, channel)) != nullptr;
    });
    return *end;
  }
  Receiver& from(int peer, int channel = 0) {
    Receiver* end = nullptr;
    wait_until(board, "a receiver", [&] {
      check_health("opening a receiver");
      return (end = transport.receiver(peer, channel)) != nullptr;
    });
    return *end;
  }
  void send(Sender& end, const std::byte* data, std::size_t bytes, const Tag* tag = nullptr) {
    wait_until(board, "room to send", [&] {
      check_health("sending");
      return end.send(data, bytes, tag);
    });
  }
  const Message& peek(Receiver& end) {
    const Message* message = nullptr;
    wait_until(board, "a message", [&] {
      check_health("receiving");
      return (message = end.peek()) != nullptr;
    });
    return *message;
  }
  void flush(Sender& end) {
    wait_until(board, "a flush", [&] {
      check_health("flushing");
      return end.flush();
    });
  }
};

/// A rank's hold on its transport, made in the thread or process that uses it.
class Member {
 public:
  virtual ~Member() = default;
  virtual Transport& transport() = 0;
};

class World {
 public:
  virtual ~World() = default;
  virtual std::unique_ptr<Member> join(int rank) = 0;
  Board& board() { return *board_; }
  Shape shape;

 private:
  SharedBoard board_;
};

struct Backend {
  const char* name;
  bool is_forked;
  std::unique_ptr<World> (*make)(const Shape& shape);
};
const std::vector<Backend>& backends();

using Body = std::function<void(Rank&)>;

/// Runs the body on every rank; returns what went wrong, rank by rank, or nothing.
std::string run(const Backend& backend, const Shape& shape, const Body& body);

/// Descriptors that this process has open.
int open_descriptors();

}  // namespace peal::transport::conformance
