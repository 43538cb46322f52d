// What ranks tell of themselves, as it comes over the wire: a table that is accepted is written again as the same bytes.
#include <bootstrap/contact.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto contact = peal::bootstrap::parse_contact(bytes)) {
    const auto again = peal::bootstrap::parse_contact(peal::bootstrap::encode(*contact));
    if (!again || !(*again == *contact)) std::abort();
  }
  for (int ranks : {1, 2, 4}) {
    if (const auto table = peal::bootstrap::parse_contacts(bytes, ranks)) {
      if (static_cast<int>(table->size()) != ranks) std::abort();
    }
  }
  return 0;
}
