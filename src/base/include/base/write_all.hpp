// Everything, to a file that is open.
#pragma once

#include <base/result.hpp>
#include <cstddef>
#include <string_view>

namespace peal {

/// Writes all bytes from where the descriptor stands, however many calls that takes, and through signals. `what` names the file in the
/// sentence of a failure: "cannot write WHAT: No space left on device". Part of them may have been written then.
Status write_all(int file, const void* data, std::size_t bytes, std::string_view what);

}  // namespace peal
