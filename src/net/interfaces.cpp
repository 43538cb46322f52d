#include <ifaddrs.h>
#include <net/if.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <net/interfaces.hpp>
#include <net/socket.hpp>

namespace peal::net {
namespace {

std::int64_t read_megabits(const std::string& name) {
  const std::string path = "/sys/class/net/" + name + "/speed";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  char text[32] = {};
  if (!file || std::fgets(text, sizeof(text), file.get()) == nullptr) return -1;
  long long value = -1;
  std::from_chars(text, text + sizeof(text), value);
  return value > 0 ? value : -1;
}

std::string describe(const std::vector<Interface>& all) {
  std::string out;
  for (const Interface& one : all) {
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {}{}", one.name, one.address.host(), one.is_up ? "" : " (down)");
  }
  return out.empty() ? "none" : out;
}

/// The address from which packets to `root` would leave. A UDP connect asks the routing table and sends nothing.
Result<Address> source_towards(const Address& root) {
  const FileDescriptor fd(::socket(root.data()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail(ErrorCode::system, "cannot open a socket to ask for the route to {}: {}", root.text(), errno_text(errno));
  const Address somewhere = root.with_port(root.port() == 0 ? 9 : root.port());
  if (::connect(fd.get(), somewhere.data(), somewhere.size()) != 0)
    return fail(ErrorCode::unreachable, "host unreachable: no route to {} ({})", root.host(), errno_text(errno));
  PEAL_ASSIGN(const Address source, local_address(fd.get()));
  return source.with_port(0);
}

Result<InterfaceChoice> choose_by_wish(std::string_view wish, const Address& root, const std::vector<Interface>& all) {
  const Interface* by_name = nullptr;
  for (const Interface& one : all) {
    if (one.address.host() == wish)
      return InterfaceChoice{one, fmt::format("{} ({}): PEAL_INTERFACE={} names this address", one.name, wish, wish)};
    if (one.name != wish) continue;
    const bool is_same_family = one.address.family() == root.family();
    if (by_name == nullptr || (is_same_family && by_name->address.family() != root.family())) by_name = &one;
  }
  if (by_name == nullptr)
    return fail(ErrorCode::invalid_argument, "PEAL_INTERFACE={} is neither an interface nor an address of this host; it has: {}", wish,
                describe(all));
  if (!by_name->is_up)
    return fail(ErrorCode::invalid_argument, "the interface {} of PEAL_INTERFACE is down; this host has: {}", wish, describe(all));
  if (root.is_ip() && by_name->address.family() != root.family())
    return fail(ErrorCode::invalid_argument,
                "the interface {} of PEAL_INTERFACE has no {} address, which the root {} needs; this host has: {}", wish,
                root.family() == Family::ipv4 ? "IPv4" : "IPv6", root.host(), describe(all));
  return InterfaceChoice{*by_name, fmt::format("{} ({}): PEAL_INTERFACE={} asks for it", by_name->name, by_name->address.host(), wish)};
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return fail(ErrorCode::system, "cannot list the network interfaces: {}", errno_text(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
  std::vector<Interface> out;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface one;
    one.name = at->ifa_name;
    one.address = Address::from_kernel(at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    one.is_up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_RUNNING) != 0;
    one.is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    one.megabits = read_megabits(one.name);
    out.push_back(std::move(one));
  }
  return out;
}

Result<InterfaceChoice> choose_interface(std::string_view wish, const Address& root) {
  PEAL_ASSIGN(const auto all, list_interfaces());
  if (!wish.empty()) return choose_by_wish(wish, root, all);
  if (!root.is_ip())
    return fail(ErrorCode::invalid_argument, "the root {} has no network address to look for a way to; set PEAL_INTERFACE to one of: {}",
                root.text(), describe(all));
  auto source = source_towards(root);
  if (!source)
    return fail(source.error().code, "{}; this host has: {}; give a root address that one of these reaches", source.error().message,
                describe(all));
  for (const Interface& one : all) {
    if (one.address.host() != source->host()) continue;
    // The host's own address is reached over lo, but its source is the address itself, so this names the real interface.
    if (one.is_loopback && !root.is_loopback()) break;
    const std::string why = root.host() == one.address.host()
                                ? fmt::format("{} ({}): it is the root's own address", one.name, one.address.host())
                                : fmt::format("{} ({}): the route to the root {} leaves by it", one.name, one.address.host(), root.host());
    return InterfaceChoice{one, why};
  }
  return fail(ErrorCode::unreachable, "the way to {} leaves from {}, which no interface has; set PEAL_INTERFACE to one of: {}", root.text(),
              source->host(), describe(all));
}

}  // namespace peal::net
