// The first bytes of a stranger, before it has proven anything.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <net/handshake.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::uint8_t, peal::net::kHelloBytes> bytes{};
  std::copy_n(data, std::min(size, bytes.size()), bytes.begin());
  if (const auto hello = peal::net::parse_hello(bytes)) {
    const auto again = peal::net::parse_hello(peal::net::encode(*hello));
    if (!again || again->party.rank != hello->party.rank || again->party.size != hello->party.size ||
        again->party.job != hello->party.job || again->nonce != hello->nonce)
      std::abort();
  }
  return 0;
}
