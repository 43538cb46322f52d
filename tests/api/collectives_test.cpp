// Every collective, at several rank counts, sizes, roots and placements of buffers, against what it promises.
#include "rank_threads.hpp"

#include <cstring>
#include <numeric>

namespace peal::test {
namespace {

// Small integers: sums over eight ranks are exact in f32.
float value_of(int rank, std::size_t i) { return static_cast<float>((static_cast<std::size_t>(rank) * 31 + i * 7) % 23) - 11.0f; }

float sum_of(int ranks, std::size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value_of(r, i);
  return sum;
}

std::vector<float> contribution(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = value_of(rank, i);
  return data;
}

constexpr float kUntouched = -12345.0f;

struct Case {
  const char* transport;
  int ranks;
};

class Collectives : public ::testing::TestWithParam<Case> {
 protected:
  // Counts around cache lines, slots and pieces.
  static std::vector<std::size_t> counts() { return {0, 1, 2, 3, 7, 16, 33, 1000, 4097, 70001, 300000}; }
  void each_rank(const std::function<void(Communicator&)>& body) { on_ranks(GetParam().ranks, with_transport(GetParam().transport), body); }
};

TEST_P(Collectives, AllReduceSums) {
  each_rank([](Communicator& world) {
    for (const std::size_t count : counts()) {
      std::vector<float> in = contribution(world.rank(), count), out(count + 1, kUntouched);
      world.all_reduce(in.data(), out.data(), count, DataType::f32);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], sum_of(world.size(), i)) << count << " at " << i;
      ASSERT_EQ(out[count], kUntouched);
      ASSERT_EQ(in, contribution(world.rank(), count));
      world.all_reduce(in.data(), in.data(), count, DataType::f32);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(in[i], sum_of(world.size(), i)) << "in place " << count << " at " << i;
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachItsBlock) {
  each_rank([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t count : counts()) {
      std::vector<float> in = contribution(world.rank(), count * n), out(count + 1, kUntouched);
      world.reduce_scatter(in.data(), out.data(), count, DataType::f32);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], sum_of(world.size(), me * count + i)) << count << " at " << i;
      ASSERT_EQ(out[count], kUntouched);
      ASSERT_EQ(in, contribution(world.rank(), count * n));
      world.reduce_scatter(in.data(), in.data() + me * count, count, DataType::f32);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(in[me * count + i], sum_of(world.size(), me * count + i)) << "in place";
    }
  });
}

TEST_P(Collectives, AllGatherConcatenates) {
  each_rank([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t count : counts()) {
      std::vector<float> in = contribution(world.rank(), count), out(count * n + 1, kUntouched);
      for (int in_place = 0; in_place < 2; ++in_place) {
        const float* from = in.data();
        if (in_place != 0) {
          std::fill(out.begin(), out.end(), kUntouched);
          std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(me * count));
          from = out.data() + me * count;
        }
        world.all_gather(from, out.data(), count, DataType::f32);
        for (std::size_t r = 0; r < n; ++r)
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(out[r * count + i], value_of(static_cast<int>(r), i)) << count << " in place " << in_place;
        ASSERT_EQ(out[count * n], kUntouched);
      }
    }
  });
}

TEST_P(Collectives, BroadcastReduceGatherScatterFromEveryRoot) {
  each_rank([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    for (int root = 0; root < world.size(); ++root) {
      const bool is_root = world.rank() == root;
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{33}, std::size_t{5000}, std::size_t{150001}}) {
        std::vector<float> in = contribution(world.rank(), count), out(count, kUntouched);
        world.broadcast(is_root ? in.data() : nullptr, out.data(), count, DataType::f32, root);
        ASSERT_EQ(out, contribution(root, count));
        std::vector<float> total(is_root ? count : 0, kUntouched);
        world.reduce(in.data(), is_root ? total.data() : nullptr, count, DataType::f32, ReduceOp::sum, root);
        for (std::size_t i = 0; i < total.size(); ++i) ASSERT_EQ(total[i], sum_of(world.size(), i)) << root;
        std::vector<float> all(is_root ? count * n : 0, kUntouched);
        world.gather(in.data(), is_root ? all.data() : nullptr, count, DataType::f32, root);
        for (std::size_t i = 0; i < all.size(); ++i)
          ASSERT_EQ(all[i], value_of(static_cast<int>(i / std::max<std::size_t>(count, 1)), i % std::max<std::size_t>(count, 1)));
        const std::vector<float> parts = contribution(root, is_root ? count * n : 0);
        std::vector<float> mine(count, kUntouched);
        world.scatter(is_root ? parts.data() : nullptr, mine.data(), count, DataType::f32, root);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(mine[i], value_of(root, static_cast<std::size_t>(world.rank()) * count + i));
        // In place at the root.
        std::vector<float> own = contribution(world.rank(), count);
        world.broadcast(own.data(), own.data(), count, DataType::f32, root);
        ASSERT_EQ(own, contribution(root, count));
        own = contribution(world.rank(), count);
        world.reduce(own.data(), own.data(), count, DataType::f32, ReduceOp::max, root);
      }
    }
  });
}

