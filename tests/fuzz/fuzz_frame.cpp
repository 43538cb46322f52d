// Bytes of a peer after the handshake: frames, and the numbers and texts inside them. No read past the end, no loop that stands still.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <net/frame.hpp>
#include <net/wire.hpp>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> left(data, size);
  for (;;) {
    const auto frame = peal::net::parse_frame(left, 4096);
    if (!frame || !*frame) break;
    const auto& found = **frame;
    if (found.consumed < peal::net::kFrameHeaderBytes || found.consumed > left.size()) std::abort();
    if (found.payload.size() + peal::net::kFrameHeaderBytes != found.consumed || found.payload.size() > 4096) std::abort();
    // What was understood is written again byte for byte.
    const std::string again =
        peal::net::frame_bytes(found.type, {reinterpret_cast<const char*>(found.payload.data()), found.payload.size()});
    if (!std::equal(again.begin(), again.end(), left.begin(), [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
      std::abort();
    peal::net::WireReader reader(found.payload);
    while (reader.is_good() && !reader.is_finished()) {
      if (reader.u32() % 2 == 0) {
        reader.text(100);
      } else {
        reader.u64();
      }
    }
    left = left.subspan(found.consumed);
  }
  return 0;
}
