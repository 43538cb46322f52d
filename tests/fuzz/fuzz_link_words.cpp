// The ranges of `peal sim link`: any text gives at most 64 rising numbers or one sentence.
#include <cstdint>
#include <cstdlib>
#include <sim/link_report.hpp>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto values = peal::sim::parse_link_range({reinterpret_cast<const char*>(data), size}, "--payload", 2);
  if (!values) return values.error().message.empty() ? std::abort(), 0 : 0;
  if (values->empty() || values->size() > 65) std::abort();
  for (std::size_t i = 1; i < values->size(); ++i)
    if (!((*values)[i] > (*values)[i - 1])) std::abort();
  return 0;
}
