// An option of a socket, and what is said where it is refused. Private to this room.
#pragma once

#include <base/result.hpp>

namespace peal::net {

/// socket_options.cpp. `what` is the option's name.
Status set_option(int fd, int level, int name, int value, const char* what);

}  // namespace peal::net
