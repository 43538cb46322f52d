// A stranger who may send anything, in pieces of any size, to the accepting side: it must never be accepted without the key,
// never read past a message, and come to an end.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <net/handshake.hpp>
#include <net/socket.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using peal::net::AcceptorHandshake;
  if (size == 0) return 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  static const peal::net::Key key = peal::net::make_key();
  const peal::net::Party mine{peal::net::Role::root, 0, 4, 42};
  AcceptorHandshake handshake(key, mine, "fuzz", peal::net::deadline_in(60));
  const std::size_t piece = 1 + data[0] % 97;
  const std::size_t total = std::min<std::size_t>(size, 4096);
  for (std::size_t at = 1; at < total && handshake.state() == AcceptorHandshake::State::in_progress; at += piece) {
    (void)peal::net::send_now(ends[0], data + at, std::min(piece, total - at));
    handshake.advance(ends[1]);
  }
  ::close(ends[0]);
  if (handshake.advance(ends[1]) != AcceptorHandshake::State::refused || handshake.is_proven()) std::abort();
  ::close(ends[1]);
  return 0;
}
