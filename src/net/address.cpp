#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <net/address.hpp>
#include <optional>

namespace peal::net {
namespace {

constexpr std::size_t kMaxUnixName = 100;
constexpr std::size_t kMaxHostText = 255;

struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
  bool has_brackets = false;
};

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 80)) out.push_back(c >= ' ' && c < 127 ? c : '?');
  if (text.size() > 80) out += "...";
  return out;
}

auto not_an_address(std::string_view text, std::string_view why) {
  return fail(ErrorCode::invalid_argument, "\"{}\" is not an address: {}; write 10.0.0.1:29500, [::1]:29500, host:29500 or unix:NAME",
              shown(text), why);
}

Result<HostAndPort> split(std::string_view text) {
  HostAndPort out;
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return not_an_address(text, "the bracket is not closed");
    out.host = text.substr(1, end - 1);
    out.has_brackets = true;
    if (text.size() < end + 2 || text[end + 1] != ':') return not_an_address(text, "there is no :PORT after the bracket");
    port = text.substr(end + 2);
  } else {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) return not_an_address(text, "there is no :PORT");
    if (text.find(':') != colon) return not_an_address(text, "an IPv6 address needs brackets, as in [::1]:29500");
    out.host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (out.host.empty()) return not_an_address(text, "the host is empty");
  if (out.host.size() > kMaxHostText) return not_an_address(text, "the host is too long");
  unsigned value = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (error != std::errc() || end != port.data() + port.size() || value > 65535)
    return not_an_address(text, "the port is not a number from 0 to 65535");
  out.port = static_cast<std::uint16_t>(value);
  return out;
}