TEST_P(Collectives, AllToAllTransposes) {
  each_rank([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t count : counts()) {
      const std::vector<float> in = contribution(world.rank(), count * n);
      std::vector<float> out(count * n + 1, kUntouched);
      world.all_to_all(in.data(), out.data(), count, DataType::f32);
      for (std::size_t r = 0; r < n; ++r)
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[r * count + i], value_of(static_cast<int>(r), me * count + i)) << count;
      ASSERT_EQ(out[count * n], kUntouched);
    }
  });
}

TEST_P(Collectives, VaryingCountsMayBeZero) {
  each_rank([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t scale : {std::size_t{1}, std::size_t{50}, std::size_t{40000}}) {
      std::vector<std::uint64_t> counts(n), displs(n);
      for (std::size_t r = 0; r < n; ++r) counts[r] = (r % 3) * scale + (r == 1 ? 5 : 0);
      for (std::size_t r = 1; r < n; ++r) displs[r] = displs[r - 1] + counts[r - 1] + 2;
      const std::size_t total = displs[n - 1] + counts[n - 1];
      std::vector<float> out(total + 1, kUntouched);
      world.all_gather_v(contribution(world.rank(), counts[me]).data(), out.data(), counts, displs, DataType::f32);
      for (std::size_t r = 0; r < n; ++r)
        for (std::size_t i = 0; i < counts[r]; ++i) ASSERT_EQ(out[displs[r] + i], value_of(static_cast<int>(r), i));

      const std::size_t dense = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      const std::vector<float> in = contribution(world.rank(), dense);
      std::vector<float> block(counts[me], kUntouched);
      world.reduce_scatter_v(in.data(), block.data(), counts, DataType::f32);
      const std::size_t begin = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(me), std::size_t{0});
      for (std::size_t i = 0; i < counts[me]; ++i) ASSERT_EQ(block[i], sum_of(world.size(), begin + i));

      // Rank a sends (a + 2 b) % 4 * scale elements to rank b.
      const auto count_of = [&](std::size_t a, std::size_t b) { return static_cast<std::uint64_t>((a + 2 * b) % 4 * scale); };
      std::vector<std::uint64_t> send_counts(n), send_displs(n), receive_counts(n), receive_displs(n);
      for (std::size_t r = 0; r < n; ++r) {
        send_counts[r] = count_of(me, r);
        receive_counts[r] = count_of(r, me);
        if (r > 0) send_displs[r] = send_displs[r - 1] + send_counts[r - 1];
        if (r > 0) receive_displs[r] = receive_displs[r - 1] + receive_counts[r - 1];
      }
      const std::vector<float> data = contribution(world.rank(), send_displs[n - 1] + send_counts[n - 1]);
      std::vector<float> got(receive_displs[n - 1] + receive_counts[n - 1], kUntouched);
      world.all_to_all_v(data.data(), send_counts, send_displs, got.data(), receive_counts, receive_displs, DataType::f32);
      for (std::size_t r = 0; r < n; ++r) {
        std::size_t at = 0;
        for (std::size_t b = 0; b < me; ++b) at += count_of(r, b);
        for (std::size_t i = 0; i < receive_counts[r]; ++i) ASSERT_EQ(got[receive_displs[r] + i], value_of(static_cast<int>(r), at + i));
      }
    }
  });
}

struct Lists {
  std::vector<std::uint64_t> counts, displs;
  std::size_t room = 0;
};

// Some blocks are empty; `gap` unused elements behind each.
Lists lists_of(std::size_t n, std::size_t scale, std::size_t gap) {
  Lists lists;
  for (std::size_t r = 0; r < n; ++r) {
    lists.counts.push_back((r + 2) % 3 * scale + (r == 1 ? 5 : 0));
    lists.displs.push_back(lists.room);
    lists.room += lists.counts[r] + gap;
  }
  return lists;
}

