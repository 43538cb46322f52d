// Pages of a caller's memory on their way into a socket, without a copy: through a pipe that holds references to them (vmsplice, splice).
// Whoever reads the other end of the socket copies them out of where they lie, as long as it is on this machine; so they must not change
// until it has said that it did.
#pragma once

#include <base/file_descriptor.hpp>
#include <cstddef>

namespace peal::transport {

/// One socket's; one thread at a time. Descriptors are opened at first use. It owns no memory: what is in the pipe or the socket stays the
/// caller's. The calling thread gets no SIGPIPE.
class PagePipe {
 public:
  /// Bytes of a message that has begun to go: [0, written) are in the socket, [written, lent) in the pipe.
  struct Progress {
    std::size_t written = 0;
    std::size_t lent = 0;
  };
  enum class Outcome {
    moved,    ///< all of it is in the socket
    full,     ///< the socket takes no more for now
    refused,  ///< these pages cannot be lent (`error` says why): [lent, bytes) are to be sent otherwise; nothing is left in the pipe
    lost,     ///< the connection broke (`error`)
  };

  /// As much as the socket takes of `bytes` at `data`, of which `progress` have gone or are in the pipe. One message at a time.
  Outcome move(int socket, const std::byte* data, std::size_t bytes, Progress& progress);
  /// errno of the last move() that was refused or lost.
  int error() const { return error_; }

 private:
  bool open();

  FileDescriptor out_, in_;
  std::size_t room_ = 0;
  int error_ = 0;
};

}  // namespace peal::transport
