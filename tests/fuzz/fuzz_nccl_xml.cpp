// NCCL topology and graph XML: any bytes give a graph or one sentence.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/import.hpp>
#include <topology/import_nccl_graph.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto topology = peal::topology::import_nccl_topology(text, "fuzz.xml");
  if (!topology && topology.error().message.empty()) std::abort();
  const auto graph = peal::topology::import_nccl_graph(text, "fuzz.xml");
  if (!graph && graph.error().message.empty()) std::abort();
  return 0;
}