TEST_P(Collectives, GatherVAndScatterVTakeCountsFromTheRootOnly) {
  each_rank([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    for (const std::size_t scale : {std::size_t{0}, std::size_t{1}, std::size_t{50}, std::size_t{4096}, std::size_t{100'003}}) {
      const Lists lists = lists_of(n, scale, 2);
      const std::size_t own = lists.counts[me];
      for (int root = 0; root < world.size(); ++root) {
        const bool is_root = world.rank() == root;
        const std::vector<std::uint64_t> none;
        const auto& counts = is_root ? lists.counts : none;
        const auto& displs = is_root ? lists.displs : none;
        for (const bool in_place : {false, true}) {
          std::vector<float> all(is_root ? lists.room : 0, kUntouched), mine = contribution(world.rank(), own);
          if (is_root && in_place) std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(lists.displs[me]));
          const float* from = is_root && in_place ? all.data() + lists.displs[me] : mine.data();
          world.gather_v(from, own, is_root ? all.data() : nullptr, counts, displs, DataType::f32, root);
          if (is_root) {
            std::vector<float> right(lists.room, kUntouched);
            for (std::size_t r = 0; r < n; ++r)
              for (std::size_t i = 0; i < lists.counts[r]; ++i) right[lists.displs[r] + i] = value_of(static_cast<int>(r), i);
            ASSERT_EQ(all, right) << scale << " to " << root;
          }
          std::vector<float> parts = contribution(root, is_root ? lists.room : 0), got(own + 1, kUntouched);
          float* to = is_root && in_place ? parts.data() + lists.displs[me] : got.data();
          world.scatter_v(is_root ? parts.data() : nullptr, counts, displs, to, own, DataType::f32, root);
          for (std::size_t i = 0; i < own; ++i) ASSERT_EQ(to[i], value_of(root, lists.displs[me] + i)) << scale << " from " << root;
          ASSERT_EQ(got[own], kUntouched);
          ASSERT_EQ(parts, contribution(root, parts.size()));
        }
      }
    }
  });
}

TEST_P(Collectives, VaryingCountsNeedNotOutliveAnAsynchronousCall) {
  each_rank([](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    const Lists lists = lists_of(n, 30'000, 0);
    const std::size_t own = lists.counts[me];
    const int root = world.size() - 1;
    const bool is_root = world.rank() == root;
    const std::vector<float> mine = contribution(world.rank(), own), whole = contribution(world.rank(), lists.room);
    std::vector<float> gathered(lists.room), all(lists.room), scattered(own), summed(own), exchanged(own * n);
    std::vector<Work> works;
    {
      Lists passing = is_root ? lists : Lists{};
      works.push_back(
          world.gather_v_async(mine.data(), own, is_root ? gathered.data() : nullptr, passing.counts, passing.displs, DataType::f32, root));
      works.push_back(world.scatter_v_async(is_root ? whole.data() : nullptr, passing.counts, passing.displs, scattered.data(), own,
                                            DataType::f32, root));
      passing = lists;
      works.push_back(world.all_gather_v_async(mine.data(), all.data(), passing.counts, passing.displs, DataType::f32));
      works.push_back(world.reduce_scatter_v_async(whole.data(), summed.data(), passing.counts, DataType::f32));
      std::vector<std::uint64_t> back(n, own), at(n);
      for (std::size_t r = 0; r < n; ++r) at[r] = r * own;
      works.push_back(world.all_to_all_v_async(whole.data(), passing.counts, passing.displs, exchanged.data(), back, at, DataType::f32));
      for (auto* list : {&passing.counts, &passing.displs, &back, &at}) std::fill(list->begin(), list->end(), ~std::uint64_t{0});
    }
    for (Work& work : works) work.wait();
    const std::size_t begin = lists.displs[me];
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t i = 0; i < lists.counts[r]; ++i) {
        ASSERT_EQ(all[lists.displs[r] + i], value_of(static_cast<int>(r), i));
        if (is_root) {
          ASSERT_EQ(gathered[lists.displs[r] + i], value_of(static_cast<int>(r), i));
        }
      }
      for (std::size_t i = 0; i < own; ++i) ASSERT_EQ(exchanged[r * own + i], value_of(static_cast<int>(r), begin + i));
    }
    for (std::size_t i = 0; i < own; ++i) {
      ASSERT_EQ(scattered[i], value_of(root, begin + i));
      ASSERT_EQ(summed[i], sum_of(world.size(), begin + i));
    }
  });
}

