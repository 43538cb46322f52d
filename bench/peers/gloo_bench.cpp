// gloo_bench - Debian's libgloo over TCP, one process a rank. Timing and rows: bench_common.h. Options beside those of bench_common:
//   --rank R --ranks N     who this is
//   --store FOLDER         an empty folder that all ranks see; Gloo's ranks meet there
//   --interface NAME       by which the ranks talk
//   --algorithm NAME       ring or bcube (all-reduce of the options API; what has one algorithm only is measured with ring), or
//                          halving_doubling (the older classes, busy polling; in place, also where out of place is asked for)
#include "bench_common.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Options {
  int rank = 0;
  int ranks = 2;
  std::string store;
  std::string interface = "lo";
  std::string algorithm = "ring";
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--rank") options.rank = std::atoi(argv[i + 1]);
    if (word == "--ranks") options.ranks = std::atoi(argv[i + 1]);
    if (word == "--store") options.store = argv[i + 1];
    if (word == "--interface") options.interface = argv[i + 1];
    if (word == "--algorithm") options.algorithm = argv[i + 1];
  }
  return options;
}

void sum(void* out, const void* a, const void* b, size_t count) {
  gloo::sum<float>(static_cast<float*>(out), static_cast<const float*>(a), static_cast<const float*>(b), count);
}

