// One node as a picture, from top to bottom:
//
//     sockets and NUMA domains          (grey links between them)
//     PCIe switches, tier by tier       (blue)
//     GPUs and NICs, or memory and cores
//     NVSwitches, loopback              (green, orange)
//
// Everything below a CPU stands under it: leaves get columns in the order of a walk down the PCIe tree, parents the middle of their leaves.
#include <algorithm>
#include <cmath>
#include <set>
#include <topology/describe.hpp>

namespace peal::topology {
namespace {

constexpr double kTop = 70;
constexpr double kRow = 120;
constexpr double kMargin = 24;
constexpr double kBoxHeight = 42;

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
    case LinkKind::nvlink:
    case LinkKind::c2c:
    case LinkKind::hccs:
    case LinkKind::xgmi: return "#76b900";
    case LinkKind::pcie: return "#2f6fbf";
    case LinkKind::sys: return "#78909c";
    case LinkKind::shm: return "#7b3fa8";
    case LinkKind::memory: return "#a08a13";
    case LinkKind::loopback: return "#b8324a";
    default: return "#c96a12";
  }
}

/// 1 px at 1 GB/s or less, 8 px at 512 GB/s: the eye compares factors, not differences.
double width_of(Bandwidth b) { return std::clamp(1 + std::log2(std::max(b.gigabytes(), 1.0)) * 7 / 9, 1.0, 8.0); }

