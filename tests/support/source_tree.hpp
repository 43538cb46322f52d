/// Where the tests find their own files.
#pragma once

#include <string>
#include <string_view>

namespace peal::test {

/// The path of a file or folder of the checkout, given from its top: "tests/golden/x.txt".
std::string in_source(std::string_view path);

}  // namespace peal::test
