// More than 2^31 elements: nothing inside may count in 32 bits.
#include <fstream>

#include "../rank_threads.hpp"

namespace peal::test {
namespace {

constexpr std::size_t kCount = (std::size_t{1} << 31) + 17;

/// GiB that the system says can be had without swapping.
double available_gib() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib / (1024.0 * 1024.0);
  }
  return 0;
}

TEST(Large, AllReduceBeyondTwoToThe31) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "2^31 watched elements would take half an hour and five times their memory";
#endif
  const double gib = available_gib();
  if (gib < 12) GTEST_SKIP() << "needs 12 GiB of free memory; there are " << gib;
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    std::vector<std::uint8_t> data(kCount);
    for (std::size_t i = 0; i < kCount; ++i) data[i] = static_cast<std::uint8_t>(i * 2654435761u >> 24);
    world.all_reduce(data.data(), data.data(), kCount, DataType::u8);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto expected = static_cast<std::uint8_t>(2 * static_cast<std::uint8_t>(i * 2654435761u >> 24));
      if (data[i] != expected) FAIL() << "element " << i;
    }
  });
}

}  // namespace
}  // namespace peal::test
