// What a peer of the TCP transport may send after its connection was accepted: frames in pieces of any size, received by peek and release
// or straight into place. Every message must be the one that stands in the stream; the first wrong byte of a header ends the connection.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <transport/tcp.hpp>
#include <vector>

#include <transport/tcp_link.hpp>

namespace {

using namespace peal;
using namespace peal::transport;

constexpr std::size_t kMessageBytes = 16 * 1024;

/// The transport that the links of all inputs belong to: its listener is never connected to.
TcpTransport& owner() {
  static const std::unique_ptr<TcpListener> listener = [] {
    TcpListenerOptions options;
    auto address = net::Address::parse("127.0.0.1:0");
    if (!address) std::abort();
    options.address = *address;
    auto started = TcpListener::start(options);
    if (!started) std::abort();
    return std::move(*started);
  }();
  static const std::unique_ptr<TcpTransport> transport = [] {
    TcpOptions options;
    options.message_bytes = kMessageBytes;
    auto opened = TcpTransport::open(*listener, 1, 0, {listener->address(), listener->address()}, options);
    if (!opened) std::abort();
    return std::move(*opened);
  }();
  return *transport;
}

struct Expected {
  std::vector<std::uint8_t> payload;
  bool has_tag;
  Tag tag;
};

/// The messages of a stream, up to its end or its first wrong header.
std::vector<Expected> messages_of(const std::uint8_t* data, std::size_t size) {
  std::vector<Expected> all;
  TcpHeader header;
  for (std::uint32_t sequence = 0; size >= kTcpHeaderBytes; ++sequence) {
    std::memcpy(&header, data, kTcpHeaderBytes);
    if (header.magic != kTcpMagic || header.flags > kTcpHasTag || header.length > kMessageBytes || header.sequence != sequence) break;
    if (size - kTcpHeaderBytes < header.length) break;
    const std::uint8_t* payload = data + kTcpHeaderBytes;
    all.push_back({{payload, payload + header.length}, header.flags == kTcpHasTag, header.tag});
    data += kTcpHeaderBytes + header.length;
    size -= kTcpHeaderBytes + header.length;
  }
  return all;
}

void require(bool is_right) {
  if (!is_right) std::abort();
}

/// Takes one message if it is there; `in_place` by receive(), or, of an odd length, by receive_runs() into two.
bool take(Receiver& from, const Expected& expected, bool in_place, std::size_t room_bytes) {
  static std::byte room[kMessageBytes];
  if (in_place) {
    std::size_t got = 0;
    Tag tag;
    bool has_tag = false;
    if (const std::size_t bytes = expected.payload.size(); bytes % 2 == 1) {
      const Run runs[] = {{room, bytes / 3}, {room + bytes / 3, bytes - bytes / 3}};
      if (!from.receive_runs(runs, &got, &tag, &has_tag)) return false;
      room_bytes = bytes;
    } else if (!from.receive(room, room_bytes, &got, &tag, &has_tag)) {
      return false;
    }
    require(got == expected.payload.size() && has_tag == expected.has_tag && (!has_tag || tag == expected.tag));
    require(got > room_bytes || std::equal(expected.payload.begin(), expected.payload.end(), reinterpret_cast<const std::uint8_t*>(room)));
    return true;
  }
  const Message* message = from.peek();
  if (message == nullptr) return false;
  require(message->bytes == expected.payload.size() && (message->tag != nullptr) == expected.has_tag);
  require(message->tag == nullptr || *message->tag == expected.tag);
  require(std::equal(expected.payload.begin(), expected.payload.end(), reinterpret_cast<const std::uint8_t*>(message->data)));
  from.release();
  return true;
}

}  // namespace

// The first two bytes say how the rest is cut into pieces and received.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 100'000) return 0;
  const std::size_t piece = std::size_t{1} << (data[0] % 17);
  const std::uint8_t how = data[1];
  const std::size_t room_bytes = (how & 1) != 0 ? kMessageBytes : 100;
  data += 2;
  size -= 2;
  const std::vector<Expected> expected = messages_of(data, size);

  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  FileDescriptor peer(ends[1]);
  TcpLink link(owner(), 1, 0);
  link.attach(FileDescriptor(ends[0]), false, false);
  std::size_t taken = 0;
  // A long message is received by the same way from its first try to its last.
  const auto take_all = [&] {
    while (taken < expected.size() && take(link.receiver(), expected[taken], (how >> (1 + taken % 7) & 1) != 0, room_bytes)) ++taken;
  };
  while (size > 0) {
    const ssize_t sent = ::send(peer.get(), data, std::min(piece, size), MSG_NOSIGNAL);
    if (sent < 0) {  // nobody reads any more once every message is taken, and many small pieces fill a socket
      require(taken == expected.size());
      break;
    }
    data += sent;
    size -= static_cast<std::size_t>(sent);
    take_all();
  }
  take_all();
  require(taken == expected.size());
  require(link.receiver().peek() == nullptr);  // whatever follows is no message
  return 0;
}
