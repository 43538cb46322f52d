// Machine and cluster files in YAML, with their fabrics: any bytes give a cluster or one sentence, within the limits of
// topology/machine.hpp; a fabric that was built routes between its first and its last ports over resources that it has.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/machine.hpp>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cluster = peal::topology::read_cluster_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!cluster && cluster.error().message.empty()) std::abort();
  if (!cluster || cluster->fabric() == nullptr) return 0;
  const peal::topology::Fabric& fabric = *cluster->fabric();
  std::vector<std::uint32_t> resources;
  const int last = cluster->copies() - 1 + fabric.storage_nodes();
  fabric.route({0, 0}, {last, 0}, resources);
  fabric.route({last, 0}, {last / 2, 0}, resources);
  for (const std::uint32_t r : resources)
    if (r >= fabric.resource_count() || !(fabric.resource_capacity(r).value > 0) || fabric.resource_name(r).empty()) std::abort();
  return 0;
}
