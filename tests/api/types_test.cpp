// Every data type with every operator against numbers that are worked out here; zero counts; results that repeat bit for bit.
#include <base/names.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

// Small whole numbers, exact in every type: element i as a type's bytes, little endian.
std::vector<std::uint8_t> encoded(DataType type, int value) {
  std::vector<std::uint8_t> bytes(size_of(type));
  if (type == DataType::f64) {
    const double x = value;
    std::memcpy(bytes.data(), &x, 8);
  } else if (type == DataType::f32 || type == DataType::bf16) {
    const float x = static_cast<float>(value);
    std::uint32_t word = 0;
    std::memcpy(&word, &x, 4);
    if (type == DataType::bf16) word >>= 16;  // exact: eight bits of mantissa are enough up to 256
    std::memcpy(bytes.data(), &word, bytes.size());
  } else if (type == DataType::f16) {
    std::uint16_t word = 0;
    if (value != 0) {
      int exponent = 0;
      const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
      word = static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | ((exponent - 1 + 15) << 10) |
                                        (static_cast<int>(std::lround((fraction * 2 - 1) * 1024))));
    }
    std::memcpy(bytes.data(), &word, 2);
  } else if (type == DataType::f8_e4m3fn || type == DataType::f8_e5m2) {
    const int fraction_bits = type == DataType::f8_e4m3fn ? 3 : 2, bias = type == DataType::f8_e4m3fn ? 7 : 15;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // in [0.5, 1); all values here are positive
    bytes[0] =
        static_cast<std::uint8_t>((exponent - 2 + bias) * (1 << fraction_bits) + static_cast<int>(std::ldexp(fraction, fraction_bits + 1)));
  } else {
    const std::int64_t x = value;
    std::memcpy(bytes.data(), &x, bytes.size());
  }
  return bytes;
}

