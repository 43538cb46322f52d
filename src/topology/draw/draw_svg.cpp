// One machine as a picture, from top to bottom:
//
//     sockets and NUMA domains          (grey links between them)
//     PCIe switches, tier by tier       (blue)
//     GPUs and NICs, or memory and cores; links between GPUs as arcs below them
//     NVSwitches, loopback
//
// Everything below a CPU stands under it: leaves get columns in the order of a walk down the tree, parents the middle of their leaves.
// A machine that is too wide is folded: of subtrees that look alike the first few are drawn, and one that stands for the rest.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <topology/describe.hpp>
#include <tuple>

#include "svg_page.hpp"

namespace peal::topology {
namespace {

constexpr double kRow = 108;
constexpr double kSideMargin = 24;
constexpr double kBoxHeight = 42;
constexpr double kMostColumns = 40;
constexpr std::size_t kMostWires = 150;
constexpr double kDeepestArc = 170;
constexpr int kKeepAll = 1 << 20;

/// A box to be: several devices where it is folded, which then have equal subtrees.
struct Item {
  std::vector<int> devices;
  bool is_folded = false;
  int tier = 0;
  std::vector<Item> children;
};

struct Wire {
  int from = -1;  // the upper box, or the left one
  int to = -1;
  SvgWire look;
  double x1 = 0, x2 = 0;
};

class Drawing {
 public:
  Drawing(const Graph& graph, int node)
      : graph_(graph), node_(node), tier_(static_cast<std::size_t>(graph.device_count()), -1), box_of_(tier_.size(), -1) {}

  std::string draw() {
    place_tiers();
    find_children();
    for (int keep : {kKeepAll, 8, 4, 3, 2}) {
      forget();
      for (const Item& item : fold_together({roots_}, keep)) place_item(item);
      place_below(keep);
      collect_wires();
      if (columns_ <= kMostColumns && wires_.size() <= kMostWires) break;
    }
    set_rows();
    SvgPage page;
    for (const Wire& w : wires_) page.add(w.look, path_of(w));
    for (const SvgBox& b : boxes_) page.add(b);
    double bottom = 0;
    for (const SvgBox& b : boxes_) bottom = std::max(bottom, b.bottom());
    for (const Wire& w : wires_)
      if (hangs(w)) bottom = std::max(bottom, box(w.from).bottom() + arc_depth_);
    return page.finish(graph_.title, summary(), kSideMargin + std::max(columns_, 1.0) * slot_, std::max(bottom, SvgPage::content_top(2)));
  }

 private:
  bool is_shown(int d) const { return graph_.device(d).node == node_; }
  int& tier(int d) { return tier_[static_cast<std::size_t>(d)]; }
  DeviceKind kind(int d) const { return graph_.device(d).kind; }
  bool is_leaf(int d) const { return kind(d) == DeviceKind::gpu || kind(d) == DeviceKind::nic || kind(d) == DeviceKind::core; }
  bool is_below(int d) const { return kind(d) == DeviceKind::nvswitch || kind(d) == DeviceKind::loopback; }

  /// Links that say what hangs on what: PCIe and memory, and between a CPU and a GPU whatever joins them.
  bool is_tree(const Link& l) const {
    if (l.kind == LinkKind::pcie || l.kind == LinkKind::sys || l.kind == LinkKind::memory || l.kind == LinkKind::shm) return true;
    const auto is_cpu = [&](int d) { return kind(d) == DeviceKind::cpu || kind(d) == DeviceKind::package; };
    return !is_below(l.a) && !is_below(l.b) && is_cpu(l.a) != is_cpu(l.b);
  }

  /// Rows: distance from the sockets (or CPUs, or whatever is there), leaves all in one row.
  void place_tiers() {
    std::vector<int> ring;
    for (DeviceKind top : {DeviceKind::package, DeviceKind::cpu, DeviceKind::memory, DeviceKind::pcie_switch, DeviceKind::gpu}) {
      for (int d : graph_.devices_of(top))
        if (is_shown(d)) ring.push_back(d);
      if (!ring.empty()) break;
    }
    for (int d : ring) tier(d) = 0;
    for (int t = 0; !ring.empty(); ++t) {
      deepest_ = t;
      std::vector<int> next;
      for (int d : ring) {
        if (is_leaf(d)) continue;
        for (int l : graph_.links_of(d)) {
          const int other = graph_.other_end(l, d);
          if (!is_tree(graph_.link(l)) || !is_shown(other) || is_below(other) || tier(other) >= 0) continue;
          tier(other) = t + 1;
          next.push_back(other);
        }
      }
      ring = std::move(next);
    }
    for (int d = 0; d < graph_.device_count(); ++d)
      if (is_shown(d) && (is_leaf(d) || tier(d) < 0)) tier(d) = deepest_;
  }

