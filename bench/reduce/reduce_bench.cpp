// How fast the kernels are. GB/s counts every byte that the caller sees: two sources read and one result written (k sources and one).
//   bench_reduce --benchmark_filter=combine/f32
#include <benchmark/benchmark.h>

#include <base/names.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <reduce/combine.hpp>
#include <reduce/copy.hpp>
#include <string>
#include <vector>

namespace peal::reduce {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, Free>;

Buffer buffer(std::size_t bytes) {
  Buffer memory(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

void report(benchmark::State& state, double bytes_per_call) {
  state.counters["GB/s"] = benchmark::Counter(bytes_per_call * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void combine(benchmark::State& state, DataType type, ReduceOp op, Stores stores, bool in_place) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer a = buffer(bytes), b = buffer(bytes), c = buffer(bytes);
  const CombineFn kernel = combine_for(type, op, stores);
  const std::size_t count = bytes / size_of(type);
  void* dst = in_place ? a.get() : c.get();
  for (auto _ : state) {
    kernel(dst, a.get(), b.get(), count);
    benchmark::ClobberMemory();
  }
  report(state, 3.0 * static_cast<double>(bytes));
}

void combine_k(benchmark::State& state, DataType type, int k, Order order, Stores stores) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<Buffer> memory;
  std::vector<const void*> sources;
  for (int i = 0; i < k; ++i) {
    memory.push_back(buffer(bytes));
    sources.push_back(memory.back().get());
  }
  const Buffer dst = buffer(bytes);
  const std::size_t count = bytes / size_of(type);
  for (auto _ : state) {
    combine_many(type, ReduceOp::sum, dst.get(), sources.data(), k, count, order, stores);
    benchmark::ClobberMemory();
  }
  report(state, (k + 1.0) * static_cast<double>(bytes));
}

void copying(benchmark::State& state, Stores stores) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer src = buffer(bytes), dst = buffer(bytes);
  for (auto _ : state) {
    copy(dst.get(), src.get(), bytes, stores);
    benchmark::ClobberMemory();
  }
  report(state, 2.0 * static_cast<double>(bytes));
}

void resolve(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(combine_for(DataType::f32, ReduceOp::sum));
}

std::string stores_name(Stores stores) { return stores == Stores::cached ? "cached" : "streaming"; }

/// 4 KiB to 64 MiB.
benchmark::internal::Benchmark* with_sizes(benchmark::internal::Benchmark* entry) {
  return entry->RangeMultiplier(8)->Range(4 << 10, 64 << 20)->Arg(1 << 20)->Arg(32 << 20)->MinTime(0.1);
}

const bool kRegistered = [] {
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::f8_e4m3fn, DataType::f8_e5m2, DataType::i8}) {
    const std::string name = "combine/" + std::string(name_of(type));
    for (const std::int64_t count : {1, 2, 4, 7, 16}) {
      benchmark::RegisterBenchmark((name + "/few").c_str(), combine, type, ReduceOp::sum, Stores::cached, false)
          ->Arg(count * static_cast<std::int64_t>(size_of(type)));
    }
    for (const Stores stores : {Stores::cached, Stores::streaming}) {
      with_sizes(benchmark::RegisterBenchmark((name + '/' + stores_name(stores)).c_str(), combine, type, ReduceOp::sum, stores, false));
    }
  }
  with_sizes(benchmark::RegisterBenchmark("combine/f32/in_place", combine, DataType::f32, ReduceOp::sum, Stores::cached, true));
  with_sizes(benchmark::RegisterBenchmark("combine/f32/max", combine, DataType::f32, ReduceOp::max, Stores::cached, false));
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f8_e4m3fn}) {
    for (const int k : {4, 8}) {
      const std::string name = "combine_many/" + std::string(name_of(type)) + "/k" + std::to_string(k);
      for (const Stores stores : {Stores::cached, Stores::streaming}) {
        with_sizes(benchmark::RegisterBenchmark((name + "/canonical/" + stores_name(stores)).c_str(), combine_k, type, k, Order::canonical,
                                                stores));
      }
    }
  }
  for (const Stores stores : {Stores::cached, Stores::streaming}) {
    with_sizes(benchmark::RegisterBenchmark(("copy/" + stores_name(stores)).c_str(), copying, stores));
  }
  benchmark::RegisterBenchmark("resolve", resolve);
  return true;
}();

}  // namespace
}  // namespace peal::reduce
