// Memory of this rank's that the ranks of its host share, so that messages need not be copied to be sent (transport/user_segments.hpp).
#pragma once

#include <comm/core.hpp>
#include <memory>

namespace peal::comm {

class SharedBuffer {
 public:
  /// Collective; every rank says for itself how many bytes it wants, 0 too. The memory is zeroed and begins at a page.
  static Result<std::unique_ptr<SharedBuffer>> create(Core& core, std::size_t bytes);
  /// Gives the memory back at once; not collective. No call may use it any more.
  ~SharedBuffer();
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  SharedBuffer() = default;

  std::shared_ptr<transport::UserSegments> segments_;
  std::shared_ptr<transport::UserSegment> segment_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace peal::comm
