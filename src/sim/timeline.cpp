#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <base/svg.hpp>
#include <base/svg_axis.hpp>
#include <map>
#include <set>
#include <sim/pictures.hpp>

namespace peal::sim {
namespace {

constexpr double kNamesWidth = 90;
constexpr double kTimeWidth = 1000;
constexpr double kRow = 26;
constexpr double kGap = 5;  // between rows
constexpr int kMostLanes = 4;
constexpr int kComputingLane = -1;  // lane above the others
constexpr double kLeastTitled = 2;  // pixels: on less no pointer rests

struct Kind {
  std::string_view name;
  const char* colour;
};

// Colours that stay apart for the colour-blind (M. Okabe and K. Ito, Color Universal Design, 2008); fused ops are lighter than their parts.
constexpr std::array<Kind, 12> kKinds{{{"send", "#0072b2"},
                                       {"recv", "#009e73"},
                                       {"recv_reduce", "#d55e00"},
                                       {"recv_send", "#56b4e9"},
                                       {"recv_reduce_send", "#e69f00"},
                                       {"copy", "#999999"},
                                       {"reduce", "#cc79a7"},
                                       {"signal", "#f0e442"},
                                       {"wait", "#dddddd"},
                                       {"compute", "#b5c4a8"},
                                       {"switch_reduce", "#882255"},
                                       {"switch_multicast", "#332288"}}};

std::size_t kind_of(const TraceEvent& event) {
  const std::string_view word = std::string_view(event.name).substr(0, event.name.find(' '));
  for (std::size_t k = 0; k < kKinds.size(); ++k)
    if (kKinds[k].name == word) return k;
  return kKinds.size() - 1;
}

struct Bar {
  std::size_t kind = 0;
  double start = 0;
  double end = 0;
  std::size_t ops = 1;
  std::string name;
};

/// Rank -> lane -> bars in order of time.
using Rows = std::map<int, std::map<int, std::vector<Bar>>>;

std::vector<int> shown_ranks(int ranks) {
  const int count = std::min(ranks, static_cast<int>(kMostTimelineRanks));
  std::vector<int> shown;
  for (int i = 0; i < count; ++i) shown.push_back(count == 1 ? 0 : static_cast<int>(static_cast<long long>(i) * (ranks - 1) / (count - 1)));
  return shown;
}

Rows rows_of(std::span<const TraceEvent> events, const std::vector<int>& shown, double pixel) {
  const std::set<int> wanted(shown.begin(), shown.end());
  std::map<int, std::map<int, std::vector<Bar>>> rows;
  for (const TraceEvent& event : events) {
    if (!wanted.contains(event.process)) continue;
    std::vector<Bar>& lane = rows[event.process][event.category == "compute" ? kComputingLane : event.thread % kMostLanes];
    const Bar bar{kind_of(event), event.start_us, event.start_us + event.duration_us, 1, event.name};
    // The trace is in the order of ends.
    if (!lane.empty() && lane.back().kind == bar.kind && bar.start - lane.back().end < pixel &&
        std::min(bar.end - bar.start, lane.back().end - lane.back().start) < 6 * pixel) {
      lane.back().end = std::max(lane.back().end, bar.end);
      lane.back().start = std::min(lane.back().start, bar.start);
      ++lane.back().ops;
    } else {
      lane.push_back(bar);
    }
  }
  return rows;
}

std::string draw_bar(const Bar& bar, double y, double height, double scale) {
  const std::string title = bar.ops == 1
                                ? fmt::format("{}: {:.2f} to {:.2f} us", bar.name, bar.start, bar.end)
                                : fmt::format("{} ops {}: {:.2f} to {:.2f} us", bar.ops, kKinds[bar.kind].name, bar.start, bar.end);
  const double width = (bar.end - bar.start) * scale;
  // A hair between neighbours, where there is room for it.
  return svg_rect(kNamesWidth + bar.start * scale, y, std::max(0.3, width - (width > 3 ? 0.7 : 0)), height, kKinds[bar.kind].colour,
                  width > kLeastTitled ? title : std::string());
}

std::string legend(const std::set<std::size_t>& kinds, double y) {
  std::string out;
  double x = kNamesWidth;
  for (std::size_t k : kinds) {
    out += svg_rect(x, y - 10, 14, 12, kKinds[k].colour);
    out += svg_text(x + 19, y, kKinds[k].name);
    x += 19 + svg_text_width(kKinds[k].name, 12) + 22;
  }
  return out;
}

}  // namespace

std::string timeline_svg(const std::string& title, std::span<const std::string> lines, std::span<const TraceEvent> events, int ranks) {
  double last = 0;
  for (const TraceEvent& event : events) last = std::max(last, event.start_us + event.duration_us);
  const std::vector<double> ticks = round_ticks(last, 10);
  const double scale = kTimeWidth / ticks.back();
  const std::vector<int> shown = shown_ranks(ranks);
  const Rows rows = rows_of(events, shown, 1 / scale);
  std::vector<std::string> words(lines.begin(), lines.end());
  if (static_cast<int>(shown.size()) < ranks) words.push_back(fmt::format("{} of {} ranks are shown, evenly spread", shown.size(), ranks));
  const double top = svg_content_top(words.size()) + 10;
  const double bottom = top + static_cast<double>(shown.size()) * (kRow + kGap);
  const double width = std::max(kNamesWidth + kTimeWidth + 2 * kSvgMargin, 2 * kSvgMargin + svg_text_width(title, 20, true));
  std::string out = svg_page_start(width, bottom + 80, title, words);
  out += svg_text(kNamesWidth - 10, bottom + 16, "us", {.anchor = "end"});
  for (std::size_t row = 0; row < shown.size(); ++row)
    out += svg_rect(kNamesWidth, top + static_cast<double>(row) * (kRow + kGap), kTimeWidth, kRow, "#f4f6f7");
  for (double tick : ticks) {
    out += svg_stroke(kNamesWidth + tick * scale, top - 4, kNamesWidth + tick * scale, bottom, "#e0e0e0");
    out += svg_text(kNamesWidth + tick * scale, bottom + 16, fmt::format("{:g}", tick), {.anchor = "middle"});
  }
  std::set<std::size_t> kinds;
  for (std::size_t row = 0; row < shown.size(); ++row) {
    const double y = top + static_cast<double>(row) * (kRow + kGap);
    out += svg_text(kNamesWidth - 10, y + kRow / 2 + 4, fmt::format("rank {}", shown[row]), {.anchor = "end"});
    const auto found = rows.find(shown[row]);
    if (found == rows.end()) continue;
    const double height = kRow / static_cast<double>(found->second.size());
    double lane_y = y;
    for (const auto& [lane, bars] : found->second) {
      for (const Bar& bar : bars) {
        kinds.insert(bar.kind);
        out += draw_bar(bar, lane_y, height - (height > 8 ? 1 : 0.4), scale);
      }
      lane_y += height;
    }
  }
  return out + legend(kinds, bottom + 50) + "</svg>\n";
}

}  // namespace peal::sim
