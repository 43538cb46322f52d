#include "svg_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace peal::topology {
namespace {

constexpr double kMargin = 24;
constexpr double kNarrowest = 600;

struct Style {
  const char* fill;
  const char* line;
};

Style style_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu: return {"#e3f4d7", "#4b8a1f"};
    case DeviceKind::nvswitch: return {"#c9ecad", "#3c7016"};
    case DeviceKind::nic: return {"#fde6cf", "#c96a12"};
    case DeviceKind::net_switch: return {"#fbd3ab", "#a85608"};
    case DeviceKind::pcie_switch: return {"#dbe9fb", "#2f6fbf"};
    case DeviceKind::core: return {"#f1e4fa", "#7b3fa8"};
    case DeviceKind::memory: return {"#fdf3c4", "#a08a13"};
    case DeviceKind::loopback: return {"#fbe0e4", "#b8324a"};
    default: return {"#eceff1", "#546e7a"};
  }
}

const char* colour_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return "#76b900";
    case LinkKind::c2c: return "#00897b";
    case LinkKind::xgmi: return "#d0343c";
    case LinkKind::pcie: return "#2f6fbf";
    case LinkKind::sys: return "#78909c";
    case LinkKind::shm: return "#7b3fa8";
    case LinkKind::memory: return "#a08a13";
    case LinkKind::loopback: return "#b8324a";
    case LinkKind::infiniband: return "#c96a12";
    case LinkKind::ethernet: return "#6d4c41";
    case LinkKind::hccs: return "#ad1457";
    default: return "#37474f";
  }
}

/// 1 px at 1 GB/s or less, 8 px at 512 GB/s: the eye compares factors, not differences.
double width_of(double gigabytes) { return std::clamp(1 + std::log2(std::max(gigabytes, 1.0)) * 7 / 9, 1.0, 8.0); }

/// Text cut to what fits; never in the middle of a UTF-8 letter.
std::string fit(const std::string& text, double width, double font_size, bool is_bold) {
  if (svg_text_width(text, font_size, is_bold) <= width) return text;
  std::string cut = text;
  while (cut.size() > 1 && svg_text_width(cut, font_size, is_bold) + font_size > width) {
    cut.pop_back();
    while (!cut.empty() && (static_cast<unsigned char>(cut.back()) & 0xC0) == 0x80) cut.pop_back();
    if (!cut.empty() && static_cast<unsigned char>(cut.back()) >= 0xC0) cut.pop_back();
  }
  return cut + "…";
}

}  // namespace

double svg_text_width(const std::string& text, double font_size, bool is_bold) {
  const auto letters = std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return static_cast<double>(letters) * font_size * (is_bold ? 0.66 : 0.6);
}

void SvgWire::add(const Graph& graph, const Link& link) {
  ++links;
  widest = {std::max(widest.value, link.total().value)};
  total.value += link.total().value;
  title = fmt::format("{} - {}: {} x{}, {:g} GB/s each way, {}", graph.device(link.a).id, graph.device(link.b).id, name_of(link.kind),
                      link.count, link.total().gigabytes(), link.source);
}

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

std::string svg_line(double x1, double y1, double x2, double y2) { return fmt::format("M{:.1f},{:.1f} L{:.1f},{:.1f}", x1, y1, x2, y2); }

std::string svg_arc(double x1, double y1, double x2, double y2, double rise) {
  // A cubic whose inner points are at height h has its middle at three quarters of h.
  const double y = (rise > 0 ? std::min(y1, y2) : std::max(y1, y2)) - rise * 4 / 3;
  return fmt::format("M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", x1, y1, x1 + (x2 - x1) * 0.1, y, x2 - (x2 - x1) * 0.1, y,
                     x2, y2);
}

