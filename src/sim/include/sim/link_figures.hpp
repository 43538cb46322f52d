// Published figures of single links (matrices of p2pBandwidthLatencyTest, nvbandwidth) as a table, held against the link catalogue.
//
// Columns that must be there: case_id, quantity (bandwidth, latency), link, value_low, value_high. Read where they are there: direction
// (bidir: both directions summed), p2p_enabled, unit, quality, notes.
//
// Predicted is a bandwidth: the usable rate of the link's generation times its wires, twice of it in both directions. A figure is a range;
// the error is the distance of the prediction from it, by the end that is nearer, and zero inside.
#pragma once

#include <base/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peal::sim {

struct LinkFigure {
  int line = 0;
  std::string id, link, direction;
  bool is_staged = false;  ///< through host memory
  double low = 0, high = 0;
  std::string unit;
  std::string generation = {};  ///< of data/links: "nvlink-4", "pcie-5-x16"
  int wires = 1;
  std::optional<double> predicted;  ///< GB/s
  std::string why_not = {};         ///< why it is not predicted, or does not count
  bool is_judged() const { return predicted.has_value() && why_not.empty(); }
  double signed_error() const;  ///< needs `predicted`; above zero: more than was measured
};

/// True for a table of links by its first line; false for anything else, also for what is no table.
bool is_link_table(std::string_view text);

/// Parses and predicts; `name` stands for the file in messages. Takes any bytes (limits: base/csv.hpp).
Result<std::vector<LinkFigure>> read_link_figures(std::string_view text, const std::string& name);

struct LinkErrors {
  int rows = 0;
  double median = 0, p90 = 0, worst = 0;
};
LinkErrors errors_of(const std::vector<LinkFigure>& figures);

std::string link_figures_text(const std::string& file, const std::vector<LinkFigure>& figures);
std::string link_figures_json(const std::string& file, const std::vector<LinkFigure>& figures);  ///< schema peal.validate.links/1
std::string link_figures_csv(const std::vector<LinkFigure>& figures);

}  // namespace peal::sim
