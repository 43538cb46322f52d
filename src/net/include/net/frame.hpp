// Small length-prefixed frames: {u32 magic, u32 type, u32 bytes, u32 reserved = 0}, little endian, then the payload.
// Only sent on connections that have passed the handshake; every length is checked against a limit before memory is touched.
#pragma once

#include <array>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace peal::net {

inline constexpr std::uint32_t kFrameMagic = 0x4c414550;  // "PEAL"
inline constexpr std::size_t kFrameHeaderBytes = 16;
inline constexpr std::size_t kMaxFrameBytes = 1u << 20;

struct FrameHeader {
  std::uint32_t type = 0;
  std::uint32_t bytes = 0;
};
struct Frame {
  std::uint32_t type = 0;
  std::string payload;
};

std::array<std::uint8_t, kFrameHeaderBytes> encode(const FrameHeader& header);
/// `corrupt` when the magic, the reserved word or the size is wrong.
Result<FrameHeader> parse_frame_header(std::span<const std::uint8_t, kFrameHeaderBytes> bytes, std::size_t max_bytes = kMaxFrameBytes);
/// The first frame of `buffer` and how many bytes it took; nothing while it is incomplete.
struct ParsedFrame {
  std::uint32_t type = 0;
  std::span<const std::uint8_t> payload;  ///< inside `buffer`
  std::size_t consumed = 0;
};
Result<std::optional<ParsedFrame>> parse_frame(std::span<const std::uint8_t> buffer, std::size_t max_bytes = kMaxFrameBytes);

/// Header and payload in one buffer, ready to send.
std::string frame_bytes(std::uint32_t type, std::string_view payload);
Status send_frame(int fd, std::uint32_t type, std::string_view payload, std::int64_t deadline_ns);

/// Takes frames from a socket as they come. Memory grows only with bytes that have arrived. One thread.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_bytes = kMaxFrameBytes) : max_bytes_(max_bytes) {}
  void set_limit(std::size_t max_bytes) { max_bytes_ = max_bytes; }

  /// Reads what is there without waiting. The next complete frame, or nothing; `is_closed` says whether the stream has ended.
  Result<std::optional<Frame>> next(int fd);
  /// Waits for a frame. `unreachable` when the stream ends first.
  Result<Frame> wait(int fd, std::int64_t deadline_ns);
  bool is_closed() const { return is_closed_; }

 private:
  Result<std::optional<Frame>> take();
  std::size_t max_bytes_;
  std::string buffer_;
  std::size_t begin_ = 0;
  bool is_closed_ = false;
};

}  // namespace peal::net
