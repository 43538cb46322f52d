// What a call costs, in instructions (under callgrind: check_budgets.py) and in nanoseconds (run alone).
//
// Two ranks of one process, driven by one thread: before each measured call the other rank has begun its own asynchronously, so that
// everything which is awaited is there already and no instruction depends on luck. The parts of a call are measured by themselves.
//   bench_call_budget [calls]
#include <array>
#include <base/clock.hpp>
#include <cstdio>
#include <cstdlib>
#include <handles.hpp>
#include <peal/communicator.hpp>
#include <reduce/combine.hpp>
#include <string>
#include <thread>
#include <transport/shm.hpp>
#include <vector>

using namespace peal;

namespace {

constexpr std::size_t kMost = 1024;  // elements of the largest call

struct World {
  Communicator mine, other;  // ranks 0 and 1
  std::array<float, 2 * kMost> send{}, receive{}, other_send{}, other_receive{};
};

/// Both ends of a pair of shared-memory channels, in one process.
struct Channels {
  transport::SharedSegment segment;
  std::unique_ptr<transport::ShmTransport> ends[2];
};

struct Parts {
  comm::Call call;
  comm::Core* core = nullptr;
  comm::PlanKey keys[2];
  executor::CallSignature signature;
  transport::Tag tag;
  transport::ShmSender* sender = nullptr;
  transport::ShmReceiver* receiver = nullptr;
  executor::FaultBoard board;
  reduce::CombineFn combine = nullptr;
  std::array<float, 16> a{}, b{};
  int turn = 0;
  bool ok = true;
};

}  // namespace

// callgrind counts what happens inside functions of these names; each is one call or one part of one.
extern "C" {
#define PEAL_BUDGET [[gnu::noinline, gnu::used]]
PEAL_BUDGET void budget_all_reduce_2_f32(World& w) { w.mine.all_reduce(w.send.data(), w.receive.data(), 2, DataType::f32); }
PEAL_BUDGET void budget_all_reduce_1024_f32(World& w) { w.mine.all_reduce(w.send.data(), w.receive.data(), 1024, DataType::f32); }
PEAL_BUDGET void budget_all_reduce_other_count(World& w, std::size_t n) {
  w.mine.all_reduce(w.send.data(), w.receive.data(), n, DataType::f32);
}
PEAL_BUDGET void budget_broadcast_2_f32(World& w) { w.mine.broadcast(w.send.data(), w.send.data(), 2, DataType::f32, 0); }
PEAL_BUDGET void budget_all_gather_2_f32(World& w) { w.mine.all_gather(w.send.data(), w.receive.data(), 2, DataType::f32); }
PEAL_BUDGET void budget_all_to_all_2_f32(World& w) { w.mine.all_to_all(w.send.data(), w.receive.data(), 2, DataType::f32); }
PEAL_BUDGET void budget_barrier(World& w) { w.mine.barrier(); }
PEAL_BUDGET void budget_group_of_send_and_receive(World& w) {
  w.mine.group_start();
  w.mine.send(w.send.data(), 2, DataType::f32, 1);
  w.mine.receive(w.receive.data(), 2, DataType::f32, 1);
  w.mine.group_end();
}

PEAL_BUDGET void budget_part_argument_check(Parts& p) { p.ok = comm::check(p.call, 0, 2).has_value() && p.ok; }
PEAL_BUDGET void budget_part_signature(Parts& p) {
  ++p.signature.sequence;
  p.tag = executor::to_tag(p.signature);
}
PEAL_BUDGET void budget_part_plan_lookup(Parts& p) { p.ok = p.core->plans().find(p.keys[++p.turn & 1]).has_value() && p.ok; }
PEAL_BUDGET void budget_part_exchange(Parts& p) {
  transport::Tag tag;
  std::size_t got = 0;
  bool has_tag = false;
  p.ok = p.sender->send(reinterpret_cast<const std::byte*>(p.a.data()), 8, &p.tag) && p.ok;
  p.ok = p.receiver->receive(reinterpret_cast<std::byte*>(p.b.data()), 8, &got, &tag, &has_tag) && has_tag && p.ok;
}
PEAL_BUDGET void budget_part_reduction(Parts& p) { p.combine(p.a.data(), p.a.data(), p.b.data(), 2); }
PEAL_BUDGET void budget_part_completion(Parts& p) {
  p.board.enter(0, p.tag);
  p.board.leave(0);
}
}

namespace {

/// Mean ns of one measured call, without what is done around it.
class Clock {
 public:
  template <class F>
  void measure(F&& f) {
    const std::int64_t begin = now_ns();
    f();
    total_ += now_ns() - begin;
    ++calls_;
  }
  void print(const char* name) const {
    std::printf("%-32s %8.1f ns\n", name, static_cast<double>(total_) / static_cast<double>(calls_) - cost_of_reading());
  }

