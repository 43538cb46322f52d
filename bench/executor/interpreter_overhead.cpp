// What the interpreter adds to a call: programs that move nothing, so that only the interpretation is left.
//   copies        one rank, n copies of chunks without elements
//   exchange      one rank of two, n/2 sends and n/2 receives in two strands over channels that are always ready and do nothing,
//                 minus the same channel operations called directly
//   bench_interpreter_overhead [calls]      (chrt -r 1 for quiet numbers)
#include <algorithm>
#include <base/clock.hpp>
#include <cstdio>
#include <cstdlib>
#include <executor/execution.hpp>
#include <schedule/builder.hpp>
#include <vector>

namespace peal::executor {
namespace {

class ReadySender final : public transport::Sender {
 public:
  std::size_t message_bytes() const override { return 1 << 18; }
  bool is_ready() override { return true; }
  std::byte* acquire(std::size_t) override { return room_; }
  void publish(std::size_t, const transport::Tag* tag) override { sent_ += tag != nullptr ? 2u : 1u; }
  bool send(const std::byte*, std::size_t, const transport::Tag* tag) override {
    sent_ += tag != nullptr ? 2u : 1u;
    return true;
  }

 private:
  std::byte room_[64] = {};
  std::uint64_t sent_ = 0;
};

/// Always has an empty message; the first one of a call carries the tag that was set.
class ReadyReceiver final : public transport::Receiver {
 public:
  void begin(const transport::Tag& tag) {
    tag_ = tag;
    is_first_ = true;
  }
  const transport::Message* peek() override {
    message_.tag = is_first_ ? &tag_ : nullptr;
    return &message_;
  }
  void release() override { is_first_ = false; }
  bool receive(std::byte*, std::size_t, std::size_t* got, transport::Tag* tag, bool* has_tag) override {
    *got = 0;
    *has_tag = is_first_;
    if (is_first_) *tag = tag_;
    is_first_ = false;
    return true;
  }

 private:
  transport::Message message_;
  transport::Tag tag_;
  bool is_first_ = true;
};

class ReadyTransport final : public transport::Transport {
 public:
  const char* name() const override { return "ready"; }
  transport::Sender* sender(int, int) override { return &sender_; }
  transport::Receiver* receiver(int, int) override { return &receiver_; }
  Status health() override { return {}; }
  void sleep(std::int64_t) override {}
  ReadySender sender_;
  ReadyReceiver receiver_;
};

struct Case {
  const char* name;
  int ranks;
  schedule::RankSchedule strands;
};

Case copies(int n) {
  schedule::RankBuilder b;
  auto strand = b.strand("copy");
  for (int i = 0; i < n; ++i) strand.copy(schedule::output(i), schedule::input(i));
  return {"copies", 1, b.take()};
}

Case exchange(int n) {
  schedule::RankBuilder b;
  auto out = b.strand("send");
  for (int i = 0; i < n / 2; ++i) out.send(1, schedule::input(i));
  auto in = b.strand("receive");
  for (int i = 0; i < n / 2; ++i) in.recv(1, schedule::output(i));
  return {"exchange", 2, b.take()};
}

/// Nanoseconds a call: the median of 31 batches.
template <class F>
double median_ns(int calls, F&& call) {
  std::vector<double> all;
  for (int batch = 0; batch < 31; ++batch) {
    const std::int64_t begin = now_ns();
    for (int i = 0; i < calls; ++i) call();
    all.push_back(static_cast<double>(now_ns() - begin) / calls);
  }
  std::nth_element(all.begin(), all.begin() + 15, all.end());
  return all[15];
}

void measure(const Case& c, int n, int calls) {
  Plan plan;
  plan.layouts.input = plan.layouts.output = {schedule::Partition::even, 1, std::max(n, 1)};
  plan.program = schedule::lower(c.strands, 0, c.ranks, true);
  Binding binding;
  binding.bind(plan, {});
  Operands operands;
  std::byte memory[64] = {};
  operands.input = memory;
  operands.output = memory + 32;
  operands.resolve(Collective::all_gather);
  CallSignature call;
  call.collective = Collective::all_gather;
  transport::Tag tag = to_tag(call);
  ReadyTransport ready;
  Execution execution(ready, 0, c.ranks, 1);
  std::uint64_t unfinished = 0;
  const double whole = median_ns(calls, [&] {
    renumber(tag, ++call.sequence);
    ready.receiver_.begin(tag);
    execution.start(plan, binding, operands, call, tag);
    while (!execution.done() && !execution.failed()) execution.progress();
    unfinished += execution.failed() ? 1 : 0;
  });
  double raw = 0;
  if (c.ranks == 2) {
    transport::Sender* volatile sender = &ready.sender_;
    transport::Receiver* volatile receiver = &ready.receiver_;
    raw = median_ns(calls, [&] {
      renumber(tag, ++call.sequence);
      ready.receiver_.begin(tag);
      for (int i = 0; i < n / 2; ++i) {
        std::size_t got = 0;
        transport::Tag theirs;
        bool has_tag = false;
        unfinished += sender->send(memory, 0, i == 0 ? &tag : nullptr) ? 0 : 1;
        unfinished += receiver->receive(memory, 0, &got, &theirs, &has_tag) && got == 0 ? 0 : 1;
      }
    });
  }
  std::printf("%-10s %3d ops   %7.1f ns a call, %7.1f of it the channels' own: interpreter %7.1f ns, %5.2f an op%s\n", c.name, n, whole, raw,
              whole - raw, (whole - raw) / n, unfinished != 0 ? "   FAILED" : "");
}

}  // namespace
}  // namespace peal::executor

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 20'000;
  for (const int n : {2, 4, 8, 16, 32}) {
    peal::executor::measure(peal::executor::copies(n), n, calls);
    peal::executor::measure(peal::executor::exchange(n), n, calls);
  }
}