  void find_children() {
    children_.assign(tier_.size(), {});
    std::vector<bool> is_taken(tier_.size(), false);
    for (int t = 0; t <= deepest_; ++t) {
      for (int d = 0; d < graph_.device_count(); ++d) {
        if (!is_shown(d) || is_below(d) || tier(d) != t) continue;
        if (!is_taken[static_cast<std::size_t>(d)]) roots_.push_back(d);
        if (is_leaf(d)) continue;
        for (int l : graph_.links_of(d)) {
          const int other = graph_.other_end(l, d);
          if (!is_tree(graph_.link(l)) || !is_shown(other) || is_below(other) || tier(other) <= t ||
              is_taken[static_cast<std::size_t>(other)])
            continue;
          is_taken[static_cast<std::size_t>(other)] = true;
          children_[static_cast<std::size_t>(d)].push_back(other);
        }
      }
    }
    for (int d = 0; d < graph_.device_count(); ++d)
      if (is_shown(d) && is_below(d)) below_.push_back(d);
  }

  /// Two devices with equal words have subtrees that look alike.
  const std::string& looks_of(int d) {
    auto [it, is_new] = looks_.emplace(d, "");
    if (!is_new) return it->second;
    const Device& device = graph_.device(d);
    std::vector<std::string> below;
    for (int child : children_[static_cast<std::size_t>(d)]) below.push_back(looks_of(child));
    std::sort(below.begin(), below.end());
    return looks_[d] =
               fmt::format("({} {} {})", name_of(device.kind), device.kind == DeviceKind::core ? "" : device.name, fmt::join(below, ""));
  }

  /// `lists` are the children of devices that look alike; the first list's order is kept. Of children that look alike all but the first
  /// ones share an item.
  std::vector<Item> fold_together(const std::vector<std::vector<int>>& lists, int keep) {
    const auto same_kind = [&](const std::vector<int>& list) {
      std::map<std::string, std::vector<int>> groups;
      for (int d : list) groups[looks_of(d)].push_back(d);
      return groups;
    };
    std::vector<std::map<std::string, std::vector<int>>> groups;
    for (const auto& list : lists) groups.push_back(same_kind(list));
    std::vector<Item> items;
    std::map<std::string, int> used;
    for (int d : lists.front()) {
      const std::string& looks = looks_of(d);
      const int size = static_cast<int>(groups.front().at(looks).size());
      const int index = used[looks]++;
      const bool is_rest = size > keep && index >= keep - 1;
      if (is_rest && index > keep - 1) continue;
      Item item{.is_folded = is_rest || lists.size() > 1, .tier = tier(d)};
      for (const auto& group : groups) {
        const std::vector<int>& alike = group.at(looks);
        for (int i = index; i < (is_rest ? size : index + 1); ++i) item.devices.push_back(alike[static_cast<std::size_t>(i)]);
      }
      std::vector<std::vector<int>> below;
      for (int member : item.devices) below.push_back(children_[static_cast<std::size_t>(member)]);
      if (!below.front().empty()) item.children = fold_together(below, keep);
      items.push_back(std::move(item));
    }
    return items;
  }

  void forget() {
    boxes_.clear();
    wires_.clear();
    columns_ = 0;
    has_tree_.clear();
  }

  /// Gives the item and everything under it their columns; returns its box.
  int place_item(const Item& item) {
    double sum = 0;
    std::vector<int> below;
    for (const Item& child : item.children) {
      below.push_back(place_item(child));
      sum += boxes_[static_cast<std::size_t>(below.back())].x;
    }
    const int box = add_box(item.devices, item.is_folded, item.tier);
    boxes_.back().x = below.empty() ? columns_ : sum / static_cast<double>(below.size());
    if (below.empty()) columns_ += 1;
    for (int child : below) has_tree_.insert({box, child});
    return box;
  }

  int add_box(const std::vector<int>& devices, bool is_folded, int row) {
    const Device& first = graph_.device(devices.front());
    SvgBox box{.y = static_cast<double>(row), .height = kBoxHeight, .kind = first.kind, .is_folded = is_folded};
    box.lines = {first.id, first.name};
    if (first.port) box.lines[1] = fmt::format("{:g} GB/s", first.port->bandwidth.gigabytes());
    box.title = fmt::format("{}: {} {} ({})", first.id, name_of(first.kind), first.name, first.source);
    if (is_folded) {
      box.lines[0] = fmt::format("x {} more", devices.size());
      if (box.lines[1].empty()) box.lines[1] = std::string(name_of(first.kind));
      box.title =
          fmt::format("{} of kind {} from {} to {}", devices.size(), name_of(first.kind), first.id, graph_.device(devices.back()).id);
    }
    const int index = static_cast<int>(boxes_.size());
    for (int d : devices) box_of_[static_cast<std::size_t>(d)] = index;
    boxes_.push_back(std::move(box));
    return index;
  }