 private:
  static double cost_of_reading() {
    static const double cost = [] {
      const std::int64_t begin = now_ns();
      std::int64_t sink = 0;
      for (int i = 0; i < 10'000; ++i) sink += now_ns() & 1;
      return static_cast<double>(now_ns() - begin + (sink & 0)) / 10'000;
    }();
    return cost;
  }
  std::int64_t total_ = 0;
  std::int64_t calls_ = 0;
};

/// `other` begins the other rank's part and gives its Work; `mine` is measured.
template <class Other, class Mine>
void measure_call(const char* name, int calls, Other&& other, Mine&& mine) {
  Clock clock;
  for (int i = 0; i < calls; ++i) {
    Work work = other(i);
    clock.measure([&] { mine(i); });
    work.wait();
  }
  clock.print(name);
}

template <class Part>
void measure_part(const char* name, int calls, Parts& parts, Part&& part) {
  const std::int64_t begin = now_ns();
  for (int i = 0; i < calls; ++i) part(parts);
  std::printf("%-32s %8.1f ns\n", name, static_cast<double>(now_ns() - begin) / calls);
}

std::unique_ptr<World> join() {
  auto world = std::make_unique<World>();
  const UniqueId id = make_unique_id();
  Options options;
  options.transport = "shm";
  options.progress_thread = false;  // the one thread drives both ranks
  std::thread other([&] { world->other = init(id, 1, 2, options); });
  world->mine = init(id, 0, 2, options);
  other.join();
  return world;
}

void measure_calls(World& w, int calls) {
  const auto all_reduce = [&w](std::size_t n) {
    return w.other.all_reduce_async(w.other_send.data(), w.other_receive.data(), n, DataType::f32);
  };
  measure_call(
      "all_reduce_2_f32", calls, [&](int) { return all_reduce(2); }, [&](int) { budget_all_reduce_2_f32(w); });
  measure_call(
      "all_reduce_1024_f32", calls, [&](int) { return all_reduce(kMost); }, [&](int) { budget_all_reduce_1024_f32(w); });
  const auto other_count = [](int i) { return static_cast<std::size_t>(1 + i % 2); };
  measure_call(
      "all_reduce_other_count", calls, [&](int i) { return all_reduce(other_count(i)); },
      [&](int i) { budget_all_reduce_other_count(w, other_count(i)); });
  measure_call(
      "broadcast_2_f32", calls, [&](int) { return w.other.broadcast_async(w.other_send.data(), w.other_send.data(), 2, DataType::f32, 0); },
      [&](int) { budget_broadcast_2_f32(w); });
  measure_call(
      "all_gather_2_f32", calls,
      [&](int) { return w.other.all_gather_async(w.other_send.data(), w.other_receive.data(), 2, DataType::f32); },
      [&](int) { budget_all_gather_2_f32(w); });
  measure_call(
      "all_to_all_2_f32", calls,
      [&](int) { return w.other.all_to_all_async(w.other_send.data(), w.other_receive.data(), 2, DataType::f32); },
      [&](int) { budget_all_to_all_2_f32(w); });
  measure_call(
      "barrier", calls, [&](int) { return w.other.barrier_async(); }, [&](int) { budget_barrier(w); });
  measure_call(
      "group_of_send_and_receive", calls,
      [&](int) {
        w.other.group_start();
        w.other.send(w.other_send.data(), 2, DataType::f32, 0);
        w.other.receive(w.other_receive.data(), 2, DataType::f32, 0);
        return w.other.group_end_async();
      },
      [&](int) { budget_group_of_send_and_receive(w); });
}

int fail_with(const std::string& why) {
  std::fprintf(stderr, "bench_call_budget: %s\n", why.c_str());
  return 1;
}

Status open_channels(Channels& channels) {
  const transport::ShmLayout layout = transport::ShmLayout::of(2, 1);
  PEAL_ASSIGN(channels.segment, transport::SharedSegment::create(layout.total_bytes(), "peal-budget"));
  PEAL_TRY(channels.segment.allocate(0, layout.head_bytes()));
  for (int r = 0; r < 2; ++r) {
    PEAL_ASSIGN(channels.ends[r], transport::ShmTransport::open(channels.segment, layout, r));
  }
  return {};
}

int measure_parts(World& w, int calls) {
  Channels channels;
  if (Status opened = open_channels(channels); !opened) return fail_with(opened.error().message);
  Parts parts;
  parts.call = {Collective::all_reduce, w.send.data(), w.receive.data(), 2, DataType::f32, ReduceOp::sum};
  parts.core = w.mine.impl().core.get();
  for (std::uint8_t i = 0; i < 2; ++i)
    parts.keys[i] = {Collective::all_reduce, DataType::f32, ReduceOp::sum, static_cast<std::uint8_t>(3 + i)};
  parts.signature.collective = Collective::all_reduce;
  parts.signature.type = DataType::f32;
  parts.sender = channels.ends[0]->sender(1);
  parts.receiver = channels.ends[1]->receiver(0);
  std::vector<std::byte> memory(executor::FaultBoard::bytes_for(2) + 64);
  auto* const aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) & ~std::uintptr_t{63});
  parts.board = executor::FaultBoard(aligned, 2);
  parts.combine = reduce::combine_for(DataType::f32, ReduceOp::sum, reduce::Stores::cached);
  measure_part("part_argument_check", calls, parts, budget_part_argument_check);
  measure_part("part_signature", calls, parts, budget_part_signature);
  measure_part("part_plan_lookup", calls, parts, budget_part_plan_lookup);
  measure_part("part_exchange", calls, parts, budget_part_exchange);
  measure_part("part_reduction", calls, parts, budget_part_reduction);
  measure_part("part_completion", calls, parts, budget_part_completion);
  return parts.ok ? 0 : fail_with("a part failed");
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 100'000;
  if (calls < 1) return fail_with("give the number of calls, for example: bench_call_budget 1000");
  try {
    const std::unique_ptr<World> world = join();
    measure_calls(*world, calls);
    return measure_parts(*world, calls);
  } catch (const std::exception& error) {
    return fail_with(error.what());
  }
}