std::vector<std::uint8_t> array_of(DataType type, std::size_t count, const std::function<int(std::size_t)>& value) {
  std::vector<std::uint8_t> all;
  for (std::size_t i = 0; i < count; ++i) {
    const auto one = encoded(type, value(i));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// Ranks differ by a multiple of the number of ranks, so that averages are whole; products stay below 128.
// 8-bit floats have three significant bits at least: of 3 and 1, or of 3, 2 and 1, every result and every step to it needs no more.
int contribution_of_type(DataType type, int ranks, int rank, std::size_t i) {
  if (type == DataType::boolean) return (i >> rank & 1) != 0 ? 1 : 0;
  if (type == DataType::f8_e4m3fn || type == DataType::f8_e5m2) return (3 - (ranks == 2 ? 2 : 1) * rank) << (i % 3);
  return 1 + static_cast<int>(i % 3) + (ranks == 2 ? 2 : 1) * rank;
}

int expected(DataType type, ReduceOp op, int ranks, std::size_t i) {
  int result = contribution_of_type(type, ranks, 0, i);
  for (int r = 1; r < ranks; ++r) {
    const int x = contribution_of_type(type, ranks, r, i);
    const bool is_bool = type == DataType::boolean;
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg: result = is_bool ? (result | x) : result + x; break;
      case ReduceOp::prod: result = is_bool ? (result & x) : result * x; break;
      case ReduceOp::min: result = std::min(result, x); break;
      case ReduceOp::max: result = std::max(result, x); break;
      case ReduceOp::premul_sum: result += (r + 1) * x; break;
      case ReduceOp::band: result &= x; break;
      case ReduceOp::bor: result |= x; break;
      case ReduceOp::bxor: result ^= x; break;
    }
  }
  return op == ReduceOp::avg ? result / ranks : result;
}

bool is_refused(DataType type, ReduceOp op) {
  const bool is_float = type == DataType::f64 || type == DataType::f32 || type == DataType::f16 || type == DataType::bf16 ||
                        type == DataType::f8_e4m3fn || type == DataType::f8_e5m2;
  const bool is_bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  if (is_bits) return is_float;
  return type == DataType::boolean && (op == ReduceOp::avg || op == ReduceOp::premul_sum);
}

TEST(Types, EveryTypeWithEveryOperator) {
  for (const int ranks : {2, 3}) {
    on_ranks(ranks, with_transport("shm"), [ranks](Communicator& world) {
      for (int t = 0; t < kDataTypeCount; ++t) {
        for (int o = 0; o < kReduceOpCount; ++o) {
          const auto type = static_cast<DataType>(t);
          const auto op = static_cast<ReduceOp>(o);
          const double factor = world.rank() + 1;
          for (const std::size_t count : {std::size_t{5}, std::size_t{1033}}) {
            const auto in = array_of(type, count, [&](std::size_t i) { return contribution_of_type(type, ranks, world.rank(), i); });
            std::vector<std::uint8_t> out(in.size() + 8, 0xee);
            if (is_refused(type, op)) {
              try {
                world.all_reduce(in.data(), out.data(), count, type, op, factor);
                ADD_FAILURE() << name_of(type) << " " << name_of(op) << " is not refused";
              } catch (const Error& error) {
                ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what();
              }
              continue;
            }
            world.all_reduce(in.data(), out.data(), count, type, op, factor);
            const auto right = array_of(type, count, [&](std::size_t i) { return expected(type, op, ranks, i); });
            ASSERT_EQ(std::memcmp(out.data(), right.data(), right.size()), 0)
                << name_of(type) << " " << name_of(op) << " of " << count << " on " << ranks << " ranks";
            ASSERT_EQ(out[right.size()], 0xee) << "written behind the end";
          }
        }
      }
    });
  }
}

TEST(Types, IntegersWrap) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    const std::uint8_t in = 200;
    std::uint8_t out = 0;
    world.all_reduce(&in, &out, 1, DataType::u8);
    EXPECT_EQ(out, 144);
    const std::int64_t big = std::numeric_limits<std::int64_t>::max();
    std::int64_t sum = 0;
    world.all_reduce(&big, &sum, 1, DataType::i64);
    EXPECT_EQ(sum, -2);
  });
}

TEST(Types, NanAndInfinityAreCarried) {
  on_ranks(3, with_transport("shm"), [](Communicator& world) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const float in[4] = {world.rank() == 1 ? nan : 1, world.rank() == 1 ? inf : 1, world.rank() == 0 ? inf : -inf, 1};
    float out[4] = {};
    world.all_reduce(in, out, 4, DataType::f32);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_EQ(out[1], inf);
    EXPECT_TRUE(std::isnan(out[2]));
    EXPECT_EQ(out[3], 3);
    world.all_reduce(in, out, 4, DataType::f32, ReduceOp::max);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_EQ(out[1], inf);
    EXPECT_EQ(out[2], inf);
  });
}

TEST(Types, EightBitFloatsOverflowToNanOrInfinity) {
  on_ranks(3, with_transport("shm"), [](Communicator& world) {
    const std::uint8_t large_e4m3fn[3] = {0x7e, 0xfe, 0x38}, large_e5m2[3] = {0x7b, 0xfb, 0x3c};  // the largest, its negative, 1
    std::uint8_t out[3] = {};
    world.all_reduce(large_e4m3fn, out, 3, DataType::f8_e4m3fn);
    EXPECT_EQ(out[0] & 0x7f, 0x7f);  // NaN
    EXPECT_EQ(out[1] & 0x7f, 0x7f);
    EXPECT_EQ(out[2], 0x44);  // 3
    world.all_reduce(large_e5m2, out, 3, DataType::f8_e5m2);
    EXPECT_EQ(out[0], 0x7c);  // infinity
    EXPECT_EQ(out[1], 0xfc);
    EXPECT_EQ(out[2], 0x42);  // 3
    world.all_reduce(large_e4m3fn, out, 3, DataType::f8_e4m3fn, ReduceOp::max);
    EXPECT_EQ(std::memcmp(out, large_e4m3fn, 3), 0);
  });
}

