// The buffers of a benchmark.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <base/pages.hpp>
#include <base/result.hpp>
#include <comm/shared_buffer.hpp>
#include <cstddef>
#include <memory>

namespace peal::cli {

/// Page-aligned memory that grows, touched before it is timed. Growing loses what was in it.
class Pages {
 public:
  /// From now on the memory is what peal::allocate gives, and growing is collective.
  void share(comm::Core& core) { core_ = &core; }
  Status grow(std::size_t bytes) {
    if (reserved_ > 0) {
      if (bytes > reserved_) return fail(ErrorCode::internal, "a buffer of {} bytes where {} were reserved", bytes, reserved_);
      data_ = bytes < kHugePageBytes ? short_.data : long_.data;
      return {};
    }
    if (bytes <= bytes_) return {};
    if (core_ != nullptr) {
      shared_.reset();
      PEAL_ASSIGN(shared_, comm::SharedBuffer::create(*core_, bytes));
      data_ = shared_->data();
    } else {
      PEAL_TRY(map(long_, bytes, MAP_POPULATE));
      data_ = long_.data;
    }
    bytes_ = bytes;
    return {};
  }
  /// For calls of up to so many bytes, of all sizes in turn: short ones lie in small pages whatever became of the memory of long ones,
  /// which lie in huge pages where the system has them, save the first two mebibytes: those of malloc begin anywhere in a huge page, and
  /// only whole ones are. So a size takes as long beside others as by itself. Private memory only.
  Status reserve(std::size_t bytes) {
    constexpr std::size_t kHuge = kHugePageBytes;
    reserved_ = bytes;
    const std::size_t few = std::min(bytes, kHuge);
    PEAL_TRY(map(short_, few, 0));
    ::madvise(short_.data, few, MADV_NOHUGEPAGE);
    std::fill_n(short_.data, few, std::byte{});
    if (bytes >= kHuge) {
      const std::size_t whole = (bytes + kPageBytes + kHuge - 1) / kHuge * kHuge;
      PEAL_TRY(map(long_, whole + kHuge, 0));
      const auto address = reinterpret_cast<std::uintptr_t>(long_.data);
      std::byte* const first = long_.data + (kHuge - address % kHuge) % kHuge;
      ::madvise(first, kHuge, MADV_NOHUGEPAGE);
      ::madvise(first + kHuge, whole - kHuge, MADV_HUGEPAGE);
      std::fill_n(first, whole, std::byte{});
      long_.data = first + kPageBytes;
    }
    data_ = short_.data;
    return {};
  }
  std::byte* data() const { return data_; }
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    release(short_);
    release(long_);
  }

 private:
  struct Area {
    std::byte* data = nullptr;
    std::byte* mapped = nullptr;
    std::size_t bytes = 0;
  };
  /// Behind it lies a page that nobody may touch: what writes past a buffer must not end in the next one.
  Status map(Area& area, std::size_t bytes, int flags) {
    release(area);
    const std::size_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* memory = ::mmap(nullptr, whole + kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED) return fail(ErrorCode::system, "no memory for a buffer of {} bytes: give a smaller -e", bytes);
    area.data = area.mapped = static_cast<std::byte*>(memory);
    area.bytes = whole + kPageBytes;
    ::mprotect(area.mapped + whole, kPageBytes, PROT_NONE);
    return {};
  }
  static void release(Area& area) {
    if (area.mapped != nullptr) ::munmap(area.mapped, area.bytes);
    area = {};
  }
  Area short_, long_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;     // that grow() has made
  std::size_t reserved_ = 0;  // by reserve(); 0: it was not called
  comm::Core* core_ = nullptr;
  std::unique_ptr<comm::SharedBuffer> shared_;
};

}  // namespace peal::cli
