// What a file is and what it says, by content alone: any bytes give a graph that can be shown, or one sentence.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/describe.hpp>
#include <topology/import.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = peal::topology::import_text({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!file && file.error().message.empty()) std::abort();
  if (file && file->graph.device_count() < 500 && peal::topology::describe_json(file->graph).empty()) std::abort();
  return 0;
}
