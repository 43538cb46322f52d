// A cluster as a picture, from top to bottom:
//
//     core switches                    (every tier of switches is one row; links between switches of a row are arcs above it)
//     spine switches
//     leaf switches
//     machines                         (links between machines as arcs below them)
//     NVSwitches that several machines share
//
// The order comes from export/slurm_tree.hpp: machines on the same leaf switches stand together below them, leaves that the same spines
// join stand together below those. Of machines, switches and whole groups that look alike the first few are drawn and one that stands for
// the rest.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <topology/describe.hpp>
#include <tuple>

#include "export/slurm_words.hpp"
#include "fabric_parts.hpp"
#include "svg_page.hpp"

namespace peal::topology {
namespace {

constexpr double kFabricRow = 150;
constexpr double kLeft = 190;  // room for the words beside the rows
constexpr double kSlot = 112;
constexpr double kSwitchHeight = 56;
constexpr double kMostSwitchColumns = 26;
constexpr int kMostFabricWires = 40;  // between two rows

struct FabricWire {
  int from = -1;
  int to = -1;
  SvgWire look;
  double x1 = 0, x2 = 0;
};

class FabricDrawing {
 public:
  explicit FabricDrawing(const Graph& graph)
      : parts_(graph), switch_box_(static_cast<std::size_t>(graph.device_count()), -1), machine_box_(parts_.names.size(), -1) {}

  std::string draw() {
    for (int keep : {8, 4, 3, 2}) {
      forget();
      keep_ = keep;
      place_everything();
      collect_wires();
      if (columns_ <= kMostSwitchColumns && most_wires_ <= kMostFabricWires) break;
    }
    set_rows();
    SvgPage page;
    for (const FabricWire& w : wires_) page.add(w.look, path_of(w));
    for (const SvgBox& b : boxes_) page.add(b);
    label_rows(page);
    double bottom = 0;
    for (const SvgBox& b : boxes_) bottom = std::max(bottom, b.bottom());
    return page.finish(parts_.graph.title, summary(), kLeft + columns_ * kSlot, std::max(bottom + hanging_, SvgPage::content_top(2)));
  }

 private:
  void forget() {
    boxes_.clear();
    rows_.clear();
    wires_.clear();
    columns_ = 0;
  }

  // ---- boxes; x in columns from 0, rows: -1 shared NVSwitches, 0 machines, 1 + tier switches ----

  void place_everything() {
    std::vector<bool> is_child(parts_.tree.size(), false);
    for (const SlurmSwitch& s : parts_.tree)
      for (int child : s.children) is_child[static_cast<std::size_t>(child)] = true;
    std::vector<int> roots;
    for (std::size_t i = 0; i < parts_.tree.size(); ++i)
      if (!is_child[i]) roots.push_back(static_cast<int>(i));
    place_groups(roots);
    std::vector<int> alone;
    std::vector<bool> has_switch(parts_.names.size(), false);
    for (const SlurmSwitch& s : parts_.tree)
      for (int n : s.machines) has_switch[static_cast<std::size_t>(n)] = true;
    for (std::size_t n = 0; n < parts_.names.size(); ++n)
      if (!has_switch[n]) alone.push_back(static_cast<int>(n));
    if (!alone.empty()) place_row(alone, columns_, 0, machine_places(alone));
    place_shared();
    // A switch that no way leads to from any machine.
    std::vector<int> lost;
    for (const auto& [d, t] : parts_.tier)
      if (parts_.is_switch(d) && switch_box_[static_cast<std::size_t>(d)] < 0) lost.push_back(d);
    if (!lost.empty()) place_switches(lost, 0, columns_);
  }

  /// The first ones of each look, and one box for the rest of it.
  void place_groups(const std::vector<int>& entries) {
    std::map<std::string, std::vector<int>> groups;
    for (int e : entries) groups[parts_.looks[static_cast<std::size_t>(e)]].push_back(e);
    std::map<std::string, int> used;
    for (int e : entries) {
      const auto& group = groups.at(parts_.looks[static_cast<std::size_t>(e)]);
      const int index = used[parts_.looks[static_cast<std::size_t>(e)]]++;
      const int size = static_cast<int>(group.size());
      if (size <= keep_ || index < keep_ - 1) {
        place_group(e);
      } else if (index == keep_ - 1) {
        place_folded(std::vector<int>(group.begin() + index, group.end()));
      }
    }
  }

