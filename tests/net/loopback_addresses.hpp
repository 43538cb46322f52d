// Addresses of this host where nobody listens.
#pragma once

#include <unistd.h>

#include <atomic>
#include <base/clock.hpp>
#include <net/address.hpp>
#include <string>
#include <string_view>

namespace peal::net::test {

/// "v4" and "v6" with port 0 (the kernel chooses), "unix" with a name of this process.
inline Address free_address(std::string_view kind) {
  static std::atomic<int> count{0};
  if (kind == "v4") return Address::loopback_v4(0);
  if (kind == "v6") return Address::loopback_v6(0);
  return *Address::unix_name(fmt::format("peal-test-{}-{}-{}", getpid(), now_ns(), count.fetch_add(1)));
}

}  // namespace peal::net::test