/// The calls of one size. `send` and `receive` hold `count` floats, or a block of `block` floats a rank.
class Calls {
 public:
  Calls(bc_t& bench, std::shared_ptr<gloo::Context> context, const Options& options, size_t bytes)
      : bench_(bench),
        context_(std::move(context)),
        algorithm_(options.algorithm),
        rank_(options.rank),
        ranks_(options.ranks),
        bytes_(bytes),
        count_(bytes / sizeof(float)),
        block_(bc_part(bytes, options.ranks) / sizeof(float)),
        capacity_(std::max(bytes, block_ * static_cast<size_t>(ranks_) * sizeof(float))),
        send_(bc_alloc(capacity_)),
        receive_(bc_alloc(capacity_)) {
    for (size_t i = 0; i < capacity_ / sizeof(float); ++i) send_[i] = bc_val(rank_, i);
    bench_.receive = receive_;
    bench_.send = algorithm_ == "halving_doubling" ? receive_ : send_;  // which works in place
  }
  ~Calls() {
    bc_free(send_, capacity_);
    bc_free(receive_, capacity_);
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void run() {
    if (algorithm_ == "halving_doubling") return run_halving_doubling();
    run_all_reduce("allreduce", false);
    run_all_reduce("allreduce_inplace", true);
    if (algorithm_ == "ring") run_others();
  }
  void run_barrier() {
    run(
        "barrier", 0,
        [this] {
          gloo::BarrierOptions options(context_);
          options.setTag(tag_);
          gloo::barrier(options);
        },
        [] { return true; });
  }

 private:
  /// One row: the call once for its result, then timed. Every row has a tag of its own.
  template <class Call, class Check>
  void run(const char* name, size_t bytes, Call call, Check is_right) {
    if (!bc_want(&bench_, name, 1)) return;
    ++tag_;
    bc_spin_barrier(&bench_);
    call();
    std::function<void()> again = call;
    const auto invoke = [](void* context) { (*static_cast<std::function<void()>*>(context))(); };
    const bool ok = is_right();
    if (std::string(name) == "allreduce_inplace" || algorithm_ == "halving_doubling") memset(receive_, 0, capacity_);  // sums stay finite
    bc_run(&bench_, name, bytes, 1, invoke, &again, ok);
  }

  bool has_sum(size_t first, size_t count) const {
    for (size_t i = 0; i < count; ++i)
      if (receive_[i] != bc_sum(ranks_, first + i)) return false;
    return true;
  }
  bool has_values(const float* at, int rank, size_t first, size_t count) const {
    for (size_t i = 0; i < count; ++i)
      if (at[i] != bc_val(rank, first + i)) return false;
    return true;
  }
  /// A block of every rank, each from `first` of its buffer on.
  bool has_blocks(size_t first) const {
    for (int r = 0; r < ranks_; ++r)
      if (!has_values(receive_ + static_cast<size_t>(r) * block_, r, first, block_)) return false;
    return true;
  }
  size_t whole() const { return block_ * static_cast<size_t>(ranks_); }

  template <class ClassApi, class... Arguments>
  void run_class(const char* name, size_t bytes, size_t first, size_t count, Arguments... arguments) {
    if (!bc_want(&bench_, name, 1)) return;
    memcpy(receive_, send_, capacity_);
    ClassApi algorithm(context_, {receive_}, arguments...);
    run(
        name, bytes, [&algorithm] { algorithm.run(); }, [&] { return has_sum(first, count); });
  }

  void run_halving_doubling() {
    for (const char* name : {"allreduce", "allreduce_inplace"})
      run_class<gloo::AllreduceHalvingDoubling<float>>(name, bytes_, 0, count_, static_cast<int>(count_));
    const std::vector<int> counts(static_cast<size_t>(ranks_), static_cast<int>(block_));
    run_class<gloo::ReduceScatterHalvingDoubling<float>>("reduce_scatter", whole() * sizeof(float), static_cast<size_t>(rank_) * block_,
                                                         block_, static_cast<int>(whole()), counts);
  }

  void run_all_reduce(const char* name, bool is_in_place) {
    if (is_in_place) memcpy(receive_, send_, bytes_);
    run(
        name, bytes_,
        [this, is_in_place] {
          gloo::AllreduceOptions options(context_);
          if (!is_in_place) options.setInput(send_, count_);
          options.setOutput(receive_, count_);
          options.setAlgorithm(algorithm_ == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE : gloo::AllreduceOptions::Algorithm::RING);
          options.setReduceFunction(sum);
          options.setTag(tag_);
          gloo::allreduce(options);
        },
        [this] { return has_sum(0, count_); });
  }

  void run_others() {
    const size_t blocks = whole() * sizeof(float);
    memset(receive_, 0, capacity_);
    if (rank_ == 0) memcpy(receive_, send_, bytes_);
    run(
        "broadcast", bytes_,
        [this] {
          gloo::BroadcastOptions options(context_);
          options.setOutput(receive_, count_);
          options.setRoot(0);
          options.setTag(tag_);
          gloo::broadcast(options);
        },
        [this] { return has_values(receive_, 0, 0, count_); });
    run(
        "reduce", bytes_,
        [this] {
          gloo::ReduceOptions options(context_);
          options.setInput(send_, count_);
          options.setOutput(receive_, count_);
          options.setRoot(0);
          options.setReduceFunction(sum);
          options.setTag(tag_);
          gloo::reduce(options);
        },
        [this] { return rank_ != 0 || has_sum(0, count_); });
    run(
        "allgather", blocks,
        [this] {
          gloo::AllgatherOptions options(context_);
          options.setInput(send_, block_);
          options.setOutput(receive_, whole());
          options.setTag(tag_);
          gloo::allgather(options);
        },
        [this] { return has_blocks(0); });
    run(
        "alltoall", blocks,
        [this] {
          gloo::AlltoallOptions options(context_);
          options.setInput(send_, whole());
          options.setOutput(receive_, whole());
          options.setTag(tag_);
          gloo::alltoall(options);
        },
        [this] { return has_blocks(static_cast<size_t>(rank_) * block_); });
    run(
        "gather", blocks,
        [this] {
          gloo::GatherOptions options(context_);
          options.setInput(send_, block_);
          if (rank_ == 0) options.setOutput(receive_, whole());
          options.setRoot(0);
          options.setTag(tag_);
          gloo::gather(options);
        },
        [this] { return rank_ != 0 || has_blocks(0); });
    run(
        "scatter", blocks,
        [this] {
          std::vector<float*> parts;
          for (int r = 0; r < ranks_; ++r) parts.push_back(send_ + static_cast<size_t>(r) * block_);
          gloo::ScatterOptions options(context_);
          if (rank_ == 0) options.setInputs(parts, block_);
          options.setOutput(receive_, block_);
          options.setRoot(0);
          options.setTag(tag_);
          gloo::scatter(options);
        },
        [this] { return has_values(receive_, 0, static_cast<size_t>(rank_) * block_, block_); });
    run(
        "sendrecv", bytes_,
        [this] {
          const auto out = context_->createUnboundBuffer(send_, bytes_);
          const auto in = context_->createUnboundBuffer(receive_, bytes_);
          in->recv((rank_ + ranks_ - 1) % ranks_, tag_);
          out->send((rank_ + 1) % ranks_, tag_);
          out->waitSend();
          in->waitRecv();
        },
        [this] { return has_values(receive_, (rank_ + ranks_ - 1) % ranks_, 0, count_); });
  }

  bc_t& bench_;
  std::shared_ptr<gloo::Context> context_;
  std::string algorithm_;
  int rank_;
  int ranks_;
  size_t bytes_;
  size_t count_;
  size_t block_;
  size_t capacity_;
  float* send_;
  float* receive_;
  static uint32_t tag_;
};

uint32_t Calls::tag_ = 0;

int run(const Options& options, bc_t& bench) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = options.interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(options.store);
  auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.ranks);
  context->setTimeout(std::chrono::seconds(120));
  context->connectFullMesh(store, device);
  if (options.algorithm == "halving_doubling")
    for (int r = 0; r < options.ranks; ++r)
      if (r != options.rank) context->getPair(r)->setSync(true, true);
  bench.eager_yield = 1;  // Gloo's own thread shares the core
  if (bc_attach(&bench, options.rank, options.ranks) != 0) return 1;
  for (int i = 0; i < bench.nsizes; ++i) {
    bc_spin_barrier(&bench);
    Calls calls(bench, context, options, bench.sizes[i]);
    calls.run();
    if (i == 0 && options.algorithm == "ring") calls.run_barrier();
  }
  bc_spin_barrier(&bench);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bc_t bench;
  if (bc_parse(&bench, argc, argv) != 0) return 1;
  const Options options = parse(argc, argv);
  try {
    return run(options, bench);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo rank %d: %s\n", options.rank, error.what());
    return 1;
  }
}