  void place_group(int entry) {
    const SlurmSwitch& s = parts_.tree[static_cast<std::size_t>(entry)];
    const double left = columns_;
    if (!s.children.empty()) place_groups(s.children);
    if (!s.machines.empty()) place_row(s.machines, left, 0, machine_places(s.machines));
    std::vector<int> switches = s.members;
    switches.insert(switches.end(), s.above.begin(), s.above.end());
    place_switches(switches, left, columns_ - left);
  }

  int machine_places(const std::vector<int>& machines) const { return std::min(static_cast<int>(machines.size()), keep_); }

  /// Machines side by side from column `left` on, over at least `width` columns.
  void place_row(const std::vector<int>& machines, double left, double width, int places) {
    width = std::max(width, static_cast<double>(places));
    for (int i = 0; i < places; ++i) {
      const bool is_rest = i == places - 1 && static_cast<int>(machines.size()) > places;
      const std::vector<int> members(machines.begin() + i, is_rest ? machines.end() : machines.begin() + i + 1);
      add_machines(members, left + width * (i + 0.5) / places);
    }
    columns_ = std::max(columns_, left + width);
  }

  void add_machines(const std::vector<int>& members, double x) {
    const FabricParts::Machine& first = parts_.machines[static_cast<std::size_t>(members.front())];
    SvgBox box{.x = x, .height = kSwitchHeight, .kind = DeviceKind::gpu, .is_folded = members.size() > 1};
    std::vector<std::string> names;
    for (int n : members) names.push_back(parts_.names[static_cast<std::size_t>(n)]);
    const std::string folded = fold_names(names);
    box.lines = {box.is_folded ? fmt::format("x {} more", members.size()) : names.front(), first.lines[0], first.lines[1]};
    if (box.lines[2].empty()) box.lines.pop_back();
    box.title = fmt::format("{}: {}", folded, first.looks);
    for (int n : members) machine_box_[static_cast<std::size_t>(n)] = static_cast<int>(boxes_.size());
    push(std::move(box), 0);
  }

  /// Switches tier by tier, spread over `width` columns from `left` on; more columns where they need them.
  void place_switches(const std::vector<int>& members, double left, double width) {
    std::map<int, std::vector<int>> tiers;
    for (int d : members) tiers[parts_.tier.at(d)].push_back(d);
    for (const auto& [t, list] : tiers) {
      const int size = static_cast<int>(list.size());
      const int places = std::min(size, std::max(keep_, std::min(4, static_cast<int>(width))));
      const double wide = std::max(width, static_cast<double>(places));
      for (int i = 0; i < places; ++i) {
        const bool is_rest = i == places - 1 && size > places;
        add_switches(std::vector<int>(list.begin() + i, is_rest ? list.end() : list.begin() + i + 1), left + wide * (i + 0.5) / places,
                     t + 1);
      }
      if (wide > width) centre(left, width, wide);
      width = wide;
      columns_ = std::max(columns_, left + wide);
    }
  }

  /// What stood over `width` columns from `left` on stands in the middle of `wide` ones.
  void centre(double left, double width, double wide) {
    const std::size_t fresh = boxes_.size();
    for (std::size_t i = 0; i < fresh; ++i)
      if (rows_[i] == 0 && boxes_[i].x >= left) boxes_[i].x += (wide - width) / 2;
  }