  void place_below(int keep) {
    columns_ = std::max(columns_, 1.0);
    const int all = static_cast<int>(below_.size());
    const int shown = all > keep ? keep - 1 : all;
    const int places = shown + (shown < all ? 1 : 0);
    const double wide = std::max(columns_, static_cast<double>(places));
    for (SvgBox& b : boxes_) b.x += (wide - columns_) / 2;
    columns_ = wide;
    for (int i = 0; i < places; ++i) {
      const bool is_rest = i >= shown;
      const std::vector<int> members(below_.begin() + i, is_rest ? below_.end() : below_.begin() + i + 1);
      add_box(members, is_rest, deepest_ + 1);
      boxes_.back().x = columns_ * (i + 0.5) / places - 0.5;
    }
  }

  void collect_wires() {
    std::map<std::tuple<int, int, LinkKind>, std::size_t> seen;
    for (const Link& l : graph_.links()) {
      if (!is_shown(l.a) || !is_shown(l.b)) continue;
      int a = box_of_[static_cast<std::size_t>(l.a)];
      int b = box_of_[static_cast<std::size_t>(l.b)];
      if (a == b) {
        ++box(a).hidden_links;
        continue;
      }
      if (std::pair{box(a).y, box(a).x} > std::pair{box(b).y, box(b).x}) std::swap(a, b);
      const auto [it, is_new] = seen.emplace(std::tuple{a, b, l.kind}, wires_.size());
      if (is_new) wires_.push_back({.from = a, .to = b, .look = {.kind = l.kind, .is_folded = box(a).is_folded || box(b).is_folded}});
      wires_[it->second].look.add(graph_, l);
    }
    for (Wire& w : wires_)
      if (w.look.links > 1) w.look.title += fmt::format("; {} such links here, {:g} GB/s together", w.look.links, w.look.total.gigabytes());
  }

  SvgBox& box(int index) { return boxes_[static_cast<std::size_t>(index)]; }
  const SvgBox& box(int index) const { return boxes_[static_cast<std::size_t>(index)]; }
  bool is_level(const Wire& w) const { return box(w.from).y == box(w.to).y; }
  /// Arcs hang below the lowest row of devices, where nothing else is; elsewhere they stand above the boxes.
  bool hangs(const Wire& w) const { return is_level(w) && row_of(w.from) >= deepest_ && !is_host(w.from); }
  bool is_host(int index) const { return box(index).kind == DeviceKind::cpu || box(index).kind == DeviceKind::package; }
  int row_of(int index) const {
    return rows_.empty() ? static_cast<int>(std::lround(box(index).y)) : rows_[static_cast<std::size_t>(index)];
  }

  /// From columns and rows to pixels.
  void set_rows() {
    for (const SvgBox& b : boxes_) rows_.push_back(static_cast<int>(std::lround(b.y)));
    double widest = 0;
    for (const SvgBox& b : boxes_) widest = std::max({widest, svg_text_width(b.lines[0], 13, true), svg_text_width(b.lines[1], 10, false)});
    slot_ = std::clamp(widest + 22, 76.0, columns_ > 24 ? 104.0 : 150.0);
    for (SvgBox& b : boxes_) {
      b.x = kSideMargin + (b.x + 0.5) * slot_;
      b.width = slot_ - 10;
    }
    for (const Wire& w : wires_) {
      if (!is_level(w)) continue;
      double& longest = hangs(w) ? longest_hanging_ : longest_standing_[row_of(w.from)];
      longest = std::max(longest, std::abs(box(w.from).x - box(w.to).x));
    }
    arc_depth_ = longest_hanging_ > 0 ? std::clamp(longest_hanging_ * 0.22, 40.0, kDeepestArc) : 0;
    const double first = SvgPage::content_top(2) + (longest_standing_.contains(0) ? 58 : 16) + kBoxHeight / 2;
    const double gap = below_.empty() ? 0 : std::max(arc_depth_ + 50, std::min(90 + 0.05 * columns_ * slot_, 180.0));
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      const bool is_lowest = rows_[i] > deepest_;
      boxes_[i].y = first + kRow * (is_lowest ? deepest_ : rows_[i]) + (is_lowest ? kBoxHeight + gap : 0);
    }
    spread_ends();
  }