void SvgPage::add(const SvgBox& box) {
  const Style style = style_of(box.kind);
  boxes_ += fmt::format(
      "<g data-hidden-links=\"{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"5\" "
      "fill=\"{}\" "
      "stroke=\"{}\" stroke-width=\"1.5\"{}/>",
      box.hidden_links, svg_escape(box.title), box.x - box.width / 2, box.top(), box.width, box.height, style.fill, style.line,
      box.is_folded ? " stroke-dasharray=\"5 3\"" : "");
  double y = box.y - 7.0 * static_cast<double>(box.lines.size()) + 10.5;
  for (std::size_t i = 0; i < box.lines.size(); ++i) {
    const bool is_bold = i == 0;
    const double size = is_bold ? 13 : 10;
    boxes_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\"{} text-anchor=\"middle\" fill=\"{}\">{}</text>", box.x, y,
                          size, is_bold ? " font-weight=\"bold\"" : "", is_bold ? "#263238" : "#546e7a",
                          svg_escape(fit(box.lines[i], box.width - 6, size, is_bold)));
    y += 14;
  }
  boxes_ += "</g>\n";
  has_folded_ = has_folded_ || box.is_folded;
}

void SvgPage::add(const SvgWire& wire, const std::string& path) {
  double& widest = widest_[wire.kind];
  widest = std::max(widest, wire.widest.gigabytes());
  wires_ += fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-opacity=\"0.6\"{} "
      "data-links=\"{}\"><title>{}</title></path>\n",
      path, colour_of(wire.kind), width_of(wire.widest.gigabytes()), wire.is_folded ? " stroke-dasharray=\"8 4\"" : "", wire.links,
      svg_escape(wire.title));
}

void SvgPage::add_text(double x, double y, const std::string& text, bool ends_there) {
  texts_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"12\"{} fill=\"#455a64\">{}</text>\n", x, y,
                        ends_there ? " text-anchor=\"end\"" : "", svg_escape(text));
}

std::string SvgPage::legend(double y, double width, double& height) const {
  std::string out;
  double x = kMargin;
  height = 24;
  const auto entry = [&](const std::string& mark, const std::string& text) {
    const double indent = mark.empty() ? 0 : 42;
    const double length = indent + svg_text_width(text, 12, false) + 20;
    if (x > kMargin && x + length > width) {
      x = kMargin;
      height += 20;
    }
    out += fmt::format(
        "<g transform=\"translate({:.1f},{:.1f})\">{}<text x=\"{:g}\" y=\"4\" font-size=\"12\" fill=\"#263238\">{}</text></g>\n", x,
        y + height - 24, mark, indent, svg_escape(text));
    x += length;
  };
  for (const auto& [kind, widest] : widest_) {
    entry(fmt::format("<line x1=\"0\" y1=\"0\" x2=\"34\" y2=\"0\" stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-opacity=\"0.6\"/>",
                      colour_of(kind), width_of(widest)),
          fmt::format("{} up to {:g} GB/s", name_of(kind), std::round(widest * 100) / 100));
  }
  if (has_folded_)
    entry("<line x1=\"0\" y1=\"0\" x2=\"34\" y2=\"0\" stroke=\"#546e7a\" stroke-width=\"2\" stroke-dasharray=\"5 3\"/>",
          "folded: stands for several like those beside it");
  if (!widest_.empty()) entry("", "widths by GB/s of one bundle, one direction");
  return out;
}

std::string SvgPage::finish(const std::string& title, const std::vector<std::string>& lines, double right, double bottom) const {
  double width = std::max({kNarrowest, right + kMargin, 2 * kMargin + svg_text_width(title, 20, true)});
  for (const std::string& line : lines) width = std::max(width, 2 * kMargin + svg_text_width(line, 12, false));
  double legend_height = 0;
  const std::string key = legend(bottom + 30, width - kMargin, legend_height);
  const double height = bottom + 30 + legend_height;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  out += fmt::format("<text x=\"{:.0f}\" y=\"34\" font-size=\"20\" font-weight=\"bold\" fill=\"#263238\">{}</text>\n", kMargin,
                     svg_escape(title));
  for (std::size_t i = 0; i < lines.size(); ++i)
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"12\" fill=\"#455a64\">{}</text>\n", kMargin,
                       54 + 18 * static_cast<double>(i), svg_escape(lines[i]));
  return out + wires_ + boxes_ + texts_ + key + "</svg>\n";
}

}  // namespace peal::topology
