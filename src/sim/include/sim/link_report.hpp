// What `peal sim link` prints: rows of simulated questions, the figures behind them, and the comparison of ways to share data.
#pragma once

#include <sim/link.hpp>
#include <span>

namespace peal::sim {

struct LinkRow {
  LinkQuestion question;
  LinkOutcome outcome;
};

/// Two lines that start with #, a row a question, and a line that names the assumed figures.
std::string link_table(const LinkModel& model, std::span<const LinkRow> rows);
/// Schema peal.link/1, with every figure and its source.
std::string link_json(const LinkModel& model, std::span<const LinkRow> rows);
/// The figures of a link, layer by layer, with their sources.
std::string layers_table(const LinkModel& model);
/// A row a size, under lines that say what fixed costs are and where they come from. `figures`: topology::sharing_over(), which has all.
std::string sharing_table(const LinkModel& coherent, const LinkModel& other, const topology::SharingFigures& figures,
                          const LineSequence& line, std::span<const SharingRow> rows);
std::string sharing_json(const LinkModel& coherent, const LinkModel& other, const topology::SharingFigures& figures,
                         const LineSequence& line, std::span<const SharingRow> rows);

/// "1e-12", or "16..256": from the first number to the second, each `factor` times the one before, the second as the last one.
/// Numbers may be sizes (4K). At most 64 of them. `option` is named in failures.
Result<std::vector<double>> parse_link_range(std::string_view text, std::string_view option, double factor);

}  // namespace peal::sim