  void add_switches(const std::vector<int>& members, double x, int row) {
    const Device& first = parts_.graph.device(members.front());
    SvgBox box{.x = x, .height = kSwitchHeight, .kind = first.kind, .is_folded = members.size() > 1};
    const auto short_id = [&](int d) {
      const std::string& id = parts_.graph.device(d).id;
      return id.starts_with("fabric/") ? id.substr(7) : id;
    };
    double sum = 0;
    int wires = 0;
    for (int l : parts_.graph.links_of(members.front())) {
      sum += parts_.graph.link(l).total().gigabytes();
      wires += parts_.graph.link(l).count;
    }
    // "group3/router2" is two lines: what it is called in its group, and the group.
    const std::string id = short_id(members.front());
    const std::size_t slash = id.rfind('/');
    const bool has_group = slash != std::string::npos && !box.is_folded;
    box.lines = {box.is_folded ? fmt::format("x {} more", members.size()) : id.substr(has_group ? slash + 1 : 0),
                 fmt::format("{}{} ports", has_group ? id.substr(0, slash) + ", " : "", wires), fmt::format("{} GB/s", rounded(sum))};
    box.title = fmt::format("{}{}: {}", short_id(members.front()), box.is_folded ? " to " + short_id(members.back()) : "", first.name);
    for (int d : members) switch_box_[static_cast<std::size_t>(d)] = static_cast<int>(boxes_.size());
    push(std::move(box), row);
  }

  static std::string rounded(double GBps) { return fmt::format("{:g}", GBps < 1000 ? std::round(GBps * 10) / 10 : std::round(GBps)); }

  /// A box for the machines and one for the switches of each tier of groups that look like those already drawn.
  void place_folded(const std::vector<int>& entries) {
    std::vector<int> machines;
    std::vector<int> switches;
    std::vector<int> open = entries;
    while (!open.empty()) {
      const SlurmSwitch& s = parts_.tree[static_cast<std::size_t>(open.back())];
      open.pop_back();
      machines.insert(machines.end(), s.machines.begin(), s.machines.end());
      switches.insert(switches.end(), s.members.begin(), s.members.end());
      switches.insert(switches.end(), s.above.begin(), s.above.end());
      open.insert(open.end(), s.children.begin(), s.children.end());
    }
    std::sort(machines.begin(), machines.end());
    std::sort(switches.begin(), switches.end());
    const double x = columns_ + 0.5;
    add_machines(machines, x);
    boxes_.back().is_folded = true;
    std::map<int, std::vector<int>> tiers;
    for (int d : switches) tiers[parts_.tier.at(d)].push_back(d);
    for (const auto& [t, list] : tiers) {
      add_switches(list, x, t + 1);
      boxes_.back().is_folded = true;
    }
    columns_ += 1;
  }

  /// One box for the NVSwitches of each domain that several machines share, in the middle below them.
  void place_shared() {
    std::map<std::vector<int>, std::vector<int>> domains;  // by the boxes of the machines
    for (int d = 0; d < parts_.graph.device_count(); ++d) {
      if (!parts_.is_shared(d)) continue;
      std::set<int> boxes;
      for (int l : parts_.graph.links_of(d))
        if (const int node = parts_.graph.device(parts_.graph.other_end(l, d)).node; node >= 0)
          boxes.insert(machine_box_[static_cast<std::size_t>(node)]);
      domains[std::vector<int>(boxes.begin(), boxes.end())].push_back(d);
    }
    double free = 0;
    for (const auto& [boxes, members] : domains) {
      double x = 0;
      for (int b : boxes) x += boxes_[static_cast<std::size_t>(b)].x / static_cast<double>(boxes.size());
      x = std::max(x, free + 0.5);
      free = x + 0.5;
      columns_ = std::max(columns_, free);
      const Device& first = parts_.graph.device(members.front());
      SvgBox box{.x = x, .height = kSwitchHeight, .kind = first.kind, .is_folded = members.size() > 1};
      box.lines = {members.size() > 1 ? fmt::format("{} {}", members.size(), name_of(first.kind)) : first.id, first.name};
      box.title = fmt::format("{} to {}", first.id, parts_.graph.device(members.back()).id);
      for (int d : members) switch_box_[static_cast<std::size_t>(d)] = static_cast<int>(boxes_.size());
      push(std::move(box), -1);
    }
  }

  void push(SvgBox box, int row) {
    boxes_.push_back(std::move(box));
    rows_.push_back(row);
  }

  // ---- wires ----

  int box_of(int d) const {
    const int node = parts_.graph.device(d).node;
    return node >= 0 && !parts_.is_switch(d) ? machine_box_[static_cast<std::size_t>(node)] : switch_box_[static_cast<std::size_t>(d)];
  }

