// Long memory of the user's that other ranks read where it lies, call after call: it comes to lie in huge pages, of which the kernel looks
// up one where it looks up 512 small ones, under a lock that readers wait for (docs/decisions/long-buffers-in-huge-pages.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace peal::comm {

/// One thread at a time.
class HugePages {
 public:
  static constexpr int kUsesBefore = 3;       ///< of a buffer: who uses it once or twice does not pay for it
  static constexpr std::size_t kKnown = 256;  ///< buffers in turn, as the layers or buckets of a model have them

  /// Whether this system wants them at all: not where the administrator says `never`, nor before Linux 6.1 or with other page sizes.
  static bool are_wanted();

  /// Peers are about to read `bytes` at `data`, and read none of them now. The contents stay what they are; huge pages that lie wholly
  /// inside are made with the fourth such call, at some 0.3 ms each, and looked after once in a while, since memory may be given back and
  /// come anew. What the kernel refuses (pinned or mapped in small parts) stays as it is.
  void will_be_read(const void* data, std::uint64_t bytes);

  /// Bytes of buffers known now that were made to lie in huge pages.
  std::uint64_t made() const;

 private:
  struct Buffer {
    std::uintptr_t begin = 0, end = 0;  // of whole huge pages inside
    std::uintptr_t next = 0;            // up to here they were asked for
    std::uint32_t uses = 0;
    std::uint32_t refusals = 0;
    std::uint64_t last_use = 0;
  };
  Buffer& find(std::uintptr_t begin, std::uintptr_t end);
  static void make(Buffer& buffer);

  std::array<Buffer, kKnown> known_{};
  std::uint64_t uses_ = 0;
};

}  // namespace peal::comm
