// What the interpreter adds to a call: programs that move nothing, so that only the interpretation is left.
//   copies        one rank, n copies of chunks without elements
//   exchange      one rank of two, n/2 sends and n/2 receives in two strands over channels that are always ready and do nothing
//   reductions    n reductions of what the other rank sent
//   passing on    n reductions of what the other rank sent that go on to it at once (as in a ring)
//   group         n/2 sends and n/2 receives of one group call; each message is numbered, signed and checked, by hand too
//   varied        one rank of two, n/2 sends and n/2 receives of blocks whose counts are others in every call (the v-collectives)
// of which the same channel operations written by hand are subtracted, batch by batch.
//   bench_interpreter_overhead [calls]      (chrt -r 1 for quiet numbers)
#include <algorithm>
#include <base/clock.hpp>
#include <cstdio>
#include <cstdlib>
#include <executor/execution.hpp>
#include <schedule/builder.hpp>
#include <schedule/registry.hpp>
#include <vector>

#include "ready_transport.hpp"

namespace peal::executor {
namespace {

/// The channel operations that a program's ops make, by hand. Counts what went wrong. `pairs`: messages of groups so far.
using Direct = std::uint64_t (*)(transport::Sender& to, transport::Receiver& from, const transport::Tag& tag, int rounds,
                                 std::uint32_t& pairs);

enum class Calls { alike, grouped, varied };

struct Case {
  const char* name;
  int ranks;
  schedule::RankSchedule strands;
  Direct direct = nullptr;
  int rounds = 0;
  Calls calls = Calls::alike;
};

std::uint64_t direct_exchange(transport::Sender& to, transport::Receiver& from, const transport::Tag& tag, int rounds, std::uint32_t&) {
  std::byte nothing[8] = {};
  std::size_t got = 0;
  transport::Tag theirs;
  bool has_tag = false;
  std::uint64_t wrong = 0;
  for (int i = 0; i < rounds; ++i) wrong += to.send(nothing, 0, i == 0 ? &tag : nullptr) ? 0 : 1;
  for (int i = 0; i < rounds; ++i) wrong += from.receive(nothing, 0, &got, &theirs, &has_tag) && got == 0 ? 0 : 1;
  return wrong;
}

std::uint64_t direct_reduction(transport::Sender&, transport::Receiver& from, const transport::Tag&, int rounds, std::uint32_t&) {
  std::uint64_t wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    const transport::Message* message = from.peek();
    wrong += message != nullptr && message->bytes == 0 ? 0 : 1;
    from.release();
  }
  return wrong;
}

std::uint64_t direct_passing_on(transport::Sender& to, transport::Receiver& from, const transport::Tag& tag, int rounds, std::uint32_t&) {
  std::uint64_t wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    const transport::Message* message = from.peek();
    wrong += message != nullptr && message->bytes == 0 && to.acquire(0) != nullptr ? 0 : 1;
    to.publish(0, i == 0 ? &tag : nullptr);
    from.release();
  }
  return wrong;
}

std::uint64_t direct_group(transport::Sender& to, transport::Receiver& from, const transport::Tag& tag, int rounds, std::uint32_t& pairs) {
  std::byte nothing[8] = {};
  std::size_t got = 0;
  transport::Tag theirs;
  bool has_tag = false;
  std::uint64_t wrong = 0;
  for (int i = 1; i <= rounds; ++i) {
    const transport::Tag mine = to_pair_tag(tag, DataType::f32, 0, pairs + static_cast<std::uint32_t>(i));
    wrong += to.send(nothing, 0, &mine) ? 0 : 1;
  }
  for (int i = 1; i <= rounds; ++i) {
    const transport::Tag mine = to_pair_tag(tag, DataType::f32, 0, pairs + static_cast<std::uint32_t>(i));
    wrong += from.receive(nothing, 0, &got, &theirs, &has_tag) && has_tag && theirs == mine ? 0 : 1;
  }
  pairs += static_cast<std::uint32_t>(rounds);
  return wrong;
}

Case copies(int n) {
  schedule::RankBuilder b;
  auto strand = b.strand("copy");
  for (int i = 0; i < n; ++i) strand.copy(schedule::output(i), schedule::input(i));
  return {"copies", 1, b.take(), nullptr, 0};
}

Case exchange(int n) {
  schedule::RankBuilder b;
  auto out = b.strand("send");
  for (int i = 0; i < n / 2; ++i) out.send(1, schedule::input(i));
  auto in = b.strand("receive");
  for (int i = 0; i < n / 2; ++i) in.recv(1, schedule::output(i));
  return {"exchange", 2, b.take(), direct_exchange, n / 2};
}

Case reductions(int n) {
  schedule::RankBuilder b;
  auto strand = b.strand("reduce");
  for (int i = 0; i < n; ++i) strand.recv_reduce(1, schedule::output(i), schedule::input(i));
  return {"reductions", 2, b.take(), direct_reduction, n};
}

