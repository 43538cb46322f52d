// Sizes and names as people type them: no crash, and what is accepted reads back as itself.
#include <base/names.hpp>
#include <base/units.hpp>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = peal::parse_bytes(text)) {
    if (bytes->value < 1024 && peal::parse_bytes(peal::to_text(*bytes))->value != bytes->value) std::abort();
  }
  if (const auto type = peal::parse_data_type(text)) {
    if (peal::parse_data_type(peal::name_of(*type)).value() != *type) std::abort();
  }
  if (const auto op = peal::parse_reduce_op(text)) {
    if (peal::parse_reduce_op(peal::name_of(*op)).value() != *op) std::abort();
  }
  if (const auto kind = peal::parse_collective(text)) {
    if (peal::parse_collective(peal::name_of(*kind)).value() != *kind) std::abort();
  }
  return 0;
}
