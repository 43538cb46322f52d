// Files of protocol constants in YAML.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/constants.hpp>
#include <topology/evidence.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto constants = peal::topology::read_constants_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!constants && constants.error().message.empty()) std::abort();
  const auto sources = peal::topology::read_constant_sources({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!sources && sources.error().message.empty()) std::abort();
  return 0;
}
