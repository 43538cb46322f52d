// ibnetdiscover, Topograph models and NetQ graphs: any bytes give a graph or one sentence. The first byte chooses the reader.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/import.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peal::topology;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::array kReaders = {import_ibnetdiscover, import_topograph_model, import_netq_topology};
  const auto graph = kReaders[data[0] % kReaders.size()](text, "fuzz.txt");
  if (graph ? graph->device_count() == 0 : graph.error().message.empty()) std::abort();
  return 0;
}