std::string escape(std::string_view text) {
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

/// Text cut to what fits `width` pixels at about `per_letter` a letter; never in the middle of a UTF-8 letter.
std::string fit(const std::string& text, double width, double per_letter) {
  std::size_t letters = static_cast<std::size_t>(std::max(2.0, width / per_letter));
  if (text.size() <= letters) return text;
  while (letters > 0 && (static_cast<unsigned char>(text[letters - 1]) & 0xC0) == 0x80) --letters;
  return text.substr(0, letters - 1) + "…";
}

class Drawing {
 public:
  Drawing(const Graph& graph, int node) : graph_(graph), node_(node), at_(static_cast<std::size_t>(graph.device_count())) {}

  std::string draw() {
    place_tiers();
    place_columns();
    std::string body;
    for (const Link& l : graph_.links()) body += wire(l);
    for (int d = 0; d < graph_.device_count(); ++d)
      if (is_shown(d)) body += box(d);
    const double height = kTop + kRow * (bottom_ + 1.6) + 40;
    double width = std::max(2 * kMargin + columns_ * slot_, 2 * kMargin + 12.0 * static_cast<double>(graph_.title.size()));
    const std::string key = legend(height - 22, width);
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height);
    out += fmt::format("<text x=\"{:.0f}\" y=\"34\" font-size=\"20\" font-weight=\"bold\" fill=\"#263238\">{}</text>\n", kMargin,
                       escape(graph_.title));
    return out + body + key + "</svg>\n";
  }

 private:
  struct Place {
    int tier = -1;
    double x = -1;
  };
  Place& at(int d) { return at_[static_cast<std::size_t>(d)]; }
  const Place& at(int d) const { return at_[static_cast<std::size_t>(d)]; }
  bool is_shown(int d) const { return graph_.device(d).node == node_; }
  static bool is_tree(LinkKind kind) {
    return kind == LinkKind::pcie || kind == LinkKind::sys || kind == LinkKind::memory || kind == LinkKind::shm;
  }

  /// Rows: distance from the sockets (or CPUs, or whatever is there), leaves all in one row, what joins leaves below them.
  void place_tiers() {
    std::vector<int> ring;
    for (DeviceKind top : {DeviceKind::package, DeviceKind::cpu, DeviceKind::memory, DeviceKind::pcie_switch, DeviceKind::gpu}) {
      for (int d : graph_.devices_of(top))
        if (is_shown(d)) ring.push_back(d);
      if (!ring.empty()) break;
    }
    for (int d : ring) at(d).tier = 0;
    int deepest = 0;
    for (int tier = 0; !ring.empty(); ++tier) {
      std::vector<int> next;
      for (int d : ring) {
        deepest = tier;
        if (is_leaf(d)) continue;
        for (int l : graph_.links_of(d)) {
          const int other = graph_.other_end(l, d);
          if (!is_tree(graph_.link(l).kind) || !is_shown(other) || at(other).tier >= 0) continue;
          at(other).tier = tier + 1;
          next.push_back(other);
        }
      }
      ring = std::move(next);
    }
    for (int d = 0; d < graph_.device_count(); ++d) {
      if (!is_shown(d)) continue;
      const DeviceKind kind = graph_.device(d).kind;
      if (is_leaf(d)) at(d).tier = deepest;
      if (kind == DeviceKind::nvswitch || kind == DeviceKind::loopback || at(d).tier < 0) at(d).tier = is_leaf(d) ? deepest : deepest + 1;
      bottom_ = std::max(bottom_, at(d).tier);
    }
  }

  bool is_leaf(int d) const {
    const DeviceKind kind = graph_.device(d).kind;
    return kind == DeviceKind::gpu || kind == DeviceKind::nic || kind == DeviceKind::core;
  }

  void place_columns() {
    for (int tier = 0; tier <= bottom_; ++tier)
      for (int d = 0; d < graph_.device_count(); ++d)
        if (is_shown(d) && at(d).tier == tier && at(d).x < 0 && !is_below(d)) descend(d);
    columns_ = std::max(columns_, 1.0);
    slot_ = columns_ > 40 ? 60 : 96;
    std::vector<int> below;
    for (int d = 0; d < graph_.device_count(); ++d)
      if (is_shown(d) && is_below(d)) below.push_back(d);
    for (std::size_t i = 0; i < below.size(); ++i)
      at(below[i]).x = columns_ * (static_cast<double>(i) + 0.5) / static_cast<double>(below.size()) - 0.5;
  }

  bool is_below(int d) const { return graph_.device(d).kind == DeviceKind::nvswitch || graph_.device(d).kind == DeviceKind::loopback; }

  /// Gives `d` and everything under it their columns; returns the column of `d`.
  double descend(int d) {
    at(d).x = 0;  // taken
    double sum = 0;
    int children = 0;
    if (!is_leaf(d)) {
      for (int l : graph_.links_of(d)) {
        const int other = graph_.other_end(l, d);
        if (!is_tree(graph_.link(l).kind) || !is_shown(other) || is_below(other) || at(other).x >= 0 || at(other).tier <= at(d).tier)
          continue;
        sum += descend(other);
        ++children;
      }
    }
    at(d).x = children > 0 ? sum / children : columns_;
    if (children == 0) columns_ += 1;
    return at(d).x;
  }

  double x_of(int d) const { return kMargin + (at(d).x + 0.5) * slot_; }
  /// Many wires cross on the way to the lowest row: it stands further down.
  double y_of(int d) const { return kTop + kRow * at(d).tier + kRow / 2 + (is_below(d) ? kRow * 0.6 : 0); }

  std::string wire(const Link& l) {
    if (!is_shown(l.a) || !is_shown(l.b)) return {};
    used_.insert(l.kind);
    const double x1 = x_of(l.a), y1 = y_of(l.a), x2 = x_of(l.b), y2 = y_of(l.b);
    // Wires leave a box at the edge that faces the other end; inside a row they bow upward, clear of the boxes between their ends.
    std::string path;
    if (std::abs(y1 - y2) < 1) {
      const double bow = std::abs(x1 - x2) > slot_ * 1.1 ? std::min(80.0, 30 + std::abs(x1 - x2) * 0.06) : 0;
      const double top = bow > 0 ? y1 - kBoxHeight / 2 : y1;
      path = fmt::format("M{:.1f},{:.1f} Q{:.1f},{:.1f} {:.1f},{:.1f}", x1, top, (x1 + x2) / 2, top - bow, x2, top);
    } else {
      const double half = y1 < y2 ? kBoxHeight / 2 : -kBoxHeight / 2;
      path = fmt::format("M{:.1f},{:.1f} L{:.1f},{:.1f}", x1, y1 + half, x2, y2 - half);
    }
    return fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-opacity=\"0.6\"><title>{} - {}: {} x{}, {:g} GB/s each "
        "way, {}</title></path>\n",
        path, colour_of(l.kind), width_of(l.total()), escape(graph_.device(l.a).id), escape(graph_.device(l.b).id), name_of(l.kind),
        l.count, l.total().gigabytes(), escape(l.source));
  }

  std::string box(int d) const {
    const Device& device = graph_.device(d);
    const Style style = style_of(device.kind);
    const double width = slot_ - 10;
    std::string second = device.name;
    if (device.port) second = fmt::format("{:g} GB/s", device.port->bandwidth.gigabytes());
    std::string out = fmt::format(
        "<g><title>{}: {} {} ({})</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"5\" fill=\"{}\" "
        "stroke=\"{}\" stroke-width=\"1.5\"/>",
        escape(device.id), name_of(device.kind), escape(device.name), escape(device.source), x_of(d) - width / 2, y_of(d) - kBoxHeight / 2,
        width, kBoxHeight, style.fill, style.line);
    out += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"13\" font-weight=\"bold\" text-anchor=\"middle\" fill=\"#263238\">{}</text>", x_of(d),
        y_of(d) - 3, escape(fit(device.id, width, 7.8)));
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" text-anchor=\"middle\" fill=\"#546e7a\">{}</text></g>\n", x_of(d),
                       y_of(d) + 13, escape(fit(second, width, 6.2)));
    return out;
  }

  /// Widens `width` where the legend needs more.
  std::string legend(double y, double& width) const {
    std::string out;
    double x = kMargin;
    for (LinkKind kind : used_) {
      double widest = 0;
      for (const Link& l : graph_.links())
        if (l.kind == kind && is_shown(l.a) && is_shown(l.b)) widest = std::max(widest, l.total().gigabytes());
      out += fmt::format("<line x1=\"{0:.0f}\" y1=\"{1:.0f}\" x2=\"{2:.0f}\" y2=\"{1:.0f}\" stroke=\"{3}\" stroke-width=\"{4:.1f}\"/>", x,
                         y, x + 34, colour_of(kind), width_of(Bandwidth::gigabytes(widest)));
      const std::string text = fmt::format("{} up to {:g} GB/s", name_of(kind), widest);
      out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"12\" fill=\"#263238\">{}</text>\n", x + 42, y + 4, text);
      x += 42 + 7.0 * static_cast<double>(text.size()) + 24;
    }
    width = std::max(width, x);
    return out;
  }

  const Graph& graph_;
  int node_;
  std::vector<Place> at_;
  std::set<LinkKind> used_;
  int bottom_ = 0;
  double columns_ = 0;
  double slot_ = 96;
};

}  // namespace

std::string draw_svg(const Graph& graph, int node) { return Drawing(graph, node).draw(); }

}  // namespace peal::topology
