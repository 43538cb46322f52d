// Files of protocol constants in YAML.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/constants.hpp>
#include <topology/library_constants.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto constants = peal::topology::read_constants_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!constants && constants.error().message.empty()) std::abort();
  peal::topology::LibraryConstants libraries;
  const auto read = libraries.add_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!read && read.error().message.empty()) std::abort();
  return 0;
}
