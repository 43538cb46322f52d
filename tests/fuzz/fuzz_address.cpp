// Addresses as people type them: what is accepted prints in a form that reads back as the same address.
#include <cstdint>
#include <cstdlib>
#include <net/address.hpp>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto address = peal::net::Address::parse(text)) {
    const auto again = peal::net::Address::parse(address->text());
    if (!again || !(*again == *address)) std::abort();
  }
  return 0;
}
