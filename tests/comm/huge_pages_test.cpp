// Long memory that peers read again and again comes to lie in huge pages, and nothing else about it changes.
#include <sys/mman.h>

#include <algorithm>
#include <base/pages.hpp>
#include <comm/huge_pages.hpp>
#include <fstream>
#include <numeric>
#include <sstream>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

constexpr std::size_t kPage = kHugePageBytes;

/// Private memory that begins at a huge page.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes + kPage) {
    whole_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto address = reinterpret_cast<std::uintptr_t>(whole_);
    data_ = static_cast<std::uint8_t*>(whole_) + (kPage - address % kPage) % kPage;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(whole_, bytes_); }
  std::uint8_t* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* whole_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

/// KiB of huge pages in the mapping that holds `data`, as the kernel counts them.
long huge_kib_at(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') is_it = begin <= address && address < end;
    if (is_it && line.starts_with("AnonHugePages:")) return std::strtol(line.c_str() + 14, nullptr, 10);
  }
  return -1;
}

bool uses_them_always() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(file, text);
  return text.find("[always]") != std::string::npos;
}

TEST(HugePages, AreMadeWithTheFourthUseAndKeepWhatIsInThem) {
  if (!HugePages::are_wanted()) GTEST_SKIP() << "this system has no huge pages of 2 MiB, or its administrator wants none";
  constexpr std::size_t kBytes = 4 * kPage;
  const Mapping memory(kBytes);
  std::iota(memory.data(), memory.data() + kBytes, std::uint8_t{3});
  const std::vector<std::uint8_t> before(memory.data(), memory.data() + kBytes);
  HugePages pages;
  // The ends of the buffer lie in the middle of huge pages: the two inside are whole.
  const auto use = [&] { pages.will_be_read(memory.data() + 4096, kBytes - 8192); };
  for (int i = 0; i < HugePages::kUsesBefore; ++i) use();
  EXPECT_EQ(pages.made(), 0U);
  if (!uses_them_always()) {
    EXPECT_EQ(huge_kib_at(memory.data()), 0) << "nobody has asked yet";
  }
  use();
  if (pages.made() == 0) GTEST_SKIP() << "this kernel does not make them on demand (Linux 6.1)";
  EXPECT_EQ(pages.made(), 2 * kPage);
  EXPECT_GE(huge_kib_at(memory.data() + kPage), static_cast<long>(2 * kPage / 1024));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), memory.data()));
}

TEST(HugePages, ShortBuffersAreLeftAlone) {
  const Mapping memory(2 * kPage);
  HugePages pages;
  for (int i = 0; i < 10; ++i) pages.will_be_read(memory.data() + 1, kPage);  // as long as a huge page, but over two of them
  EXPECT_EQ(pages.made(), 0U);
}

TEST(HugePages, WhatTheKernelRefusesIsLeftAlone) {
  const Mapping memory(4 * kPage);
  std::fill_n(memory.data(), 4 * kPage, std::uint8_t{7});
  ASSERT_EQ(::munmap(memory.data() + kPage + 4096, 4096), 0);
  HugePages pages;
  for (int i = 0; i < 10; ++i) pages.will_be_read(memory.data(), 4 * kPage);
  EXPECT_EQ(pages.made(), 0U);
  EXPECT_EQ(memory.data()[3 * kPage], 7);
}

TEST(HugePages, ManyBuffersAreForgottenOneAfterTheOther) {
  constexpr std::size_t kMany = HugePages::kKnown + 1;
  const Mapping memory(kMany * kPage);
  HugePages pages;
  for (int round = 0; round < 2 * HugePages::kUsesBefore; ++round)
    for (std::size_t i = 0; i < kMany; ++i) pages.will_be_read(memory.data() + i * kPage, kPage);
  EXPECT_EQ(pages.made(), 0U) << "none was used four times while it was known";
}

TEST(HugePages, BlocksOfUnequalLengthAreMovedToo) {
  if (!HugePages::are_wanted()) GTEST_SKIP() << "this system has no huge pages of 2 MiB, or its administrator wants none";
  constexpr std::uint64_t kCounts[] = {3 * kPage + 4096, 2 * kPage}, kDispls[] = {0, kCounts[0]};
  CoreOptions options = core_options();
  options.wishes.protocol = "direct_read";
  on_cores(2, options, [&](Core& core) -> Status {
    const std::uint64_t own = kCounts[core.rank()];
    const Mapping send(own + kPage), receive(kCounts[0] + kCounts[1]);
    std::fill_n(send.data(), own, static_cast<std::uint8_t>(core.rank() + 1));
    if (!uses_them_always()) {
      EXPECT_EQ(huge_kib_at(send.data()), 0);
    }
    for (int i = 0; i < HugePages::kUsesBefore + 2; ++i) {
      Call call;
      call.collective = Collective::all_gather_v;
      call.send = send.data();
      call.receive = receive.data();
      call.type = DataType::u8;
      call.receive_counts = kCounts;
      call.receive_displs = kDispls;
      PEAL_TRY(core.run(call));
    }
    EXPECT_GE(huge_kib_at(send.data()), static_cast<long>(2 * kPage / 1024)) << "rank " << core.rank();
    EXPECT_EQ(receive.data()[kCounts[0] - 1], 1);
    EXPECT_EQ(receive.data()[kCounts[0] + kCounts[1] - 1], 2);
    return {};
  });
}

TEST(HugePages, CallsOverLongPrivateMemoryStayRight) {
  constexpr std::uint64_t kCount = 3 * kPage / sizeof(std::int32_t) + 777;
  for (const char* protocol : {"direct_read", "staged"}) {
    CoreOptions options = core_options();
    options.wishes.protocol = protocol;
    on_cores(2, options, [&](Core& core) -> Status {
      std::vector<std::int32_t> send(kCount), receive(kCount);
      for (int i = 0; i < HugePages::kUsesBefore + 3; ++i) {
        for (std::uint64_t k = 0; k < kCount; ++k) send[k] = static_cast<std::int32_t>(k) * (core.rank() + 1) + i;
        Call call;
        call.collective = Collective::all_reduce;
        call.send = send.data();
        call.receive = receive.data();
        call.count = kCount;
        call.type = DataType::i32;
        PEAL_TRY(core.run(call));
        std::uint64_t wrong = 0;
        for (std::uint64_t k = 0; k < kCount; ++k) wrong += receive[k] != static_cast<std::int32_t>(k) * 3 + 2 * i ? 1 : 0;
        EXPECT_EQ(wrong, 0U) << protocol << ", call " << i << " at " << core.rank();
      }
      return {};
    });
  }
}

}  // namespace
}  // namespace peal::comm
