#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <base/pages.hpp>
#include <cerrno>
#include <comm/huge_pages.hpp>
#include <discovery/discover.hpp>
#include <fstream>
#include <string>

namespace peal::comm {

namespace {

#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // Linux 6.1; headers may be older than the kernel
#endif
constexpr std::uint64_t kMostAtOnce = std::uint64_t{256} << 20;  // bytes a call; the rest with the next
constexpr std::uint32_t kUsesUntilLook = 256;                    // a look at pages that are huge already takes a microsecond for each
constexpr std::uint32_t kMostRefusals = 4;                       // in a row

bool has_pages_of_two_mebibytes() {
  std::uint64_t bytes = 0;
  std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> bytes;
  return bytes == kHugePageBytes;
}

}  // namespace

bool HugePages::are_wanted() {
  static const bool wanted = [] {
    const std::string word = discovery::use_of_huge_pages();
    return (word == "always" || word == "madvise") && has_pages_of_two_mebibytes();
  }();
  return wanted;
}

HugePages::Buffer& HugePages::find(std::uintptr_t begin, std::uintptr_t end) {
  Buffer* oldest = &known_[0];
  for (Buffer& each : known_) {
    if (each.begin == begin && each.end == end) return each;
    if (each.last_use < oldest->last_use) oldest = &each;
  }
  *oldest = {begin, end, begin, 0, 0, 0};
  return *oldest;
}

void HugePages::will_be_read(const void* data, std::uint64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const std::uintptr_t end = (address + bytes) / kHugePageBytes * kHugePageBytes;
  if (end <= begin) return;
  Buffer& buffer = find(begin, end);
  buffer.last_use = ++uses_;
  if (++buffer.uses <= kUsesBefore) return;
  if (buffer.uses > kUsesBefore + kUsesUntilLook) {
    buffer.uses = kUsesBefore + 1;
    buffer.next = begin;
    buffer.refusals = 0;
  }
  if (buffer.next < end && buffer.refusals < kMostRefusals) make(buffer);
}

void HugePages::make(Buffer& buffer) {
  const std::uint64_t bytes = std::min<std::uint64_t>(buffer.end - buffer.next, kMostAtOnce);
  if (::madvise(reinterpret_cast<void*>(buffer.next), bytes, kCollapse) == 0) {
    buffer.next += bytes;
    buffer.refusals = 0;
    return;
  }
  // Pages that somebody else holds at this moment may be free with the next call.
  buffer.refusals = errno == EAGAIN ? buffer.refusals + 1 : kMostRefusals;
}

std::uint64_t HugePages::made() const {
  std::uint64_t bytes = 0;
  for (const Buffer& each : known_) bytes += each.next - each.begin;
  return bytes;
}

}  // namespace peal::comm