  void collect_wires() {
    std::map<std::tuple<int, int, LinkKind>, std::size_t> seen;
    sums_.clear();
    for (const Link& l : parts_.graph.links()) {
      int a = box_of(l.a);
      int b = box_of(l.b);
      if (a < 0 || b < 0) continue;
      const auto row = [&](int box) { return rows_[static_cast<std::size_t>(box)]; };
      if (parts_.graph.device(l.a).node != parts_.graph.device(l.b).node || parts_.graph.device(l.a).node < 0) {
        auto& [wires, sum] = sums_[std::minmax(row(a), row(b))];
        wires += l.count;
        sum += l.total().gigabytes();
      }
      if (a == b) {
        ++boxes_[static_cast<std::size_t>(a)].hidden_links;
        continue;
      }
      if (std::tuple{-row(a), boxes_[static_cast<std::size_t>(a)].x} > std::tuple{-row(b), boxes_[static_cast<std::size_t>(b)].x})
        std::swap(a, b);
      const auto [it, is_new] = seen.emplace(std::tuple{a, b, l.kind}, wires_.size());
      if (is_new) wires_.push_back({.from = a, .to = b, .look = {.kind = l.kind, .is_folded = box(a).is_folded || box(b).is_folded}});
      wires_[it->second].look.add(parts_.graph, l);
    }
    std::map<std::pair<int, int>, int> drawn;
    most_wires_ = 0;
    for (FabricWire& w : wires_) {
      const auto row = [&](int box) { return rows_[static_cast<std::size_t>(box)]; };
      most_wires_ = std::max(most_wires_, ++drawn[std::minmax(row(w.from), row(w.to))]);
      if (w.look.links == 1) continue;
      w.look.title += fmt::format("; {} links here, {:g} GB/s together", w.look.links, w.look.total.gigabytes());
      if (!w.look.is_folded) w.look.widest = w.look.total;  // the wires of one machine to one switch act as one
    }
  }

  SvgBox& box(int index) { return boxes_[static_cast<std::size_t>(index)]; }
  bool is_level(const FabricWire& w) const { return rows_[static_cast<std::size_t>(w.from)] == rows_[static_cast<std::size_t>(w.to)]; }
  bool hangs(const FabricWire& w) const { return is_level(w) && rows_[static_cast<std::size_t>(w.from)] <= 0; }

  /// From columns and rows to pixels, the wires' ends spread over the edges of their boxes.
  void set_rows() {
    top_ = SvgPage::content_top(2) + 20;
    for (const FabricWire& w : wires_) {
      if (!is_level(w)) continue;
      if (hangs(w)) hanging_ = 70;
      if (!hangs(w) && rows_[static_cast<std::size_t>(w.from)] == 1 + parts_.top_tier) top_ = SvgPage::content_top(2) + 60;
    }
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      boxes_[i].x = kLeft + boxes_[i].x * kSlot;
      boxes_[i].y = y_of(rows_[i]);
      boxes_[i].width = kSlot - 10;
    }
    std::map<std::pair<int, bool>, std::vector<std::pair<double, double*>>> edges;  // by box, true at its bottom
    for (FabricWire& w : wires_) {
      edges[{w.from, is_level(w) ? hangs(w) : true}].emplace_back(box(w.to).x, &w.x1);
      edges[{w.to, is_level(w) ? hangs(w) : false}].emplace_back(box(w.from).x, &w.x2);
    }
    for (auto& [edge, ends] : edges) {
      std::sort(ends.begin(), ends.end());
      const double step = std::min(10.0, (box(edge.first).width - 16) / std::max<double>(1, static_cast<double>(ends.size()) - 1));
      for (std::size_t i = 0; i < ends.size(); ++i)
        *ends[i].second = box(edge.first).x + step * (static_cast<double>(i) - static_cast<double>(ends.size() - 1) / 2);
    }
  }

  double y_of(int row) const { return top_ + kSwitchHeight / 2 + kFabricRow * (top_row() - row); }
  int top_row() const { return parts_.tier.empty() ? 0 : 1 + parts_.top_tier; }

