#include "world.hpp"

#include <dirent.h>
#include <gtest/gtest.h>

#include <csignal>
#include <transport/fake.hpp>
#include <transport/shm.hpp>
#include <transport/tcp.hpp>

namespace peal::transport::conformance {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kCanFork = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kCanFork = false;
#else
constexpr bool kCanFork = true;
#endif
#else
constexpr bool kCanFork = true;
#endif

template <class T>
T take(Result<T> result) {
  if (!result) broken(result.error().message);
  return std::move(*result);
}

void board_barrier(Board& board, int ranks) {
  const int seen = board.generation.load();
  if (board.arrived.fetch_add(1) + 1 == ranks) {
    board.arrived.store(0);
    board.generation.fetch_add(1);
    return;
  }
  wait_until(board, "start", [&] { return board.generation.load() != seen; });
}

// Shared memory: threads use one mapping, processes make their own.
class ShmWorld final : public World {
 public:
  ShmWorld(const Shape& wanted, bool maps_again) : maps_again_(maps_again) {
    shape = wanted;
    layout_ = ShmLayout::of(shape.ranks, shape.channels, 4096);
    layout_.slots = shape.slots;
    layout_.slot_bytes = shape.message_bytes;
    layout_.lines = shape.slots;  // the fewest: what the suite fills up
    segment_ = take(SharedSegment::create(layout_.total_bytes(), "peal-conformance"));
  }

  struct ShmMember final : Member {
    SharedSegment own;
    std::unique_ptr<ShmTransport> shm;
    Transport& transport() override { return *shm; }
  };

  std::unique_ptr<Member> join(int rank) override {
    auto member = std::make_unique<ShmMember>();
    if (maps_again_) member->own = take(SharedSegment::map(FileDescriptor(::dup(segment_.descriptor())), layout_.total_bytes()));
    member->shm = take(ShmTransport::open(maps_again_ ? member->own : segment_, layout_, rank));
    board_barrier(board(), shape.ranks);
    return member;
  }

 private:
  bool maps_again_;
  ShmLayout layout_;
  SharedSegment segment_;
};

class FakeWorld final : public World {
 public:
  FakeWorld(const Shape& wanted, int delay) : fabric_(wanted.ranks, options(wanted, delay)) { shape = wanted; }
  static FakeOptions options(const Shape& wanted, int delay) {
    FakeOptions o;
    o.channels = wanted.channels;
    o.slots = wanted.slots;
    o.message_bytes = wanted.message_bytes;
    o.longest_delay_ticks = delay;
    o.longest_sleep_us = 1000;
    return o;
  }
  struct FakeMember final : Member {
    explicit FakeMember(FakeTransport& t) : fake(t) {}
    FakeTransport& fake;
    Transport& transport() override { return fake; }
  };
  std::unique_ptr<Member> join(int rank) override { return std::make_unique<FakeMember>(fabric_.transport(rank)); }

 private:
  FakeFabric fabric_;
};

// TCP: every rank has its own listener on a loopback address.
class TcpWorld final : public World {
 public:
  TcpWorld(const Shape& wanted, bool is_v6) : is_v6_(is_v6), key_(net::make_key()) { shape = wanted; }

  struct TcpMember final : Member {
    std::unique_ptr<TcpListener> listener;
    std::unique_ptr<TcpTransport> tcp;
    Transport& transport() override { return *tcp; }
  };

