// Computation graphs in JSON: what is read is written alike, can be cut, and what is cut is right.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <training/cut_graph.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peal::training;
  const auto graph = read_graph({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!graph && graph.error().message.empty()) std::abort();
  if (!graph) return 0;
  const auto again = read_graph(graph_json(*graph), "fuzz.json");
  if (!again || again->operators.size() != graph->operators.size()) std::abort();
  const auto cut = cut_graph(*graph, {1, 2, {}});
  if (!cut && cut.error().message.empty()) std::abort();
  if (!cut) return 0;
  if (flops_of(*graph) > 1e5 || parameters(*graph) > 100'000) return 0;
  // Numbers that overflow are not equal to themselves, which is no fault of the cut: only that all ranks end is held.
  const auto proof = verify_cut(*graph, *cut);
  if (!proof && proof.error().message.find("for ever") != std::string::npos) std::abort();
  return 0;
}
