// What every reader and writer of people's text needs: blanks, words, letters of one case, thousands. ASCII only; other bytes stay as they
// are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace peal {

/// Without blanks, tabs and ends of lines around it; points into `text`.
std::string_view trim(std::string_view text) noexcept;
std::string lower_case(std::string_view text);
/// Of a whole number's digits, a minus before them or none: "1234567" -> "1,234,567".
std::string with_commas(std::string digits);
/// Pieces between blanks, tabs and ends of lines, at most so many; they point into `text`.
std::vector<std::string_view> words_of(std::string_view text, std::size_t most = std::string_view::npos);

}  // namespace peal
