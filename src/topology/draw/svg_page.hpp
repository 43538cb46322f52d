// What the drawings of one machine and of a fabric share: colours, widths, boxes with text that fits, wires, the frame of the page.
//
// Every box is a <g> with one <rect>, every wire a <path>. A wire says in data-links how many links of the graph it stands for, a box how
// many it hides: together they are all links.
#pragma once

#include <base/svg.hpp>
#include <map>
#include <set>
#include <string>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

struct SvgBox {
  double x = 0;  ///< middle
  double y = 0;  ///< middle
  double width = 86;
  double height = 42;
  DeviceKind kind = DeviceKind::cpu;
  std::vector<std::string> lines = {};  ///< the first is bold
  std::string title = {};               ///< shown when the pointer rests on it
  bool is_folded = false;               ///< stands for several like its neighbours: a dashed outline
  int hidden_links = 0;

  double top() const { return y - height / 2; }
  double bottom() const { return y + height / 2; }
};

/// One or several links of the same kind between the same boxes.
struct SvgWire {
  LinkKind kind = LinkKind::pcie;
  int links = 0;
  Bandwidth widest;  ///< of one bundle of links; the width that is drawn
  Bandwidth total;   ///< of all together, one direction
  std::string title = {};
  bool is_folded = false;

  /// A further link that this wire stands for; the title is that of the last one.
  void add(const Graph& graph, const Link& link);
};

class SvgPage {
 public:
  void add(const SvgBox& box);
  /// `path` is the value of the SVG attribute `d`.
  void add(const SvgWire& wire, const std::string& path);
  /// A line of small text from `x` on (or ending there).
  void add_text(double x, double y, const std::string& text, bool ends_there = false);
  /// Everything, with a title, lines below it, and a legend of what was drawn at the bottom. Content reaches from y = content_top() to
  /// `bottom` and from 0 to `right`; the page is as wide as the title and the lines need.
  std::string finish(const std::string& title, const std::vector<std::string>& lines, double right, double bottom) const;
  static double content_top(std::size_t lines) { return svg_content_top(lines); }

 private:
  std::string legend(double y, double width, double& height) const;
  std::string boxes_, wires_, texts_;
  std::map<LinkKind, double> widest_;
  bool has_folded_ = false;
};

/// A straight path; an arc from edge to edge whose middle is `rise` pixels above (or below, negative) the higher (lower) end.
std::string svg_line(double x1, double y1, double x2, double y2);
std::string svg_arc(double x1, double y1, double x2, double y2, double rise);

}  // namespace peal::topology
