#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <base/svg.hpp>
#include <base/svg_axis.hpp>
#include <base/units.hpp>
#include <cmath>
#include <sim/pictures.hpp>

namespace peal::sim {
namespace {

constexpr double kAxisWidth = 90;
constexpr double kPlotWidth = 760;
constexpr double kHeight = 400;
constexpr double kLegendRow = 20;
constexpr int kMostLabels = 16;

// M. Okabe and K. Ito, Color Universal Design, 2008; after eight the dashes change.
constexpr std::array<const char*, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"};
constexpr std::array<const char*, 3> kDashes{"", "7 3", "2 3"};

struct Frame {
  double top = 0;
  double first = 0;  // log2 of the smallest size
  double last = 0;
  double most = 0;  // GB/s

  double x(double bytes) const {
    return last > first ? kAxisWidth + (std::log2(bytes) - first) / (last - first) * kPlotWidth : kAxisWidth + kPlotWidth / 2;
  }
  double y(double rate) const { return top + kHeight * (1 - rate / most); }
  double bottom() const { return top + kHeight; }
};

const char* colour_of(std::size_t s) { return kColours[s % kColours.size()]; }
const char* dash_of(std::size_t s) { return kDashes[s / kColours.size() % kDashes.size()]; }

/// "64 KiB", short enough for an axis: "64K".
std::string size_label(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"", "K", "M", "G", "T"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:g}{}", bytes, kUnits[unit]);
}

std::string axes(const Frame& frame, const std::vector<double>& rates) {
  std::string out;
  for (double rate : rates) {
    out += svg_stroke(kAxisWidth, frame.y(rate), kAxisWidth + kPlotWidth, frame.y(rate), rate > 0 ? "#e0e0e0" : "#455a64");
    out += svg_text(kAxisWidth - 8, frame.y(rate) + 4, fmt::format("{:g}", rate), {.anchor = "end"});
  }
  const int from = static_cast<int>(std::ceil(frame.first - 1e-9));
  const int to = static_cast<int>(std::floor(frame.last + 1e-9));
  const int every = std::max(1, (to - from) / kMostLabels + 1);
  for (int power = from; power <= to; ++power) {
    const double x = frame.x(std::exp2(power));
    out += svg_stroke(x, frame.bottom(), x, frame.bottom() + 5, "#455a64");
    if ((power - from) % every == 0) out += svg_text(x, frame.bottom() + 19, size_label(std::exp2(power)), {.anchor = "middle"});
  }
  out += svg_text(kAxisWidth + kPlotWidth / 2, frame.bottom() + 40, "size (bytes)", {.anchor = "middle"});
  return out + fmt::format("<g transform=\"translate({:.0f},{:.0f}) rotate(-90)\">{}</g>\n", kSvgMargin + 6, frame.top + kHeight / 2,
                           svg_text(0, 0, "bus bandwidth (GB/s)", {.anchor = "middle"}));
}

std::string draw_line(const Frame& frame, const Series& line, std::size_t s) {
  std::string points;
  std::string marks;
  for (std::size_t i = 0; i < line.bytes.size(); ++i) {
    const double x = frame.x(line.bytes[i]);
    const double y = frame.y(line.busbw[i]);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {}, {:.2f} GB/s</title></circle>\n", x, y,
                         colour_of(s), svg_escape(line.name), size_label(line.bytes[i]), line.busbw[i]);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", points, colour_of(s),
                     dash_of(s)[0] == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash_of(s))) +
         marks;
}

std::string legend_row(const Series& line, std::size_t s, double y) {
  const double best = line.busbw.empty() ? 0 : *std::max_element(line.busbw.begin(), line.busbw.end());
  return fmt::format("<line x1=\"{0:.0f}\" y1=\"{1:.1f}\" x2=\"{2:.0f}\" y2=\"{1:.1f}\" stroke=\"{3}\" stroke-width=\"2\"{4}/>\n",
                     kAxisWidth, y - 4, kAxisWidth + 34, colour_of(s),
                     dash_of(s)[0] == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash_of(s))) +
         svg_text(kAxisWidth + 42, y, svg_fit(fmt::format("{}: up to {:.4g} GB/s", line.name, best), kPlotWidth - 42, 12));
}

}  // namespace

std::string busbw_svg(const std::string& title, std::span<const std::string> lines, std::span<const Series> series) {
  Frame frame{.top = svg_content_top(lines.size()) + 12, .first = 64, .last = 0};
  double most = 0;
  for (const Series& line : series) {
    for (double bytes : line.bytes) {
      frame.first = std::min(frame.first, std::log2(bytes));
      frame.last = std::max(frame.last, std::log2(bytes));
    }
    for (double rate : line.busbw) most = std::max(most, rate);
  }
  frame.first = std::min(frame.first, frame.last);
  const std::vector<double> rates = round_ticks(most, 8);
  frame.most = rates.back();
  const double legend_top = frame.bottom() + 66;
  const double height = legend_top + kLegendRow * static_cast<double>(series.size());
  double width = std::max(kAxisWidth + kPlotWidth + 2 * kSvgMargin, 2 * kSvgMargin + svg_text_width(title, 20, true));
  for (const std::string& line : lines) width = std::max(width, 2 * kSvgMargin + svg_text_width(line, 12));
  std::string out = svg_page_start(width, height, title, lines);
  out += axes(frame, rates);
  for (std::size_t s = 0; s < series.size(); ++s) {
    out += draw_line(frame, series[s], s);
    out += legend_row(series[s], s, legend_top + kLegendRow * static_cast<double>(s));
  }
  return out + "</svg>\n";
}

}  // namespace peal::sim
