// What all pictures that Peal draws have in common: text in SVG, the frame of a page. Pure functions; elements end with a newline.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace peal {

/// Text as it may stand in SVG; control characters become spaces.
std::string svg_escape(std::string_view text);
/// Pixels that a text takes at a font size, estimated from above.
double svg_text_width(std::string_view text, double font_size, bool is_bold = false);
/// Text cut to what fits; never in the middle of a UTF-8 letter.
std::string svg_fit(std::string_view text, double width, double font_size, bool is_bold = false);

struct SvgText {
  double size = 12;
  bool is_bold = false;
  const char* colour = "#455a64";
  const char* anchor = "start";  ///< "start", "middle", "end"
};
std::string svg_text(double x, double y, std::string_view text, const SvgText& look = {});
/// `title` is shown when the pointer rests on it.
std::string svg_rect(double x, double y, double width, double height, std::string_view colour, std::string_view title = {});
std::string svg_stroke(double x1, double y1, double x2, double y2, std::string_view colour, double width = 1);

/// The start of a page with its title, and lines of words below it; a page ends with "</svg>\n".
std::string svg_page_start(double width, double height, std::string_view title, std::span<const std::string> lines);
inline constexpr double kSvgMargin = 24;
/// Where a page's content may begin below so many lines.
constexpr double svg_content_top(std::size_t lines) { return 52 + 18 * static_cast<double>(lines); }

}  // namespace peal
