#include <sys/mman.h>

#include <algorithm>
#include <comm/shared_buffer.hpp>

namespace peal::comm {

Result<std::unique_ptr<SharedBuffer>> SharedBuffer::create(Core& core, std::size_t bytes) {
  PEAL_ASSIGN(Core::Parts parts, core.share_parts(transport::UserSegment::kHeadBytes, bytes, "peal-buffer"));
  std::unique_ptr<SharedBuffer> buffer(new SharedBuffer());
  buffer->data_ = parts.own;
  buffer->bytes_ = bytes;
  std::vector<int> holders;
  for (const int r : core.locals()) holders.push_back(core.world_rank(r));
  std::sort(holders.begin(), holders.end());
  buffer->segment_ = std::make_shared<transport::UserSegment>(parts.id, std::move(parts.segment), std::move(holders));
  buffer->segments_ = core.job().user_segments();
  buffer->segments_->add(buffer->segment_);
  return buffer;
}

SharedBuffer::~SharedBuffer() {
  // Others may keep the mapping a while; the memory goes now.
  if (bytes_ > 0) ::madvise(data_, transport::whole_pages(bytes_), MADV_REMOVE);
  segments_->give_back(*segment_);
}

}  // namespace peal::comm