  std::unique_ptr<Member> join(int rank) override {
    auto member = std::make_unique<TcpMember>();
    TcpListenerOptions options;
    options.address = is_v6_ ? net::Address::loopback_v6(0) : net::Address::loopback_v4(0);
    options.key = key_;
    options.job = 7;
    options.rank = static_cast<std::uint32_t>(rank);
    options.size = static_cast<std::uint32_t>(shape.ranks);
    member->listener = take(TcpListener::start(options));
    std::strncpy(board().addresses[rank], member->listener->address().text().c_str(), sizeof board().addresses[rank] - 1);
    board_barrier(board(), shape.ranks);
    std::vector<net::Address> peers;
    for (int peer = 0; peer < shape.ranks; ++peer) peers.push_back(take(net::Address::parse(board().addresses[peer])));
    TcpOptions tcp;
    tcp.channels = shape.channels;
    tcp.slots = shape.slots;
    tcp.message_bytes = shape.message_bytes;
    member->tcp = take(TcpTransport::open(*member->listener, 42, rank, std::move(peers), tcp));
    return member;
  }

 private:
  bool is_v6_;
  net::Key key_;
};

std::vector<Backend> make_backends() {
  std::vector<Backend> all;
  all.push_back({"shm_threads", false, [](const Shape& s) -> std::unique_ptr<World> { return std::make_unique<ShmWorld>(s, false); }});
  all.push_back({"fake", false, [](const Shape& s) -> std::unique_ptr<World> { return std::make_unique<FakeWorld>(s, 0); }});
  all.push_back({"fake_delayed", false, [](const Shape& s) -> std::unique_ptr<World> { return std::make_unique<FakeWorld>(s, 50); }});
  all.push_back({"tcp_v4", false, [](const Shape& s) -> std::unique_ptr<World> { return std::make_unique<TcpWorld>(s, false); }});
  all.push_back({"tcp_v6", false, [](const Shape& s) -> std::unique_ptr<World> { return std::make_unique<TcpWorld>(s, true); }});
  if (kCanFork) {
    all.push_back({"tcp_processes", true, [](const Shape& s) -> std::unique_ptr<World> { return std::make_unique<TcpWorld>(s, false); }});
    all.push_back({"shm_processes", true, [](const Shape& s) -> std::unique_ptr<World> { return std::make_unique<ShmWorld>(s, true); }});
  }
  return all;
}

void run_rank(World& world, int rank, const Body& body) {
  try {
    auto member = world.join(rank);
    Rank me{rank, world.shape.ranks, member->transport(), world.board()};
    body(me);
    me.barrier();  // nobody leaves while others still read
  } catch (const std::exception& e) {
    std::strncpy(world.board().errors[rank], e.what(), sizeof world.board().errors[rank] - 1);
    world.board().is_failed.store(1);
  }
}

void run_threads(World& world, const Body& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.shape.ranks; ++rank) threads.emplace_back([&world, &body, rank] { run_rank(world, rank, body); });
  for (auto& thread : threads) thread.join();
}

void run_processes(World& world, const Body& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < world.shape.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) {
      world.board().is_failed.store(1);
      std::strcpy(world.board().errors[rank], "cannot fork");
      break;
    }
    if (child == 0) {
      run_rank(world, rank, body);
      ::_exit(world.board().errors[rank][0] == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  const std::int64_t deadline = now_ns() + 60 * kSecond;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    while (::waitpid(children[rank], &status, WNOHANG) == 0) {
      if (now_ns() > deadline) ::kill(children[rank], SIGKILL);
      ::usleep(200);
    }
    if (status != 0 && world.board().errors[rank][0] == 0) {
      std::snprintf(world.board().errors[rank], sizeof world.board().errors[rank], "process ended with status 0x%x",
                    static_cast<unsigned>(status));
      world.board().is_failed.store(1);
    }
  }
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = make_backends();
  return all;
}

std::string run(const Backend& backend, const Shape& shape, const Body& body) {
  try {
    const auto world = backend.make(shape);
    if (backend.is_forked) {
      run_processes(*world, body);
    } else {
      run_threads(*world, body);
    }
    std::string errors;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      if (world->board().errors[rank][0] != 0) errors += "rank " + std::to_string(rank) + ": " + world->board().errors[rank] + "\n";
    }
    return errors;
  } catch (const std::exception& e) {
    return e.what();
  }
}

int open_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

}  // namespace peal::transport::conformance