  std::string path_of(const FabricWire& w) {
    const SvgBox& upper = box(w.from);
    const SvgBox& lower = box(w.to);
    if (!is_level(w)) return svg_line(w.x1, upper.bottom(), w.x2, lower.top());
    const double rise = std::min(20 + std::abs(upper.x - lower.x) * 0.04, 50.0);
    return hangs(w) ? svg_arc(w.x1, upper.bottom(), w.x2, lower.bottom(), -rise) : svg_arc(w.x1, upper.top(), w.x2, lower.top(), rise);
  }

  // ---- words ----

  std::string name_of_row(int row) const {
    if (row < 0) return "shared switches";
    if (row == 0) return "machines";
    if (parts_.top_tier == 0) return "switches";
    constexpr std::array<std::string_view, 3> kNames = {"leaf", "spine", "core"};
    return parts_.top_tier < 3 ? fmt::format("{} switches", kNames[static_cast<std::size_t>(row - 1)])
                               : fmt::format("switches, tier {}", row);
  }

  int count_in(int row) const {
    if (row == 0) return static_cast<int>(parts_.names.size());
    int count = 0;
    for (int d = 0; row < 0 && d < parts_.graph.device_count(); ++d) count += parts_.is_shared(d) ? 1 : 0;
    for (const auto& [d, t] : parts_.tier) count += row > 0 && t + 1 == row ? 1 : 0;
    return count;
  }

  std::string counted(int row) const {
    std::string name = name_of_row(row);
    const int count = count_in(row);
    if (count == 1 && row >= 0) name.erase(name.rfind(row > 0 ? "es" : "s"));
    return fmt::format("{} {}", count, name);
  }

  void label_rows(SvgPage& page) const {
    std::set<int> rows(rows_.begin(), rows_.end());
    for (int row : rows) page.add_text(24, y_of(row) + 4, counted(row));
    for (const auto& [pair, what] : sums_) {
      const auto& [wires, sum] = what;
      if (pair.first == pair.second) {  // beside the boxes, where the space is narrow
        if (pair.first == 0) continue;
        page.add_text(24, y_of(pair.first) + 20, fmt::format("among them {} wires,", wires));
        page.add_text(24, y_of(pair.first) + 36, fmt::format("{} GB/s", rounded(sum)));
      } else {
        page.add_text(24, (y_of(pair.first) + y_of(pair.second)) / 2 + 4, fmt::format("{} wires, {} GB/s", wires, rounded(sum)));
      }
    }
  }

  std::vector<std::string> summary() const {
    std::map<std::string, int> compute;
    int ports = 0;
    double GBps = 0;
    for (const FabricParts::Machine& m : parts_.machines) {
      for (const auto& [name, count] : m.compute) compute[name] += count;
      ports += m.ports;
      GBps += m.GBps;
    }
    std::vector<std::string> parts = {fmt::format("{} machines", parts_.names.size())};
    for (const auto& [name, count] : compute) parts.push_back(fmt::format("{} {}", count, name));
    if (!parts_.tier.empty()) parts.push_back(fmt::format("{} switches", parts_.tier.size()));
    std::vector<std::string> sums;
    if (ports > 0) sums.push_back(fmt::format("one direction: {} ports of the machines, {} GB/s", ports, rounded(GBps)));
    for (int t = 1; t <= parts_.top_tier; ++t) {
      const auto below = sums_.find({t - 1, t});
      const auto above = sums_.find({t, t + 1});
      if (below == sums_.end() || above == sums_.end() || above->second.second <= 0) continue;
      sums.push_back(fmt::format("{} to {} {:.3g}:1", name_of_row(t), name_of_row(t + 1), below->second.second / above->second.second));
    }
    return {fmt::format("{}", fmt::join(parts, ", ")), fmt::format("{}", fmt::join(sums, "; "))};
  }

  const FabricParts parts_;
  std::vector<int> switch_box_;
  std::vector<int> machine_box_;
  std::vector<SvgBox> boxes_;
  std::vector<int> rows_;
  std::vector<FabricWire> wires_;
  std::map<std::pair<int, int>, std::pair<long, double>> sums_;  // wires and GB/s between rows
  int keep_ = 8;
  int most_wires_ = 0;
  double columns_ = 0;
  double top_ = 0;
  double hanging_ = 0;
};

}  // namespace

std::string draw_fabric_svg(const Graph& graph) { return FabricDrawing(graph).draw(); }

}  // namespace peal::topology
