// Where a socket is: IPv4, IPv6 or a name in Linux's abstract Unix namespace, to and from text.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <base/result.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace peal::net {

enum class Family : std::uint8_t { none, ipv4, ipv6, unix_name };

/// A value: copies freely, compares by what it names. A default one names nothing.
/// Text forms: "10.0.0.1:29500", "[::1]:5000", "[fe80::1%eth0]:5000", "unix:NAME" (abstract: no file, gone with the last socket,
/// private to one network namespace).
class Address {
 public:
  Address() = default;

  /// Numbers only: never asks a name server, never blocks.
  static Result<Address> parse(std::string_view text);
  /// As `parse`, and "host:port" with a name that getaddrinfo looks up (may block for seconds). The first answer wins.
  static Result<Address> resolve(std::string_view text);
  /// 1 to 100 printable bytes without spaces.
  static Result<Address> unix_name(std::string_view name);
  static Address loopback_v4(std::uint16_t port);
  static Address loopback_v6(std::uint16_t port);
  /// What the kernel handed out. An unnamed Unix peer gives a default Address.
  static Address from_kernel(const sockaddr* address, socklen_t size);

  Family family() const;
  bool is_unix() const { return family() == Family::unix_name; }
  bool is_ip() const { return family() == Family::ipv4 || family() == Family::ipv6; }
  bool is_loopback() const;    ///< 127/8 or ::1
  bool is_any() const;         ///< 0.0.0.0 or ::
  std::uint16_t port() const;  ///< 0 for a Unix name
  std::string host() const;    ///< "10.0.0.1", "::1", "NAME"
  std::string text() const;    ///< the form that `parse` reads; "nowhere" for a default one
  Address with_port(std::uint16_t port) const;

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  bool operator==(const Address& other) const { return text() == other.text(); }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// True when a and b name the same host, whatever the ports.
bool is_same_host(const Address& a, const Address& b);

}  // namespace peal::net
