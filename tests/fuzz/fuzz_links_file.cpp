// Files of link generations in YAML: any bytes give a catalogue or one sentence, within the limits of topology/link_catalogue.hpp.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/link_catalogue.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto links = peal::topology::read_links_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!links && links.error().message.empty()) std::abort();
  return 0;
}
