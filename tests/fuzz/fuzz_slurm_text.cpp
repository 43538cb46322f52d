// Slurm's topology.conf, topology.yaml, gres.conf and host lists. The first byte chooses the reader.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/hostlist.hpp>
#include <topology/import.hpp>

namespace {

/// What was folded expands to the same names.
void check_hostlist(std::string_view text) {
  using namespace peal::topology;
  const auto names = expand_hostlist(text);
  if (!names) {
    if (names.error().message.empty()) std::abort();
    return;
  }
  if (names->size() > kMostHosts) std::abort();
  const auto again = expand_hostlist(fold_hostlist(*names));
  if (!again || *again != *names) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peal::topology;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr std::array kReaders = {import_slurm_topology, import_slurm_gres, import_slurm_topology_yaml};
  const std::size_t chosen = data[0] % (kReaders.size() + 1);
  if (chosen == kReaders.size()) {
    check_hostlist(text);
    return 0;
  }
  const auto graph = kReaders[chosen](text, "fuzz.conf");
  if (!graph && graph.error().message.empty()) std::abort();
  return 0;
}
