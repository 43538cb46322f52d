// A step as a picture: a row a stage, what it computes with the numbers of the micro batches, below it what it tells others.
#include <algorithm>
#include <array>
#include <base/svg.hpp>
#include <base/svg_axis.hpp>
#include <training/step.hpp>

#include "step_walk.hpp"

namespace peal::training {

namespace {

constexpr double kLeft = 90, kWidth = 1100;
constexpr double kComputing = 22, kTelling = 6;  // heights of the lanes
constexpr double kGap = 6;
constexpr int kMostDrawnStages = 32;
constexpr double kLeastTitled = 2;  // pixels: on less no pointer rests

struct Look {
  TaskKind kind;
  const char* colour;
  const char* letters;
};

// Colours that stay apart for the colour-blind (M. Okabe and K. Ito, Color Universal Design, 2008).
constexpr std::array<Look, 12> kLooks{{{TaskKind::forward, "#56b4e9", "#10344a"},
                                       {TaskKind::backward, "#009e73", "#ffffff"},
                                       {TaskKind::backward_input, "#009e73", "#ffffff"},
                                       {TaskKind::backward_weight, "#b7dfa6", "#20401a"},
                                       {TaskKind::optimizer, "#cc79a7", "#ffffff"},
                                       {TaskKind::send_forward, "#e69f00", ""},
                                       {TaskKind::receive_forward, "#f0cf80", ""},
                                       {TaskKind::send_backward, "#d55e00", ""},
                                       {TaskKind::receive_backward, "#eaae7f", ""},
                                       {TaskKind::gather_parameters, "#0072b2", ""},
                                       {TaskKind::reduce_gradients, "#882255", ""},
                                       {TaskKind::share_embeddings, "#332288", ""}}};

std::size_t kind_of(const TraceEvent& event) {
  for (std::size_t k = 0; k < kLooks.size(); ++k)
    if (name_of(kLooks[k].kind) == event.category) return k;
  return 0;
}

/// The first number in an event's name: its micro batch.
std::string_view number_of(std::string_view name) {
  const std::size_t space = name.find(' ');
  if (space == std::string_view::npos) return {};
  const std::string_view rest = name.substr(space + 1);
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  return digits;
}

struct Drawing {
  double scale = 1;  // pixels a microsecond
  double top = 0;
  std::vector<int> row_of;  // by stage; -1: not shown
  std::array<bool, kLooks.size()> is_used = {};
  std::string out;

  void bar(const TraceEvent& event, double& drawn_to) {
    const int row = row_of[static_cast<std::size_t>(event.process)];
    const double x = event.start_us * scale, width = event.duration_us * scale;
    // What ends within the pixel that was drawn last adds nothing.
    if (row < 0 || event.duration_us <= 0 || (width < 0.5 && x + width < drawn_to)) return;
    drawn_to = x + std::max(width, 0.5);
    const std::size_t kind = kind_of(event);
    is_used[kind] = true;
    const bool computes = event.thread == 0;
    const double y = top + row * (kComputing + 2 * kTelling + kGap) + (computes ? 0 : kComputing + (event.thread == 1 ? kTelling : 0));
    const std::string title = fmt::format("{}: {:.1f} to {:.1f} us", event.name, event.start_us, event.start_us + event.duration_us);
    out += svg_rect(kLeft + x, y, std::max(0.5, width - (width > 3 ? 0.7 : 0)), computes ? kComputing : kTelling - 1, kLooks[kind].colour,
                    width > kLeastTitled ? title : std::string());
    const std::string_view number = number_of(event.name);
    if (computes && !number.empty() && svg_text_width(number, 11) + 1 < width)
      out +=
          svg_text(kLeft + x + width / 2, y + kComputing / 2 + 4, number, {.size = 11, .colour = kLooks[kind].letters, .anchor = "middle"});
  }
};

std::vector<int> rows_of(int stages) {
  std::vector<int> row_of(static_cast<std::size_t>(stages), -1);
  const int shown = std::min(stages, kMostDrawnStages);
  for (int i = 0; i < shown; ++i) row_of[static_cast<std::size_t>(shown == 1 ? 0 : i * (stages - 1) / (shown - 1))] = i;
  return row_of;
}

std::string legend_of_looks(const std::array<bool, kLooks.size()>& is_used, double y) {
  std::string out;
  double x = kLeft;
  for (std::size_t k = 0; k < kLooks.size(); ++k) {
    if (!is_used[k]) continue;
    std::string name(name_of(kLooks[k].kind));
    std::replace(name.begin(), name.end(), '_', ' ');
    const double width = 19 + svg_text_width(name, 12) + 18;
    if (x + width > kLeft + kWidth) {
      x = kLeft;
      y += 18;
    }
    out += svg_rect(x, y - 10, 14, 12, kLooks[k].colour) + svg_text(x + 19, y, name);
    x += width;
  }
  return out;
}

}  // namespace

std::string step_svg(const std::string& title, std::span<const std::string> lines, const Trace& trace, int stages) {
  double last = 0;
  for (const TraceEvent& event : trace.events()) last = std::max(last, event.start_us + event.duration_us);
  const std::vector<double> ticks = round_ticks(last * 1e-3, 10);
  const int shown = std::min(stages, kMostDrawnStages);
  std::vector<std::string> words(lines.begin(), lines.end());
  if (shown < stages) words.push_back(fmt::format("{} of {} stages are shown, evenly spread", shown, stages));
  Drawing drawing;
  drawing.scale = kWidth / (ticks.back() * 1e3);
  drawing.top = svg_content_top(words.size()) + 10;
  drawing.row_of = rows_of(stages);
  const double bottom = drawing.top + shown * (kComputing + 2 * kTelling + kGap);
  drawing.out = svg_page_start(kLeft + kWidth + 2 * kSvgMargin, bottom + 90, title, words);
  for (std::size_t s = 0; s < drawing.row_of.size(); ++s) {
    if (drawing.row_of[s] < 0) continue;
    const double y = drawing.top + drawing.row_of[s] * (kComputing + 2 * kTelling + kGap);
    drawing.out += svg_rect(kLeft, y, kWidth, kComputing + 2 * kTelling, "#f4f6f7");
    drawing.out += svg_text(kLeft - 10, y + kComputing / 2 + 4, fmt::format("stage {}", s), {.anchor = "end"});
  }
  for (const double tick : ticks) {
    const double x = kLeft + tick * 1e3 * drawing.scale;
    drawing.out += svg_stroke(x, drawing.top - 4, x, bottom, "#e0e0e0");
    drawing.out += svg_text(x, bottom + 16, fmt::format("{:g}", tick), {.anchor = "middle"});
  }
  drawing.out += svg_text(kLeft - 10, bottom + 16, "ms", {.anchor = "end"});
  std::vector<double> drawn_to(static_cast<std::size_t>(stages * kLanes), -1);
  for (const TraceEvent& event : trace.events())
    drawing.bar(event, drawn_to[static_cast<std::size_t>(event.process * kLanes + event.thread)]);
  return drawing.out + legend_of_looks(drawing.is_used, bottom + 46) + "</svg>\n";
}

}  // namespace peal::training
