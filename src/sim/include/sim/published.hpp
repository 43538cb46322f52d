// Published nccl-tests runs as a table (CSV), one row a message size: what `peal validate` holds predictions against.
//
// Columns that must be there: case_id, machine, collective, bytes, and time_us (or algbw_GBps, or busbw_GBps, from which the time follows).
// Others that are read: nodes, gpus_per_node, total_ranks, in_or_out_of_place, quality, hardware, software, notable_env, intra_link,
// inter_link, notes, date. Columns that are not known stay unread.
//
// `machine` is a name of the catalogue, a colon, how many of it, and in parentheses what narrows it (sim/case_words.hpp).
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <optional>
#include <peal/types.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace peal::sim {

struct PublishedRow {
  int line = 0;  ///< of the file
  Bytes bytes;   ///< as nccl-tests counts them
  double time_us = 0;
  bool is_in_place = false;
  std::string set_apart = {};  ///< why it is not judged (its quality, figures that contradict each other); empty: it is
};

/// Rows of one case_id that are of one run: the same machine, ranks, collective and settings.
struct PublishedCase {
  std::string id;     ///< case_id
  std::string label;  ///< unique in the table: the id, and what tells it from others of the same id
  int line = 0;       ///< of its first row
  std::string machine, hardware, software, environment, intra_link, inter_link, notes;
  std::string more_notes = {};  ///< what the source says of the run and its row does not (add_notes_text)
  std::string not_fitted = {};  ///< why constants are not fitted to it, though it is judged; empty: they are
  Collective collective = Collective::all_reduce;
  int nodes = 0, gpus_per_node = 0, ranks = 0;  ///< 0: not said
  std::vector<PublishedRow> rows;
};

/// Parses a table; `name` stands for the file in messages. Takes any bytes (limits: base/csv.hpp). What cannot be a measurement (no number,
/// a negative time, an unknown collective) is refused with FILE:LINE and the mend; figures of a row that contradict each other by more than
/// 5 %, and rows whose quality is not "good", are set apart.
Result<std::vector<PublishedCase>> read_published_text(std::string_view text, const std::string& name);
Result<std::vector<PublishedCase>> read_published_file(const std::string& path);
/// Cases of several tables as of one: each stays a run of its own, and labels are unique again.
void add_cases(std::vector<PublishedCase>& cases, std::vector<PublishedCase> more);
/// Parses a table with the columns case_id, notes (words of a run, sim/case_words.hpp, that its source has and its row has not) and, where
/// constants are not to be fitted to a case, not_fitted with the reason. Cases that it does not name stay as they are. A missing column or
/// an empty row is refused with FILE:LINE; words that mean nothing are, when the case is placed.
Status add_notes_text(std::vector<PublishedCase>& cases, std::string_view text, const std::string& name);
/// The whole file as text; refuses one that is empty or cannot be read.
Result<std::string> read_table_file(const std::string& path);

}  // namespace peal::sim
