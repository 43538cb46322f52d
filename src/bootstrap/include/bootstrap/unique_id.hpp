// A job in 128 bytes: the name where ranks meet, a random key and a job id. For ranks that are threads of one process, forked
// children, or anything that can hand 128 bytes to every rank by a private way: whoever has the bytes can join.
#pragma once

#include <array>
#include <base/result.hpp>
#include <bootstrap/job.hpp>
#include <cstddef>
#include <cstdint>
#include <net/address.hpp>
#include <span>

namespace peal::bootstrap {

inline constexpr std::size_t kUniqueIdBytes = 128;

/// Plain bytes, to be copied as they are.
struct UniqueId {
  std::array<std::uint8_t, kUniqueIdBytes> bytes{};
};

/// For ranks of one host: they meet on a fresh abstract Unix name.
UniqueId make_unique_id();
/// For ranks of several hosts: rank 0 will listen on `root`, which must be an address of its host with a free port.
Result<UniqueId> make_unique_id(const net::Address& root);

/// The job of one rank. `corrupt` when the bytes are not those of a UniqueId.
Result<Job> job_from_unique_id(const UniqueId& id, int rank, int size);

}  // namespace peal::bootstrap
