// hwloc XML of all versions: any bytes give a graph or one sentence.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/import.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto graph = peal::topology::import_hwloc({reinterpret_cast<const char*>(data), size}, "fuzz.xml");
  if (!graph && graph.error().message.empty()) std::abort();
  return 0;
}
