// The buffers of a benchmark.
#pragma once

#include <sys/mman.h>

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
    if (bytes <= bytes_) return {};
    release();
    if (core_ != nullptr) {
      PEAL_ASSIGN(shared_, comm::SharedBuffer::create(*core_, bytes));
      data_ = shared_->data();
      bytes_ = bytes;
      return {};
    }
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return fail(ErrorCode::system, "no memory for a buffer of {} bytes: give a smaller -e", bytes);
    data_ = static_cast<std::byte*>(memory);
    bytes_ = bytes;
    return {};
  }
  std::byte* data() const { return data_; }
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { release(); }

 private:
  void release() {
    if (data_ != nullptr && shared_ == nullptr) ::munmap(data_, bytes_);
    shared_.reset();
    data_ = nullptr;
    bytes_ = 0;
  }
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  comm::Core* core_ = nullptr;
  std::unique_ptr<comm::SharedBuffer> shared_;
};

}  // namespace peal::cli
