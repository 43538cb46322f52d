#include "svg_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <base/svg.hpp>
#include <cmath>

namespace peal::topology {
namespace {

constexpr double kMargin = kSvgMargin;
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

}  // namespace

void SvgWire::add(const Graph& graph, const Link& link) {
  ++links;
  widest = {std::max(widest.value, link.total().value)};
  total.value += link.total().value;
  title = fmt::format("{} - {}: {} x{}, {:g} GB/s each way, {}", graph.device(link.a).id, graph.device(link.b).id, name_of(link.kind),
                      link.count, link.total().gigabytes(), link.source);
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
                          svg_escape(svg_fit(box.lines[i], box.width - 6, size, is_bold)));
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
  texts_ += svg_text(x, y, text, {.anchor = ends_there ? "end" : "start"});
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
  const std::string out = svg_page_start(width, height, title, lines);
  return out + wires_ + boxes_ + texts_ + key + "</svg>\n";
}

}  // namespace peal::topology
