// Files of layers in YAML: any bytes give records or one sentence, within the limits of topology/link_layers.hpp.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/link_layers.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto layers = peal::topology::read_layers_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!layers && layers.error().message.empty()) std::abort();
  return 0;
}