Case passing_on(int n) {
  schedule::RankBuilder b;
  auto strand = b.strand("ring");
  for (int i = 0; i < n; ++i) {
    strand.recv_reduce(1, schedule::output(i), schedule::input(i));
    strand.send(1, schedule::output(i));
  }
  return {"passing on", 2, b.take(), direct_passing_on, n};
}

Case group(int n) { return {"group", 2, {}, direct_group, n / 2, Calls::grouped}; }

Case varied(int n) {
  Case c = exchange(n);
  c.name = "varied";
  c.calls = Calls::varied;
  return c;
}

/// What is bound anew before every call where the counts of a case change. The blocks stay empty; their displacements move.
class Rebinding {
 public:
  Rebinding(const Case& c, int n) : calls_(c.calls), places_(static_cast<std::size_t>(n / 2)), counts_(places_.size()) {
    shape_.input_counts = shape_.output_counts = counts_;
    shape_.input_displs = shape_.output_displs = places_;
  }
  void operator()(Binding& binding, const Plan& plan, const Operands& operands) {
    if (calls_ == Calls::alike) return;
    if (calls_ == Calls::grouped) return binding.bind_user(plan, operands.user);
    places_[0] ^= 1;
    binding.bind(plan, shape_);
  }

 private:
  Calls calls_;
  std::vector<std::uint64_t> places_, counts_;
  Shape shape_;
};

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

/// Nanoseconds a call in one batch.
template <class F>
double batch_ns(int calls, F&& call) {
  const std::int64_t begin = now_ns();
  for (int i = 0; i < calls; ++i) call();
  return static_cast<double>(now_ns() - begin) / calls;
}

void measure(const Case& c, int n, int calls) {
  const bool is_group = c.calls == Calls::grouped;
  Plan plan;
  plan.layouts.input = plan.layouts.output = {schedule::Partition::even, 1, std::max(n, 1)};
  if (c.calls == Calls::varied) plan.layouts.input = plan.layouts.output = {schedule::Partition::varied, n / 2, 1};
  const std::vector<schedule::Transfer> transfers(static_cast<std::size_t>(n / 2), {1});
  plan.pieced = !is_group;
  plan.program = is_group ? schedule::group_program(0, c.ranks, transfers, transfers) : schedule::lower(c.strands, 0, c.ranks, true);
  Binding binding;
  Rebinding rebind(c, n);
  if (c.calls == Calls::alike) binding.bind(plan, {});
  Operands operands;
  std::byte memory[64] = {};
  operands.input = memory;
  operands.output = memory + 32;
  CallSignature call;
  call.collective = is_group ? Collective::send_recv : Collective::all_gather;
  if (is_group) operands.user.assign(static_cast<std::size_t>(n), {memory, 0, 0, DataType::f32});
  operands.resolve(call.collective);
  transport::Tag tag = to_tag(call);
  ReadyTransport ready, by_hand;
  Execution execution(ready, 0, c.ranks);
  std::uint64_t unfinished = 0;
  std::uint32_t pairs = 0;
  transport::Sender* const sender = by_hand.sender(1, 0);
  transport::Receiver* const receiver = by_hand.receiver(1, 0);
  if (is_group) {
    CallSignature pair = call;
    pair.type = DataType::f32;
    ready.begin_pairs(to_tag(pair));
    by_hand.begin_pairs(to_tag(pair));
  }
  std::vector<double> whole, direct, rest;  // a batch of the one and a batch of the other in turn
  for (int batch = 0; batch < 51; ++batch) {
    whole.push_back(batch_ns(calls, [&] {
      renumber(tag, ++call.sequence);
      if (!is_group) ready.begin(tag);
      rebind(binding, plan, operands);
      execution.start(plan, binding, operands, call, tag);
      while (!execution.done() && !execution.failed()) execution.progress();
      unfinished += execution.failed() ? 1 : 0;
    }));
    direct.push_back(batch_ns(calls, [&] {
      renumber(tag, ++call.sequence);
      if (!is_group) by_hand.begin(tag);
      if (c.direct != nullptr) unfinished += c.direct(*sender, *receiver, tag, c.rounds, pairs);
    }));
    rest.push_back(whole.back() - direct.back());
  }
  const double added = median(rest);
  std::printf("%-10s %3d ops   %7.1f ns a call, %7.1f by hand: the interpreter adds %6.1f ns, %5.2f an op%s\n", c.name, n, median(whole),
              median(direct), added, added / n, unfinished != 0 ? "   FAILED" : "");
}

}  // namespace
}  // namespace peal::executor

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 20'000;
  for (const int n : {2, 4, 8, 16, 32}) {
    peal::executor::measure(peal::executor::copies(n), n, calls);
    peal::executor::measure(peal::executor::exchange(n), n, calls);
    peal::executor::measure(peal::executor::reductions(n), n, calls);
    peal::executor::measure(peal::executor::passing_on(n), n, calls);
    peal::executor::measure(peal::executor::group(n), n, calls);
    peal::executor::measure(peal::executor::varied(n), n, calls);
  }
}