  /// Wires share an edge of a box in the order in which they leave to the sides; of arcs the longest are in the middle.
  void spread_ends() {
    std::map<std::pair<int, bool>, std::vector<std::pair<double, double*>>> edges;  // by box, true at its bottom
    constexpr double kFar = 1e6;
    for (Wire& w : wires_) {
      const double dx = box(w.to).x - box(w.from).x;
      const bool is_arc = is_level(w);
      edges[{w.from, is_arc ? hangs(w) : true}].emplace_back(is_arc ? 2 * kFar - dx : kFar + dx, &w.x1);
      edges[{w.to, is_arc ? hangs(w) : false}].emplace_back(is_arc ? dx : kFar - dx, &w.x2);
    }
    for (auto& [edge, ends] : edges) {
      std::sort(ends.begin(), ends.end());
      const SvgBox& b = box(edge.first);
      const double room = b.width - 16;
      const double step = std::min(12.0, room / std::max<double>(1, static_cast<double>(ends.size()) - 1));
      for (std::size_t i = 0; i < ends.size(); ++i)
        *ends[i].second = b.x + step * (static_cast<double>(i) - static_cast<double>(ends.size() - 1) / 2);
    }
  }

  std::string path_of(const Wire& w) {
    const SvgBox& upper = box(w.from);
    const SvgBox& lower = box(w.to);
    if (is_level(w)) {
      const double length = std::abs(upper.x - lower.x);
      if (hangs(w)) return svg_arc(w.x1, upper.bottom(), w.x2, lower.bottom(), -(14 + (arc_depth_ - 14) * length / longest_hanging_));
      const double most = row_of(w.from) == 0 ? 50 : 26;
      return svg_arc(w.x1, upper.top(), w.x2, lower.top(), 12 + (most - 12) * length / longest_standing_[row_of(w.from)]);
    }
    // Down a tree across several rows: aside first, between the rows, then straight down in the child's own column.
    const double turn = upper.bottom() + kRow - kBoxHeight;
    if (has_tree_.contains({w.from, w.to}) && lower.top() > turn + 1)
      return svg_line(w.x1, upper.bottom(), w.x2, turn) + fmt::format(" L{:.1f},{:.1f}", w.x2, lower.top());
    return svg_line(w.x1, upper.bottom(), w.x2, lower.top());
  }

  /// What there is, and what the GPUs and the NICs have together.
  std::vector<std::string> summary() const {
    std::map<DeviceKind, int> counts;
    double ports = 0;
    for (const Device& d : graph_.devices()) {
      if (d.node != node_) continue;
      ++counts[d.kind];
      if (d.port) ports += d.port->bandwidth.gigabytes();
    }
    std::vector<std::string> parts;
    for (const auto& [kind, count] : counts) parts.push_back(fmt::format("{} {}", count, name_of(kind)));
    std::vector<std::string> sums;
    for (int d : graph_.devices_of(DeviceKind::gpu)) {
      if (!is_shown(d)) continue;
      for (LinkKind kind : {LinkKind::nvlink, LinkKind::xgmi, LinkKind::c2c, LinkKind::pcie})
        if (const double sum = graph_.total_of(d, kind).gigabytes(); sum > 0)
          sums.push_back(fmt::format("{} {:.4g} GB/s", name_of(kind), sum));
      sums = {fmt::format("{}, one direction: {}", graph_.device(d).id, fmt::join(sums, ", "))};
      break;
    }
    if (ports > 0) sums.push_back(fmt::format("all NICs {:g} GB/s", ports));
    return {fmt::format("{}", fmt::join(parts, ", ")), fmt::format("{}", fmt::join(sums, "; "))};
  }

  const Graph& graph_;
  int node_;
  std::vector<int> tier_;
  std::vector<int> box_of_;
  std::vector<std::vector<int>> children_;
  std::vector<int> roots_, below_;
  std::map<int, std::string> looks_;
  std::vector<SvgBox> boxes_;  // x and y in columns and rows until set_rows
  std::vector<int> rows_;
  std::vector<Wire> wires_;
  std::set<std::pair<int, int>> has_tree_;
  int deepest_ = 0;
  double columns_ = 0;
  double slot_ = 96;
  double arc_depth_ = 0;
  double longest_hanging_ = 0;
  std::map<int, double> longest_standing_;
};

}  // namespace

std::string draw_svg(const Graph& graph, int node) { return Drawing(graph, node).draw(); }

}  // namespace peal::topology
