// Bars of layouts, each as long as its step, in parts.
#include <algorithm>
#include <base/svg.hpp>
#include <cmath>
#include <training/planner.hpp>

namespace peal::training {

namespace {

constexpr double kWidth = 1230;
constexpr double kLabels = 560;
constexpr double kRow = 30;
constexpr double kBar = 18;

struct Piece {
  std::string name;
  const char* colour;
  double seconds;
};

std::vector<Piece> pieces_of(const StepReport& r) {
  std::vector<Piece> pieces = {{"computing", "#4c78a8", r.compute}};
  constexpr const char* kColours[kDimensions] = {"#f58518", "#e4a11b", "#b279a2", "#e45756", "#72b7b2"};
  for (int d = 0; d < kDimensions; ++d)
    pieces.push_back({fmt::format("waiting for {}", name_of(static_cast<Dimension>(d))), kColours[d], r.exposed[d]});
  pieces.push_back({"optimiser", "#54a24b", r.optimizer});
  double known = 0;
  for (const Piece& piece : pieces) known += piece.seconds;
  pieces.push_back({"bubble and the rest", "#cfd8dc", std::max(0.0, r.time - known)});
  return pieces;
}

std::string legend_of_marks(double y) {
  std::string out;
  double x = kSvgMargin;
  for (const Piece& piece : pieces_of(StepReport{})) {
    out += svg_rect(x, y - 10, 12, 12, piece.colour);
    out += svg_text(x + 17, y, piece.name);
    x += 17 + svg_text_width(piece.name, SvgText{}.size) + 20;
  }
  return out;
}

/// Its number and its words, in two lines where one is too short.
std::string label(std::size_t number, const Layout& layout, double y) {
  constexpr double kFont = 11, kIndent = 22, kRoom = kLabels - kIndent - 12;
  std::string first = describe(layout), second;
  if (svg_text_width(first, kFont) > kRoom) {
    const std::size_t comma = first.rfind(", ", svg_fit(first, kRoom, kFont).size());
    second = comma == std::string::npos ? std::string() : first.substr(comma + 2);
    if (comma != std::string::npos) first.resize(comma + 1);
  }
  const double top = second.empty() ? y + 14 : y + 8;
  const SvgText look{.size = kFont};
  std::string out = svg_text(kSvgMargin, top, fmt::format("{}", number), look) + svg_text(kSvgMargin + kIndent, top, first, look);
  if (!second.empty()) out += svg_text(kSvgMargin + kIndent, top + 13, svg_fit(second, kRoom, kFont), look);
  return out;
}

}  // namespace

std::string plan_svg(const Model& model, const LayoutPlan& plan) {
  const std::vector<std::string> words = {fmt::format(
      "{} layouts fit, {} were simulated with orders of their ranks; a bar is a step of the busiest stage", plan.fit, plan.simulated)};
  const double top = svg_content_top(words.size()) + 34;
  const auto rows = static_cast<double>(plan.best.size());
  double longest = 1e-12;
  for (const StepReport& r : plan.best) longest = std::max(longest, r.time);
  std::string out = svg_page_start(kWidth, top + rows * kRow + kSvgMargin, fmt::format("{}: the best layouts", model.title), words);
  out += legend_of_marks(top - 16);
  const double room = kWidth - kLabels - 2 * kSvgMargin - 150;
  for (std::size_t i = 0; i < plan.best.size(); ++i) {
    const StepReport& r = plan.best[i];
    const double y = top + static_cast<double>(i) * kRow;
    out += label(i + 1, r.layout, y);
    double x = kSvgMargin + kLabels;
    for (const Piece& piece : pieces_of(r)) {
      const double width = room * piece.seconds / longest;
      if (width > 0.05) out += svg_rect(x, y, width, kBar, piece.colour, fmt::format("{}: {:.4g} s", piece.name, piece.seconds));
      x += width;
    }
    const double memory = r.memory.empty() ? 0 : fullest(r.memory).total() / 1e9;
    out += svg_text(x + 8, y + 14, fmt::format("{:.4g} s, {:.1f} GB, {:.0f} %", r.time, memory, 100 * r.model_flops_utilisation));
  }
  return out + "</svg>\n";
}

}  // namespace peal::training