TEST(Types, ZeroCountsTouchNothing) {
  for (const char* transport : {"shm", "tcp"}) {
    on_ranks(3, with_transport(transport), [](Communicator& world) {
      for (int i = 0; i < 3; ++i) {
        std::int32_t x = 41;
        world.all_reduce(nullptr, nullptr, 0, DataType::f32);
        world.all_reduce(&x, &x, 0, DataType::i32, ReduceOp::avg);
        world.reduce_scatter(nullptr, &x, 0, DataType::i32);
        world.all_gather(nullptr, &x, 0, DataType::i32);
        world.broadcast(&x, nullptr, 0, DataType::i32, 1);
        world.reduce(nullptr, &x, 0, DataType::i32, ReduceOp::sum, 2);
        world.gather(nullptr, &x, 0, DataType::i32, 0);
        world.scatter(nullptr, &x, 0, DataType::i32, 0);
        world.all_to_all(nullptr, nullptr, 0, DataType::i32);
        const std::vector<std::uint64_t> none(3, 0);
        world.all_gather_v(nullptr, &x, none, none, DataType::i32);
        world.reduce_scatter_v(nullptr, &x, none, DataType::i32);
        world.all_to_all_v(nullptr, none, none, &x, none, none, DataType::i32);
        world.group_start();
        world.send(nullptr, 0, DataType::i32, (world.rank() + 1) % 3);
        world.receive(nullptr, 0, DataType::i32, (world.rank() + 2) % 3);
        world.group_end();
        ASSERT_EQ(x, 41);
      }
    });
  }
}

float random_element(int rank, std::size_t i) {
  // A hash of both, as a float of very different magnitudes: the order of summation shows in the last bits.
  std::uint64_t h = (static_cast<std::uint64_t>(rank) * 1'000'003 + i) * 0x9e3779b97f4a7c15ull;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9ull;
  h ^= h >> 32;
  const float mantissa = 1.0f + static_cast<float>(h & 0x7fffff) / 8388608.0f;
  return std::ldexp(mantissa, static_cast<int>(h >> 24 & 31) - 16) * ((h >> 40 & 1) != 0 ? 1.0f : -1.0f);
}

/// The canonical order, written down once more: the left part has the largest power of two below n.
float canonical_sum(int first, int n, std::size_t i) {
  if (n == 1) return random_element(first, i);
  int left = 1;
  while (left * 2 < n) left *= 2;
  return canonical_sum(first, left, i) + canonical_sum(first + left, n - left, i);
}

TEST(Deterministic, TheCanonicalSumBitForBitOverEveryTransport) {
  int telling = 0;
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (const char* transport : {"shm", "tcp"}) {
      Options options = with_transport(transport);
      options.deterministic = true;
      std::vector<std::size_t> counts{1, 3, 2000};
      if (ranks < 8) counts.push_back(150001);
      on_ranks(ranks, options, [&](Communicator& world) {
        for (const std::size_t count : counts) {
          std::vector<float> in(count), out(count);
          for (std::size_t i = 0; i < count; ++i) in[i] = random_element(world.rank(), i);
          world.all_reduce(in.data(), out.data(), count, DataType::f32);
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(out[i], canonical_sum(0, ranks, i)) << transport << " " << ranks << " ranks, element " << i;
        }
      });
    }
    for (std::size_t i = 0; i < 2000; ++i) {
      float from_left = 0;
      for (int r = 0; r < ranks; ++r) from_left += random_element(r, i);
      telling += from_left != canonical_sum(0, ranks, i) ? 1 : 0;
    }
  }
  EXPECT_GT(telling, 100) << "the data cannot tell one order from another";
}

}  // namespace
}  // namespace peal::test
