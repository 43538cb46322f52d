// Memory that the ranks of one host share: a memfd, allocated range by range as it is first used and sealed against resizing, passed
// over Unix sockets. No name in any file system, so nothing is left behind after kill -9, and /dev/shm's size does not matter.
#pragma once

#include <atomic>
#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>

namespace peal::transport {

/// `bytes` rounded up to pages; 0 when that overflows or nothing is asked for.
std::size_t whole_pages(std::size_t bytes);

/// One mapping of a shared memfd. Movable; unmaps when destroyed.
class SharedSegment {
 public:
  /// Creates a segment of `bytes` (rounded up to pages), zero filled. Pages are not allocated yet: see allocate().
  static Result<SharedSegment> create(std::size_t bytes, const char* label);
  /// Maps a segment that another rank created; checks seals and size before use. Its creator has allocated the first `allocated` bytes.
  static Result<SharedSegment> map(FileDescriptor fd, std::size_t bytes, std::size_t allocated = 0);

  SharedSegment() = default;
  SharedSegment(SharedSegment&&) noexcept;
  SharedSegment& operator=(SharedSegment&&) noexcept;
  ~SharedSegment();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  int descriptor() const { return fd_.get(); }

  /// Nobody will be handed this segment any more, and nothing more of it is allocated: one open file less.
  void close_descriptor() { fd_ = {}; }

  /// Makes sure that [offset, offset + length) has memory behind it, so that touching it cannot end in SIGBUS.
  /// The error says how much was asked for and what limits it.
  Status allocate(std::size_t offset, std::size_t length);

  /// Gives the memory of whole pages back: zeroes from now on, and to be allocated anew. Nobody may be using them, nor may they lie
  /// within what map() was told or allocate() was asked for from the start on.
  Status discard(std::size_t offset, std::size_t length);

 private:
  FileDescriptor fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  alignas(std::atomic_ref<std::size_t>::required_alignment) std::size_t allocated_ =
      0;  // from the start; what else is allocated is not remembered
};

}  // namespace peal::transport