TEST_P(Collectives, AverageAndPremultipliedSum) {
  each_rank([](Communicator& world) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{100001}}) {
      const std::vector<float> in = contribution(world.rank(), count);
      std::vector<float> out(count);
      world.all_reduce(in.data(), out.data(), count, DataType::f32, ReduceOp::avg);
      for (std::size_t i = 0; i < count; ++i) ASSERT_FLOAT_EQ(out[i], sum_of(world.size(), i) / static_cast<float>(world.size()));
      world.all_reduce(in.data(), out.data(), count, DataType::f32, ReduceOp::premul_sum, world.rank() + 1.0);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int r = 0; r < world.size(); ++r) sum += static_cast<float>(r + 1) * value_of(r, i);
        ASSERT_EQ(out[i], sum) << count << " at " << i;
      }
      std::vector<float> both = in;
      world.all_reduce(both.data(), both.data(), count, DataType::f32, ReduceOp::premul_sum, world.rank() + 1.0);
      ASSERT_EQ(both, out);
    }
  });
}

TEST_P(Collectives, SendReceiveAndGroups) {
  each_rank([](Communicator& world) {
    const int n = world.size();
    const int next = (world.rank() + 1) % n, previous = (world.rank() + n - 1) % n;
    for (const std::size_t count : counts()) {
      std::vector<float> in = contribution(world.rank(), count), out(count, kUntouched), second(3);
      const std::vector<float> three = contribution(world.rank() + 100, 3);
      world.group_start();
      world.send(in.data(), count, DataType::f32, next);
      world.send(three.data(), 3, DataType::f32, next);
      world.receive(out.data(), count, DataType::f32, previous);
      world.receive(second.data(), 3, DataType::f32, previous);
      world.group_end();
      ASSERT_EQ(out, contribution(previous, count));
      ASSERT_EQ(second, contribution(previous + 100, 3));
      if (n == 1) continue;
      if (world.rank() == 0) world.send(in.data(), count, DataType::f32, 1);
      if (world.rank() == 1) {
        world.receive(out.data(), count, DataType::f32, 0);
        ASSERT_EQ(out, contribution(0, count));
      }
    }
    world.barrier();
  });
}

TEST_P(Collectives, AsynchronousCallsKeepTheirOrder) {
  each_rank([](Communicator& world) {
    std::vector<std::vector<float>> in, out;
    std::vector<Work> works;
    for (int k = 0; k < 6; ++k) {
      in.push_back(contribution(world.rank() + k, 20000));
      out.emplace_back(20000);
    }
    for (std::size_t k = 0; k < in.size(); ++k) works.push_back(world.all_reduce_async(in[k].data(), out[k].data(), 20000, DataType::f32));
    world.barrier();
    for (std::size_t k = 0; k < works.size(); ++k) {
      works[k].wait();
      ASSERT_TRUE(works[k].test());
      for (std::size_t i = 0; i < 20000; i += 97) {
        float sum = 0;
        for (int r = 0; r < world.size(); ++r) sum += value_of(r + static_cast<int>(k), i);
        ASSERT_EQ(out[k][i], sum);
      }
    }
  });
}

TEST_P(Collectives, SplitMakesWorkingGroups) {
  each_rank([](Communicator& world) {
    Communicator half = world.split(world.rank() % 2, -world.rank());
    ASSERT_TRUE(half);
    ASSERT_EQ(half.size(), (world.size() + 1 - world.rank() % 2) / 2);
    float mine = static_cast<float>(world.rank()), sum = 0, expected = 0;
    for (int r = world.rank() % 2; r < world.size(); r += 2) expected += static_cast<float>(r);
    half.all_reduce(&mine, &sum, 1, DataType::f32);
    ASSERT_EQ(sum, expected);
    Communicator none = world.split(world.rank() == 0 ? -1 : 0);
    ASSERT_EQ(static_cast<bool>(none), world.rank() != 0);
    world.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, Collectives,
                         ::testing::Values(Case{"shm", 1}, Case{"shm", 2}, Case{"shm", 3}, Case{"shm", 4}, Case{"shm", 5}, Case{"shm", 7},
                                           Case{"shm", 8}),
                         [](const auto& test) { return std::to_string(test.param.ranks) + "Ranks"; });
INSTANTIATE_TEST_SUITE_P(Tcp, Collectives, ::testing::Values(Case{"tcp", 2}, Case{"tcp", 3}, Case{"tcp", 4}),
                         [](const auto& test) { return std::to_string(test.param.ranks) + "Ranks"; });

}  // namespace
}  // namespace peal::test
