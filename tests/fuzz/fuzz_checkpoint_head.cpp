// The head of a checkpoint: what is read is written as it was.
#include <cstdint>
#include <cstdlib>
#include <parallel/checkpoint.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto head = peal::parallel::parse_head({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!head) return 0;
  const auto again = peal::parallel::parse_head(peal::parallel::head_text(*head), "fuzz");
  if (!again || again->tensors.size() != head->tensors.size() || again->steps != head->steps) std::abort();
  return 0;
}
