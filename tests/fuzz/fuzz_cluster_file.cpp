// Machine and cluster files in YAML: any bytes give a cluster or one sentence, within the limits of topology/machine.hpp.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/machine.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cluster = peal::topology::read_cluster_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!cluster && cluster.error().message.empty()) std::abort();
  return 0;
}
