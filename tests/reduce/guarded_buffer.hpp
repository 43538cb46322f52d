// Bytes that end exactly at a page that faults: a kernel that reads or writes one byte too many dies. The bytes before are checked for
// writes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <vector>

namespace peal::reduce {

class GuardedBuffer {
 public:
  /// `slack` bytes lie between the last byte and the faulting page, which sets the alignment.
  explicit GuardedBuffer(std::size_t bytes, std::size_t slack = 0) : bytes_(bytes), slack_(slack) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (bytes + slack + kMargin + page - 1) / page * page;
    base_ = take(inside_, page);
    std::memset(data() - kMargin, kCanary, kMargin + bytes_ + slack_);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { kept()[inside_].push_back(base_); }

  std::byte* data() { return base_ + inside_ - slack_ - bytes_; }
  std::size_t size() const { return bytes_; }
  bool is_intact() {
    for (std::size_t i = 1; i <= kMargin; ++i) {
      if (data()[-static_cast<std::ptrdiff_t>(i)] != std::byte{kCanary}) return false;
    }
    for (std::size_t i = 0; i < slack_; ++i) {
      if (data()[bytes_ + i] != std::byte{kCanary}) return false;
    }
    return true;
  }

 private:
  /// Mappings are kept for the next buffer of as many pages: the tests make hundreds of thousands.
  static std::map<std::size_t, std::vector<std::byte*>>& kept() {
    static std::map<std::size_t, std::vector<std::byte*>> mappings;
    return mappings;
  }
  static std::byte* take(std::size_t inside, std::size_t page) {
    auto& free = kept()[inside];
    if (free.empty()) {
      void* at = mmap(nullptr, inside + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (at == MAP_FAILED || mprotect(static_cast<std::byte*>(at) + inside, page, PROT_NONE) != 0) throw std::bad_alloc();
      return static_cast<std::byte*>(at);
    }
    std::byte* at = free.back();
    free.pop_back();
    return at;
  }
  static constexpr std::size_t kMargin = 64;
  static constexpr std::uint8_t kCanary = 0xa5;
  std::size_t bytes_, slack_, inside_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace peal::reduce
