// What a rank must know to find the others: read from the launcher's environment (Peal's own, torchrun's, Open MPI's).
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <net/address.hpp>
#include <net/handshake.hpp>
#include <net/key.hpp>
#include <optional>
#include <string>

namespace peal::bootstrap {

struct Job {
  int rank = 0;
  int size = 1;
  int local_rank = -1;          ///< rank among those of this host, -1 unknown
  int local_size = -1;          ///< ranks of this host, -1 unknown
  int hub = 0;                  ///< rank in the middle of the star
  net::Address root;            ///< where the hub listens; a Unix name when all ranks are on one host; none for a single rank
  std::optional<net::Key> key;  ///< always there when root is TCP
  std::uint64_t job_id = 0;
  std::string launcher;  ///< "peal", "torchrun", "openmpi", "single", "unique_id"
  double start_timeout_s = 60;
  std::uint32_t wire_version = net::kWireVersion;  ///< tests set another
  std::string explanation;                         ///< one line for people: who said what
};

/// Precedence: PEAL_RANK and PEAL_SIZE, then torchrun's RANK and WORLD_SIZE, then Open MPI's; none of them: rank 0 of 1.
/// PEAL_ROOT, PEAL_KEY_FILE, PEAL_JOB and PEAL_START_TIMEOUT refine each. May ask a name server.
/// Contradictions give `invalid_argument` with one sentence; several hosts without a key give `refused`.
Result<Job> job_from_environment();

/// The rules that every job must keep, whoever made it (rank and hub below size, a root, a key for TCP).
Status check(const Job& job);

}  // namespace peal::bootstrap
