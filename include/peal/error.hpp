// What went wrong, at the C++ surface: peal::Error carries a code, who saw it, and in which operation.
#pragma once

#include <cstdint>
#include <peal/export.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace peal {

/// Kind of failure. The text of an Error says what happened, where, the likely cause and what to type.
enum class ErrorCode : std::uint8_t {
  ok = 0,
  invalid_argument,  ///< a bad value from the caller; nothing was sent
  unsupported,       ///< a combination that Peal refuses (a table in the guide says which)
  mismatch,          ///< ranks called different collectives, types, counts or roots
  rank_dead,         ///< a rank of the communicator ended
  rank_stopped,      ///< a rank of the communicator is stopped (SIGSTOP, debugger)
  timeout,           ///< the user's deadline passed
  aborted,           ///< somebody called abort()
  unreachable,       ///< an address could not be connected to, or a rank never came
  refused,           ///< authentication or wire version refused
  system,            ///< the operating system refused something (errno in the text)
  corrupt,           ///< a file or frame that does not parse
  internal,          ///< a bug in Peal: please report it
};

/// Stable lower-case name of `code`, as used in JSON ("rank_dead").
PEAL_API const char* name_of(ErrorCode code) noexcept;

/// Thrown by the C++ surface. `rank()` is the culprit where one is known, else -1.
class PEAL_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what, int rank = -1, int peer = -1, std::string operation = {})
      : std::runtime_error(what), code_(code), rank_(rank), peer_(peer), operation_(std::move(operation)) {}
  ErrorCode code() const noexcept { return code_; }
  /// Rank that failed (dead, stopped, mismatched, absent), or -1.
  int rank() const noexcept { return rank_; }
  /// Rank on the other side where two are involved, or -1.
  int peer() const noexcept { return peer_; }
  /// Name of the operation that saw it ("all_reduce"), or empty.
  const std::string& operation() const noexcept { return operation_; }

 private:
  ErrorCode code_;
  int rank_;
  int peer_;
  std::string operation_;
};

}  // namespace peal
