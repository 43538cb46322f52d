// 128 bytes that somebody hands to a rank.
#include <algorithm>
#include <bootstrap/unique_id.hpp>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  peal::bootstrap::UniqueId id;
  std::copy_n(data, std::min(size, id.bytes.size()), id.bytes.begin());
  const auto job = peal::bootstrap::job_from_unique_id(id, 1, 2);
  if (job && (!job->key || job->root.family() == peal::net::Family::none)) std::abort();
  return 0;
}
