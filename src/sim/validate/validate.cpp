#include <sim/validate.hpp>

#include <algorithm>
#include <base/names.hpp>
#include <filesystem>
#include <set>

#include "contradictions.hpp"
#include "statistics.hpp"

namespace peal::sim {
namespace {

std::string generation_of(const topology::Device& gpu) {
  for (const std::string_view key : {"sm", "gfx"})
    if (const std::string_view value = gpu.attribute(key); !value.empty()) return fmt::format("{} {}", key, value);
  return gpu.name.empty() ? std::string("unknown") : gpu.name;
}

/// DIR/<case_id>.yaml where it is there.
std::string cluster_file_of(const std::string& folder, const std::string& id) {
  if (folder.empty() || id.find('/') != std::string::npos) return {};
  const std::filesystem::path path = std::filesystem::path(folder) / (id + ".yaml");
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ? path.string() : std::string();
}

PredictedRow predict_row(const LibraryModel& model, const PredictedCase& c, DataType type, PublishedRow measured) {
  PredictedRow row{std::move(measured), {}, {}};
  auto answer = model.predict({c.published.collective, row.measured.bytes, type, row.measured.is_in_place, 0});
  if (answer && answer->time.value > 0)
    row.answer = *std::move(answer);
  else
    row.why_not = answer ? "the model answers with no time" : answer.error().message;
  return row;
}

std::string setting_of(const PublishedCase& published, const PlacedCase& placed) {
  const CaseWords& w = placed.words;
  const LibraryOptions& o = w.options;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", w.machine, name_of(published.collective), placed.cluster.nodes(),
                     placed.device_of_rank.size(), w.network.technology, w.network.nics, w.network.gbps, w.has_nvlink, o.one_process,
                     o.algorithm.value_or("") + "/" + o.protocol.value_or(""), o.is_gdr_off * 4 + o.is_nvls_off * 2 + o.is_p2p_off,
                     o.channels, name_of(w.type));
}

Status predict_case(PredictedCase& c, std::vector<PublishedRow> rows, const ValidateOptions& options) {
  PEAL_ASSIGN(const PlacedCase placed, place(c.published, options));
  const topology::Cluster& cluster = placed.cluster;
  std::set<int> nodes;
  for (const int device : placed.device_of_rank) nodes.insert(cluster.node_of(device));
  c.nodes = static_cast<int>(nodes.size());
  c.ranks = static_cast<int>(placed.device_of_rank.size());
  c.whose = placed.words.options.whose;
  c.title = cluster.machine().title;
  c.generation = generation_of(cluster.device(placed.device_of_rank[0]));
  c.remarks = placed.words.remarks;
  c.setting = setting_of(c.published, placed);
  PEAL_ASSIGN(const LibraryModel model, LibraryModel::make(cluster, placed.device_of_rank, placed.words.options, *options.constants));
  for (PublishedRow& row : rows) c.rows.push_back(predict_row(model, c, placed.words.type, std::move(row)));
  return {};
}

/// A case that cannot be predicted keeps its rows, each with the reason.
PredictedCase predicted(PublishedCase published, const ValidateOptions& options) {
  PredictedCase c;
  std::vector<PublishedRow> rows = std::exchange(published.rows, {});
  c.published = std::move(published);
  if (const Status done = predict_case(c, rows, options); !done) c.why_not = done.error().message;
  if (c.why_not.empty() && std::none_of(c.rows.begin(), c.rows.end(), [](const PredictedRow& r) { return r.answer.has_value(); }))
    c.why_not = c.rows.front().why_not;
  if (c.rows.empty())
    for (PublishedRow& row : rows) c.rows.push_back({std::move(row), {}, c.why_not});
  return c;
}

/// Where more is known of a case than its row says: what, and how far off the table's words alone would be.
void compare_with_words(PredictedCase& c, PublishedCase published, ValidateOptions options) {
  if (!published.not_fitted.empty()) c.remarks.push_back(fmt::format("no constant is fitted to it: {}", published.not_fitted));
  const std::string file = cluster_file_of(options.clusters, published.id);
  if ((file.empty() && published.more_notes.empty()) || !c.why_not.empty()) return;
  std::vector<std::string> known;
  if (!file.empty()) known.push_back(fmt::format("its cluster is that of {}: {}", file, c.title));
  if (!published.more_notes.empty()) known.push_back(fmt::format("its source says, beyond the table: {}", published.more_notes));
  std::string remark = fmt::to_string(fmt::join(known, "; "));
  options.clusters.clear();
  published.more_notes.clear();
  const PredictedCase bare = predicted(std::move(published), options);
  for (int range = 0; range < kSizeRanges; ++range) {
    const Errors by_words = errors_of({&bare}, range);
    if (by_words.rows > 0)
      remark += fmt::format("; {}: {:.0f} % off, by the words alone {:.0f} %", name_of_range(range), 100 * errors_of({&c}, range).median,
                            100 * by_words.median);
  }
  c.remarks.push_back(std::move(remark));
}

}  // namespace

Result<PlacedCase> place(const PublishedCase& published, const ValidateOptions& options) {
  PEAL_ASSIGN(PlacedCase placed, place_case(published, cluster_file_of(options.clusters, published.id)));
  if (options.whose) placed.words.options.whose = *options.whose;
  return placed;
}

Result<ValidateOptions> with_constants(ValidateOptions options) {
  if (!options.constants) {
    PEAL_ASSIGN(options.constants, topology::LibraryConstants::from_data());
  }
  return options;
}

Result<Validation> validate(std::string file, std::vector<PublishedCase> cases, const ValidateOptions& asked) {
  PEAL_ASSIGN(const ValidateOptions options, with_constants(asked));
  Validation v;
  v.file = std::move(file);
  for (PublishedCase& c : cases) {
    if (options.progress) options.progress(fmt::format("{}: {} rows", c.label, c.rows.size()));
    v.cases.push_back(predicted(c, options));
    compare_with_words(v.cases.back(), std::move(c), options);
  }
  const std::vector<const PredictedCase*> all = pointers_to(v.cases);
  v.errors = errors_by_size(all);
  v.all = errors_of(all, -1);
  weigh_evidence(v, *options.constants);
  v.classes = classes_of(v);
  v.disagreements = disagreements_of(v.cases);
  v.tensions = tensions_of(v.cases);
  return v;
}

}  // namespace peal::sim
