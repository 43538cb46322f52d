#include <base/partial_sums.hpp>

namespace peal {

Result<bool> parse_partial_sums(std::string_view text) {
  if (text == "f32") return true;
  if (text == "element") return false;
  return fail(ErrorCode::invalid_argument, "partial sums cannot travel as \"{}\"; type element (their own type) or f32",
              text.substr(0, 64));
}

}  // namespace peal
