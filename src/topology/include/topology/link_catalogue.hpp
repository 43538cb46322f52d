// Generations of links, switches and memories as data (data/links/*.yaml), and facts about them, a source on every figure.
//
//   family: nvlink                  # the table that the file fills
//   links:
//     - name: nvlink-3
//       title: NVLink 3
//       kind: nvlink                # what a machine's link becomes that says `of: nvlink-3`
//       line: {lane_Gbps: 50, lanes: 4, modulation: NRZ, source: "..."}      # or {GBps: 450, source: "..."} where no lanes are published
//       usable: {GBps: 20, source: "..."}                                    # optional; so is latency: {ns: 300, source: "..."}
//       uses:
//         - {device: A100, links: 12, both_GBps: 600, source: "..."}
//   switches: ...   memories: ...   frames: ...   facts: ...
//
// Rates are of one link and one direction unless said. `coding` is the share of the lane's bits that is left for data: "128/130", or a
// product "256/257 x 514/544". `widths: [1, 16]` stands for one generation a width ("pcie-5-x1", "pcie-5-x16"), computed from the lane.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

/// How many links of a generation a device has, and what its maker prints for all of them.
struct LinkUse {
  std::string device;   ///< "A100"
  int links = 1;        ///< of one device
  Bandwidth both = {};  ///< published total, both directions; zero: nobody states it
  std::string note = {};
  std::string source;
};

struct LinkGeneration {
  std::string name;        ///< "nvlink-3", "pcie-5-x16": what `of:` takes
  std::string family;      ///< "nvlink"
  std::string generation;  ///< "pcie-5" of "pcie-5-x16"; elsewhere the name
  std::string title;       ///< "NVLink 3"
  LinkKind kind = LinkKind::pcie;
  double lane_gbps = 0;         ///< bits of one lane and direction on the wire, Gb/s; 0: not published
  int lanes = 0;                ///< of one link and direction; 0: not published
  std::string modulation = {};  ///< "NRZ", "PAM4"
  std::string coding = {};      ///< "128/130"; empty: lane_gbps is what is left for data
  double coding_share = 1;      ///< the same as a number
  Bandwidth bandwidth;          ///< one link, one direction: lane_gbps x lanes x coding_share / 8, or as published
  Bandwidth usable;             ///< what software gets of it; equals `bandwidth` where nothing better is known
  Nanoseconds latency = {};
  std::string scope = {};          ///< constants that belong to it; by kind when empty
  std::string source;              ///< of the line rate
  std::string usable_source = {};  ///< empty: nothing better than the line rate is known
  std::string latency_source = {};
  std::vector<LinkUse> uses = {};

  /// "50 Gb/s x 4 / 8", "32 Gb/s x 16 x 128/130 / 8"; empty where no lanes are published.
  std::string arithmetic() const;
  /// "NVLink 3: 50 Gb/s x 4 / 8 (SOURCE)": what a machine's link says.
  std::string origin() const;
  /// The same generation with so many lanes, of one that has `lanes`.
  LinkGeneration of_width(int width) const;
};

struct SwitchGeneration {
  std::string name;  ///< "nvswitch-3"
  std::string family;
  std::string title;
  int ports = 0;
  Bandwidth port;           ///< one port, one direction
  Bandwidth both;           ///< published for the chip, both directions; zero: nobody states it
  std::string reduction;    ///< "no", or what it can
  std::string multicast;    ///< likewise
  std::string in_box = {};  ///< "6 in a DGX A100, 2 links of every GPU to each"
  std::string source;
};

struct MemoryGeneration {
  std::string name;     ///< "hbm3-h100-sxm"
  std::string title;    ///< "HBM3"
  std::string device;   ///< "H100 SXM5", or "one channel"
  double pin_gbps = 0;  ///< data rate of one pin, Gb/s; 0: not published
  int bits = 0;         ///< width of the interface
  Bandwidth bandwidth;  ///< pin_gbps x bits / 8, or as published
  Bandwidth published = {};
  double capacity_gb = 0;  ///< 10^9 bytes as the maker prints it; 0: not said
  std::string source;
};

/// What a packet carries besides its data.
struct FrameOverhead {
  std::string name;    ///< "tlp-64"
  std::string family;  ///< "pcie"
  std::string title;
  std::vector<std::pair<std::string, int>> parts;  ///< bytes of each part: {"header", 16}
  std::vector<int> payloads;                       ///< bytes of data for which the share is shown
  std::string source;

  int bytes() const;  ///< sum of the parts
  /// Share of the line rate that is left for data in packets of `payload` bytes.
  double share(int payload) const { return static_cast<double>(payload) / (payload + bytes()); }
};

/// One figure or sentence about something, for the tables of `peal machines --links`.
struct LinkFact {
  std::string topic;  ///< "pcie", "comparison", "outlook"
  std::string about;  ///< the row: "RoCE v2"
  std::string what;   ///< the column or the figure's name: "latency"
  double low = 0;     ///< value, or the range's ends
  double high = 0;
  std::string unit = {};  ///< "GB/s", "us"; with it goes a figure
  std::string text = {};  ///< words instead of, or beside, a figure
  std::string source;
  bool has_value = false;
};

struct LinkCatalogue {
  std::vector<LinkGeneration> links;
  std::vector<SwitchGeneration> switches;
  std::vector<MemoryGeneration> memories;
  std::vector<FrameOverhead> frames;
  std::vector<LinkFact> facts;
  double both_ways_through_cpu = 0;  ///< pcie_both_ways_through_cpu(); 0: no file said it
};

/// Everything in data/links, read once a process. Thread-safe; the catalogue lives as long as the process.
Result<const LinkCatalogue*> link_catalogue();
/// One generation; an unknown name fails with the nearest match.
Result<const LinkGeneration*> link_generation(std::string_view name);
/// The generations of PCIe, slowest first, of one lane each; empty where the data cannot be read. Reads that family's file alone.
const std::vector<const LinkGeneration*>& pcie_generations();
/// The share of its two directions together that a slot carries while a GPU speaks to another through a CPU; 1 where the data cannot be
/// read. Measured, data/links/pcie.yaml.
double pcie_both_ways_through_cpu();
/// The one that runs at `gtps` as tools print it (within 2 %), or null.
const LinkGeneration* pcie_generation(double gtps);
/// Parses one file's text; `name` stands for the file in messages. Takes any bytes: limits of our YAML form, at most 10,000 records.
Result<LinkCatalogue> read_links_text(std::string_view text, const std::string& name);

}  // namespace peal::topology
