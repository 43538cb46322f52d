#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <topology/link_tables.hpp>

namespace peal::topology {
namespace {

/// 15.75, 25, 900: four digits are more than any source has.
std::string number(double value) { return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value); }
/// A rate on the wire or a measurement, as it was printed: 25.78125, 371.02.
std::string exact(double value) { return fmt::format("{:.8g}", value); }
std::string number(Bandwidth rate) { return number(rate.gigabytes()); }
std::string number_or_blank(double value) { return value > 0 ? number(value) : std::string(); }
std::string exact_or_blank(double value) { return value > 0 ? exact(value) : std::string(); }

/// Rows under a header, columns as wide as their widest cell; figures to the right, words to the left.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  bool is_empty() const { return rows_.size() == 1; }

  std::string text() const {
    std::vector<std::size_t> widths(rows_.front().size());
    std::vector<char> is_figure(widths.size(), 1);
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (std::size_t c = 0; c < widths.size(); ++c) {
        const std::string& cell = rows_[r][c];
        widths[c] = std::max(widths[c], cell.size());
        if (r > 0 && cell.find_first_not_of("0123456789.") != std::string::npos) is_figure[c] = 0;
      }
    std::string out;
    for (const auto& row : rows_) {
      std::string line = " ";
      for (std::size_t c = 0; c < widths.size(); ++c)
        line += is_figure[c] != 0 ? fmt::format(" {:>{}} ", row[c], widths[c]) : fmt::format(" {:<{}} ", row[c], widths[c]);
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string words_of(const LinkFact& fact) {
  std::string out;
  if (fact.has_value) {
    out = fact.low == fact.high ? exact(fact.low) : fmt::format("{} to {}", exact(fact.low), exact(fact.high));
    if (!fact.unit.empty()) out += " " + fact.unit;
  }
  if (fact.text.empty()) return out;
  return out.empty() ? fact.text : fmt::format("{} ({})", out, fact.text);
}

class Printer {
 public:
  explicit Printer(const LinkCatalogue& catalogue) : all_(catalogue) {}

  std::string print(bool with_sources) {
    std::string out =
        "Links by generation. GB/s are 10^9 bytes a second, one direction unless said. usable: what software gets or a planner counts "
        "with.\n"
        "A blank cell: nobody states it in a source that was found.\n";
    out += pcie();
    out += lanes_to_device("NVLink", "nvlink");
    out += switches();
    out += lanes_to_device("AMD Infinity Fabric between GPUs (xGMI)", "xgmi");
    out += lanes_to_device("Ascend HCCS", "hccs");
    out += plain("Between sockets (a link; usable: the pair of sockets)", "cpu");
    out += memories();
    out += plain("InfiniBand", "infiniband");
    out += plain("Ethernet and what runs over it", "ethernet");
    out += pivot("How TCP, iWARP, RoCE v2 and InfiniBand compare", "comparison");
    out += pivot("Outlook: between dies, copper, optics", "outlook");
    if (!with_sources) return out + fmt::format("\n[1] to [{}]: sources; `peal machines --links --sources` prints them\n", sources_.size());
    out += "\nSources\n";
    for (std::size_t i = 0; i < sources_.size(); ++i) out += fmt::format("  [{}] {}\n", i + 1, sources_[i]);
    return out;
  }

 private:
  /// "[7]" for a source; the same source has the same number everywhere.
  std::string note(const std::string& source) {
    if (source.empty()) return {};
    const auto [it, is_new] = numbers_.emplace(source, sources_.size() + 1);
    if (is_new) sources_.push_back(source);
    return fmt::format("[{}]", it->second);
  }

  std::string notes(std::initializer_list<const std::string*> sources) {
    std::string out;
    std::set<std::string> seen;
    for (const std::string* source : sources)
      if (seen.insert(*source).second) out += note(*source);
    return out;
  }

  std::string pcie() {
    TextTable table({"generation", "lane Gb/s", "modulation", "coding", "x1", "x4", "x8", "x16", "x16 both ways", "x16 usable", "sources"});
    std::vector<std::string> seen;
    for (const LinkGeneration& first : all_.links) {
      if (first.family != "pcie" || std::find(seen.begin(), seen.end(), first.generation) != seen.end()) continue;
      seen.push_back(first.generation);
      std::vector<std::string> row = {first.generation, exact(first.lane_gbps), first.modulation, first.coding};
      const LinkGeneration* widest = &first;
      for (const int width : {1, 4, 8, 16}) {
        const auto it = std::find_if(all_.links.begin(), all_.links.end(),
                                     [&](const LinkGeneration& l) { return l.generation == first.generation && l.lanes == width; });
        row.push_back(it == all_.links.end() ? std::string() : number(it->bandwidth));
        if (width == 16 && it != all_.links.end()) widest = &*it;
      }
      row.push_back(number(2 * widest->bandwidth.gigabytes()));
      row.push_back(number(widest->usable));
      row.push_back(notes({&first.source, &first.usable_source}));
      table.add(std::move(row));
    }
    return section("PCI Express (GB/s = lane Gb/s x lanes x coding / 8)", table) + more("pcie");
  }

  /// Lane to link to device: every step of the multiplication is a column.
  std::string lanes_to_device(const std::string& title, const std::string& family) {
    TextTable table({"of:", "device", "modulation", "lane Gb/s", "x lanes", "/ 8 = a link", "x links", "= each way", "x 2 = both",
                     "published", "usable a link", "sources"});
    for (const LinkGeneration& l : all_.links) {
      if (l.family != family) continue;
      const std::string lanes = l.lanes > 0 ? std::to_string(l.lanes) : std::string();
      const std::string usable = l.usable_source.empty() ? std::string() : number(l.usable);
      for (const LinkUse& use : l.uses) {
        const double each = l.bandwidth.gigabytes() * use.links;
        table.add({l.name, use.note.empty() ? use.device : fmt::format("{} ({})", use.device, use.note), l.modulation,
                   exact_or_blank(l.lane_gbps), lanes, number(l.bandwidth), std::to_string(use.links), number(each), number(2 * each),
                   number_or_blank(use.both.gigabytes()), usable, notes({&l.source, &use.source, &l.usable_source})});
      }
      if (l.uses.empty())
        table.add({l.name, l.title, l.modulation, exact_or_blank(l.lane_gbps), lanes, number(l.bandwidth), "", "", "", "", usable,
                   notes({&l.source, &l.usable_source})});
    }
    return section(title, table) + more(family);
  }

  std::string switches() {
    TextTable table(
        {"chip", "ports", "x a port", "= each way", "x 2 = both", "published", "reduction", "multicast", "in a machine", "sources"});
    for (const SwitchGeneration& s : all_.switches) {
      const double each = s.ports * s.port.gigabytes();
      table.add({s.name, std::to_string(s.ports), number(s.port), number(each), number(2 * each), number_or_blank(s.both.gigabytes()),
                 s.reduction, s.multicast, s.in_box, note(s.source)});
    }
    return section("NVSwitch", table) + more("nvswitch");
  }

  std::string plain(const std::string& title, const std::string& family) {
    TextTable table({"of:", "modulation", "lane Gb/s", "x lanes", "x coding", "/ 8 = GB/s", "usable", "sources"});
    for (const LinkGeneration& l : all_.links) {
      if (l.family != family) continue;
      table.add({l.name, l.modulation, exact_or_blank(l.lane_gbps), l.lanes > 0 ? std::to_string(l.lanes) : std::string(), l.coding,
                 number(l.bandwidth), l.usable_source.empty() ? std::string() : number(l.usable), notes({&l.source, &l.usable_source})});
    }
    return section(title, table) + more(family);
  }

  std::string memories() {
    TextTable table({"memory", "of", "Gb/s a pin", "x bits", "/ 8 = GB/s", "published", "GB", "sources"});
    for (const MemoryGeneration& m : all_.memories)
      table.add({m.title, m.device, exact_or_blank(m.pin_gbps), m.bits > 0 ? std::to_string(m.bits) : std::string(), number(m.bandwidth),
                 number_or_blank(m.published.gigabytes()), number_or_blank(m.capacity_gb), note(m.source)});
    return section("Memory", table) + more("memory");
  }

  std::string frames(const std::string& family) {
    std::string out;
    for (const FrameOverhead& f : all_.frames) {
      if (f.family != family) continue;
      std::vector<std::string> parts;
      for (const auto& [part, bytes] : f.parts) parts.push_back(fmt::format("{} {}", part, bytes));
      std::vector<std::string> shares;
      for (const int payload : f.payloads) shares.push_back(fmt::format("{} B {:.1f} %", payload, 100 * f.share(payload)));
      out += fmt::format("  {}: {} = {} bytes; data are {} {}\n", f.title, fmt::join(parts, " + "), f.bytes(), fmt::join(shares, ", "),
                         note(f.source));
    }
    return out.empty() ? out : "  share of data in a packet\n" + indent(out);
  }

  /// What belongs to a family besides its table. In this order, so that notes are numbered as they are read.
  std::string more(const std::string& family) {
    std::string out = frames(family);
    out += facts(family);
    return out;
  }

  std::string facts(const std::string& topic) {
    std::string out;
    for (const LinkFact& f : all_.facts)
      if (f.topic == topic) out += fmt::format("  {}: {}: {} {}\n", f.about, f.what, words_of(f), note(f.source));
    return out.empty() ? out : "  what else is known\n" + indent(out);
  }

  /// Facts of one topic as a table: a row for each thing, a column for each property.
  std::string pivot(const std::string& title, const std::string& topic) {
    std::vector<std::string> header = {""};
    std::vector<std::string> rows;
    const auto place = [](std::vector<std::string>& in, const std::string& word) {
      const auto it = std::find(in.begin(), in.end(), word);
      if (it != in.end()) return static_cast<std::size_t>(it - in.begin());
      in.push_back(word);
      return in.size() - 1;
    };
    std::map<std::pair<std::size_t, std::size_t>, std::string> cells;
    for (const LinkFact& f : all_.facts) {
      if (f.topic != topic) continue;
      std::string& cell = cells[{place(rows, f.about), place(header, f.what)}];
      cell += (cell.empty() ? "" : "; ") + fmt::format("{} {}", words_of(f), note(f.source));
    }
    TextTable table(header);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<std::string> row(header.size());
      row[0] = rows[r];
      for (std::size_t c = 1; c < header.size(); ++c)
        if (const auto it = cells.find({r, c}); it != cells.end()) row[c] = it->second;
      table.add(std::move(row));
    }
    return section(title, table);
  }

  static std::string section(const std::string& title, const TextTable& table) {
    return table.is_empty() ? std::string() : fmt::format("\n{}\n{}", title, table.text());
  }

  static std::string indent(const std::string& lines) {
    std::string out = "  ";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      out += lines[i];
      if (lines[i] == '\n' && i + 1 < lines.size()) out += "  ";
    }
    return out;
  }

  const LinkCatalogue& all_;
  std::vector<std::string> sources_;
  std::map<std::string, std::size_t> numbers_;
};

}  // namespace

std::string link_tables(const LinkCatalogue& catalogue, bool with_sources) { return Printer(catalogue).print(with_sources); }

}  // namespace peal::topology
