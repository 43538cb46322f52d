// Handing file descriptors to processes of the same user over Unix sockets (SCM_RIGHTS): how shared memory reaches its ranks.
#pragma once

#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <cstdint>
#include <string_view>

namespace peal::net {

/// Passes a duplicate of `fd`; the caller keeps its own.
Status send_descriptor(int unix_socket, int fd, std::int64_t deadline_ns);
/// Takes exactly one; anything else that comes is closed and refused.
Result<FileDescriptor> receive_descriptor(int unix_socket, std::int64_t deadline_ns);

/// Hands `fd` to exactly `receivers` connections of the same user that call take_descriptor(name), then closes the name.
/// Blocks; strangers of another user are turned away and not counted.
Status offer_descriptor(std::string_view name, int fd, int receivers, std::int64_t deadline_ns);
/// The same in two steps: after open_offer the name exists, so that it can be told to others before serving.
Result<FileDescriptor> open_offer(std::string_view name);
Status serve_offer(int offer, int fd, int receivers, std::int64_t deadline_ns);

/// Waits until somebody of the same user offers under `name`.
Result<FileDescriptor> take_descriptor(std::string_view name, std::int64_t deadline_ns);

}  // namespace peal::net
