#include <net/frame.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>

namespace peal::net {
namespace {

constexpr std::size_t kReadAtOnce = 16 * 1024;

}  // namespace

std::array<std::uint8_t, kFrameHeaderBytes> encode(const FrameHeader& header) {
  std::array<std::uint8_t, kFrameHeaderBytes> out{};
  const std::string bytes = WireWriter().u32(kFrameMagic).u32(header.type).u32(header.bytes).u32(0).bytes();
  std::memcpy(out.data(), bytes.data(), out.size());
  return out;
}

Result<FrameHeader> parse_frame_header(std::span<const std::uint8_t, kFrameHeaderBytes> bytes, std::size_t max_bytes) {
  WireReader reader{std::span<const std::uint8_t>(bytes)};
  const std::uint32_t magic = reader.u32();
  FrameHeader header;
  header.type = reader.u32();
  header.bytes = reader.u32();
  const std::uint32_t reserved = reader.u32();
  if (magic != kFrameMagic || reserved != 0)
    return fail(ErrorCode::corrupt, "these bytes are not a frame of Peal (magic {:08x}, reserved {:08x})", magic, reserved);
  if (header.bytes > max_bytes)
    return fail(ErrorCode::corrupt, "a frame of type {} announces {} bytes, the limit is {}", header.type, header.bytes, max_bytes);
  return header;
}

Result<std::optional<ParsedFrame>> parse_frame(std::span<const std::uint8_t> buffer, std::size_t max_bytes) {
  if (buffer.size() < kFrameHeaderBytes) return std::optional<ParsedFrame>();
  PEAL_ASSIGN(const FrameHeader header, parse_frame_header(buffer.first<kFrameHeaderBytes>(), max_bytes));
  if (buffer.size() - kFrameHeaderBytes < header.bytes) return std::optional<ParsedFrame>();
  return std::optional(ParsedFrame{header.type, buffer.subspan(kFrameHeaderBytes, header.bytes), kFrameHeaderBytes + header.bytes});
}

std::string frame_bytes(std::uint32_t type, std::string_view payload) {
  const auto header = encode(FrameHeader{type, static_cast<std::uint32_t>(payload.size())});
  std::string out;
  out.reserve(header.size() + payload.size());
  out.append(reinterpret_cast<const char*>(header.data()), header.size());
  out.append(payload);
  return out;
}

Status send_frame(int fd, std::uint32_t type, std::string_view payload, std::int64_t deadline_ns) {
  const std::string bytes = frame_bytes(type, payload);
  return send_all(fd, bytes.data(), bytes.size(), deadline_ns);
}

Result<std::optional<Frame>> FrameReader::take() {
  const std::span<const std::uint8_t> whole(reinterpret_cast<const std::uint8_t*>(buffer_.data()) + begin_, buffer_.size() - begin_);
  PEAL_ASSIGN(const auto found, parse_frame(whole, max_bytes_));
  if (!found) return std::optional<Frame>();
  Frame frame{found->type, std::string(reinterpret_cast<const char*>(found->payload.data()), found->payload.size())};
  begin_ += found->consumed;
  if (begin_ == buffer_.size()) {
    buffer_ = {};
    begin_ = 0;
  }
  return std::optional(std::move(frame));
}

Result<std::optional<Frame>> FrameReader::next(int fd) {
  for (;;) {
    PEAL_ASSIGN(auto ready, take());
    if (ready || is_closed_) return ready;
    if (begin_ != 0) buffer_.erase(0, begin_);
    begin_ = 0;
    // By way of the stack: a hub has a reader for every rank, asks all of them often, and keeps them for as long as the job lasts.
    char read[kReadAtOnce];
    const auto moved = recv_now(fd, read, sizeof read);
    if (!moved) return pass_on(moved.error());
    buffer_.append(read, moved->bytes);
    if (moved->closed) is_closed_ = true;
    if (moved->bytes == 0) return std::optional<Frame>();
  }
}

Result<Frame> FrameReader::wait(int fd, std::int64_t deadline_ns) {
  for (;;) {
    PEAL_ASSIGN(auto frame, next(fd));
    if (frame) return std::move(*frame);
    if (is_closed_) return fail(ErrorCode::unreachable, "the other side has closed the connection");
    PEAL_TRY(wait_readable(fd, deadline_ns));
  }
}

}  // namespace peal::net