template <class Sockaddr>
Address wrap(const Sockaddr& address) {
  return Address::from_kernel(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

std::optional<Address> parse_v4(const HostAndPort& in) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(in.port);
  if (inet_pton(AF_INET, in.host.c_str(), &v4.sin_addr) != 1) return std::nullopt;
  return wrap(v4);
}

std::optional<Address> parse_v6(const HostAndPort& in) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(in.port);
  std::string host = in.host;
  if (const auto percent = host.find('%'); percent != std::string::npos) {
    const std::string scope = host.substr(percent + 1);
    host.resize(percent);
    v6.sin6_scope_id = if_nametoindex(scope.c_str());
    if (v6.sin6_scope_id == 0) std::from_chars(scope.data(), scope.data() + scope.size(), v6.sin6_scope_id);
    if (v6.sin6_scope_id == 0) return std::nullopt;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  return wrap(v6);
}

std::optional<Address> parse_numbers(const HostAndPort& in) { return in.has_brackets ? parse_v6(in) : parse_v4(in); }

template <class Sockaddr>
Sockaddr read_as(const sockaddr* data) {
  Sockaddr out;
  std::memcpy(&out, data, sizeof(out));
  return out;
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  if (text.starts_with("unix:")) return unix_name(text.substr(5));
  PEAL_ASSIGN(const HostAndPort parts, split(text));
  if (auto found = parse_numbers(parts)) return *found;
  return not_an_address(text, "the host is not a number");
}

Result<Address> Address::resolve(std::string_view text) {
  if (text.starts_with("unix:")) return unix_name(text.substr(5));
  PEAL_ASSIGN(const HostAndPort parts, split(text));
  if (auto found = parse_numbers(parts)) return *found;
  if (parts.has_brackets) return not_an_address(text, "what stands in brackets is not an IPv6 address");
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(parts.host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  if (error != 0 || found == nullptr)
    return fail(ErrorCode::unreachable, "host \"{}\" is not known here ({}): check the name, or write the numeric address",
                shown(parts.host), error == EAI_SYSTEM ? errno_text(errno) : gai_strerror(error));
  return from_kernel(found->ai_addr, found->ai_addrlen).with_port(parts.port);
}

Result<Address> Address::unix_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxUnixName)
    return fail(ErrorCode::invalid_argument, "a Unix name has 1 to {} bytes, \"{}\" has {}", kMaxUnixName, shown(name), name.size());
  for (const char c : name)
    if (c <= ' ' || c >= 127)
      return fail(ErrorCode::invalid_argument, "a Unix name has printable letters and no spaces: \"{}\"", shown(name));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return from_kernel(reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

Address Address::loopback_v4(std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return wrap(v4);
}

Address Address::loopback_v6(std::uint16_t port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  v6.sin6_addr = in6addr_loopback;
  return wrap(v6);
}

Address Address::from_kernel(const sockaddr* address, socklen_t size) {
  Address out;
  if (address == nullptr || size < sizeof(sa_family_t) || size > sizeof(out.storage_)) return out;
  sa_family_t family;
  std::memcpy(&family, address, sizeof(family));
  const bool is_whole = (family == AF_INET && size >= sizeof(sockaddr_in)) || (family == AF_INET6 && size >= sizeof(sockaddr_in6)) ||
                        (family == AF_UNIX && size > offsetof(sockaddr_un, sun_path) + 1);
  if (!is_whole) return out;
  std::memcpy(&out.storage_, address, size);
  out.size_ = size;
  // Path names are not abstract names; Peal makes none, so a path counts as nowhere.
  if (family == AF_UNIX && read_as<sockaddr_un>(out.data()).sun_path[0] != 0) return Address();
  return out;
}

Family Address::family() const {
  if (size_ == 0) return Family::none;
  switch (storage_.ss_family) {
    case AF_INET: return Family::ipv4;
    case AF_INET6: return Family::ipv6;
    case AF_UNIX: return Family::unix_name;
    default: return Family::none;
  }
}

bool Address::is_loopback() const {
  if (family() == Family::ipv4) return (ntohl(read_as<sockaddr_in>(data()).sin_addr.s_addr) >> 24) == 127;
  if (family() != Family::ipv6) return false;
  const auto v6 = read_as<sockaddr_in6>(data());
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool Address::is_any() const {
  if (family() == Family::ipv4) return read_as<sockaddr_in>(data()).sin_addr.s_addr == htonl(INADDR_ANY);
  if (family() != Family::ipv6) return false;
  const auto v6 = read_as<sockaddr_in6>(data());
  return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

std::uint16_t Address::port() const {
  if (family() == Family::ipv4) return ntohs(read_as<sockaddr_in>(data()).sin_port);
  if (family() == Family::ipv6) return ntohs(read_as<sockaddr_in6>(data()).sin6_port);
  return 0;
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = {};
  switch (family()) {
    case Family::ipv4: {
      const auto v4 = read_as<sockaddr_in>(data());
      inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
      return text;
    }
    case Family::ipv6: {
      const auto v6 = read_as<sockaddr_in6>(data());
      inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
      char scope[IF_NAMESIZE] = {};
      if (v6.sin6_scope_id == 0) return text;
      if (if_indextoname(v6.sin6_scope_id, scope) == nullptr) return fmt::format("{}%{}", text, v6.sin6_scope_id);
      return fmt::format("{}%{}", text, scope);
    }
    case Family::unix_name: {
      const auto address = read_as<sockaddr_un>(data());
      return std::string(address.sun_path + 1, size_ - offsetof(sockaddr_un, sun_path) - 1);
    }
    case Family::none: break;
  }
  return "nowhere";
}

std::string Address::text() const {
  switch (family()) {
    case Family::ipv4: return fmt::format("{}:{}", host(), port());
    case Family::ipv6: return fmt::format("[{}]:{}", host(), port());
    case Family::unix_name: return "unix:" + host();
    case Family::none: break;
  }
  return "nowhere";
}

Address Address::with_port(std::uint16_t port) const {
  Address out = *this;
  if (family() == Family::ipv4) {
    auto v4 = read_as<sockaddr_in>(data());
    v4.sin_port = htons(port);
    std::memcpy(&out.storage_, &v4, sizeof(v4));
  } else if (family() == Family::ipv6) {
    auto v6 = read_as<sockaddr_in6>(data());
    v6.sin6_port = htons(port);
    std::memcpy(&out.storage_, &v6, sizeof(v6));
  }
  return out;
}

bool is_same_host(const Address& a, const Address& b) { return a.family() == b.family() && a.host() == b.host(); }

}  // namespace peal::net
