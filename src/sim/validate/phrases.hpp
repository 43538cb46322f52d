// Pieces of what people write in tables, in lower case.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peal::sim {

std::string lower_case(std::string_view text);
std::string_view trim(std::string_view text);
/// Pieces at blanks.
std::vector<std::string> words_of(std::string_view text);
/// Pieces at ";", ", " and " and "; a comma without a blank behind it divides settings ("A=1,B=2"), not values ("A=1,2").
std::vector<std::string> phrases_of(std::string_view text);
/// "8", "one", "single"; at most a million.
std::optional<int> count_of(std::string_view word);
/// "a node", "per node", "each": words that say of what something is counted.
bool is_filler(std::string_view word);

}  // namespace peal::sim
