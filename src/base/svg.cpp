#include <fmt/format.h>

#include <algorithm>
#include <base/svg.hpp>

namespace peal {
namespace {

bool is_tail(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

constexpr const char* kInk = "#263238";

}  // namespace

std::string svg_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

double svg_text_width(std::string_view text, double font_size, bool is_bold) {
  const auto letters = std::count_if(text.begin(), text.end(), [](char c) { return !is_tail(c); });
  return static_cast<double>(letters) * font_size * (is_bold ? 0.66 : 0.6);
}

std::string svg_fit(std::string_view text, double width, double font_size, bool is_bold) {
  std::string cut(text);
  if (svg_text_width(cut, font_size, is_bold) <= width) return cut;
  while (cut.size() > 1 && svg_text_width(cut, font_size, is_bold) + font_size > width) {
    cut.pop_back();
    while (!cut.empty() && is_tail(cut.back())) cut.pop_back();
    if (!cut.empty() && static_cast<unsigned char>(cut.back()) >= 0xC0) cut.pop_back();
  }
  return cut + "…";
}

std::string svg_text(double x, double y, std::string_view text, const SvgText& look) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\"{}{} fill=\"{}\">{}</text>\n", x, y, look.size,
                     look.is_bold ? " font-weight=\"bold\"" : "",
                     std::string_view(look.anchor) == "start" ? "" : fmt::format(" text-anchor=\"{}\"", look.anchor), look.colour,
                     svg_escape(text));
}

std::string svg_rect(double x, double y, double width, double height, std::string_view colour, std::string_view title) {
  const std::string shape =
      fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"", x, y, width, height, colour);
  return title.empty() ? shape + "/>\n" : fmt::format("{}><title>{}</title></rect>\n", shape, svg_escape(title));
}

std::string svg_stroke(double x1, double y1, double x2, double y2, std::string_view colour, double width) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:g}\"/>\n", x1, y1, x2,
                     y2, colour, width);
}

std::string svg_page_start(double width, double height, std::string_view title, std::span<const std::string> lines) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  out += svg_text(kSvgMargin, 34, title, {.size = 20, .is_bold = true, .colour = kInk});
  for (std::size_t i = 0; i < lines.size(); ++i) out += svg_text(kSvgMargin, 54 + 18 * static_cast<double>(i), lines[i]);
  return out;
}

}  // namespace peal
