// Tables of `peal tune`.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <tuning/measured.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto table = peal::tuning::measured_table_from_text({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!table) {
    if (table.error().message.empty()) std::abort();
    return 0;
  }
  // What was read can be asked and written, and what was written can be read.
  for (const auto& way : table->ways) {
    const auto time = way.time_us(1000, [](std::uint64_t bytes) { return std::optional(1.0 + static_cast<double>(bytes)); });
    if (!time || !(*time >= 0)) std::abort();
  }
  if (!peal::tuning::measured_table_from_text(peal::tuning::to_text(*table), "again.json")) std::abort();
  return 0;
}
