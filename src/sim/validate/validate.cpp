#include <sim/validate.hpp>

#include <algorithm>
#include <base/names.hpp>
#include <cmath>
#include <filesystem>
#include <set>
#include <sim/case_words.hpp>

#include "statistics.hpp"

namespace peal::sim {
namespace {

constexpr double kDisagreement = 0.25;
constexpr int kLeastFar = 3;
constexpr int kShareFar = 10;  // one row in ten

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
                     o.algorithm.value_or("") + "/" + o.protocol.value_or(""), o.is_nvls_off * 2 + o.is_p2p_off, o.channels,
                     name_of(w.type));
}

Status predict_case(PredictedCase& c, std::vector<PublishedRow> rows, const ValidateOptions& options) {
  PEAL_ASSIGN(PlacedCase placed, place_case(c.published, cluster_file_of(options.clusters, c.published.id)));
  if (options.library) placed.words.options.library = *options.library;
  const topology::Cluster& cluster = placed.cluster;
  std::set<int> nodes;
  for (const int device : placed.device_of_rank) nodes.insert(cluster.node_of(device));
  c.nodes = static_cast<int>(nodes.size());
  c.ranks = static_cast<int>(placed.device_of_rank.size());
  c.library = placed.words.options.library;
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

std::map<std::pair<std::uint64_t, bool>, double> times_of(const PredictedCase& c) {
  std::map<std::pair<std::uint64_t, bool>, double> times;
  for (const PredictedRow& row : c.rows)
    if (row.measured.set_apart.empty()) times[{row.measured.bytes.value, row.measured.is_in_place}] = row.measured.time_us;
  return times;
}

std::optional<Disagreement> disagreement_of(const PredictedCase& a, const PredictedCase& b) {
  const auto before = times_of(a);
  std::vector<double> differences;
  for (const auto& [size, time] : times_of(b))
    if (const auto it = before.find(size); it != before.end())
      differences.push_back(std::abs(time - it->second) / std::min(time, it->second));
  const auto far = std::count_if(differences.begin(), differences.end(), [](double d) { return d > kDisagreement; });
  const int rows = static_cast<int>(differences.size());
  if (far < kLeastFar || far * kShareFar < rows) return std::nullopt;
  return Disagreement{a.published.label, b.published.label, rows, static_cast<int>(far), percentile(std::move(differences), 0.5)};
}

std::vector<Disagreement> disagreements_of(const std::vector<PredictedCase>& cases) {
  std::map<std::string, std::vector<const PredictedCase*>> by_setting;
  for (const PredictedCase& c : cases)
    if (!c.setting.empty()) by_setting[c.setting].push_back(&c);
  std::vector<Disagreement> found;
  for (const auto& [setting, same] : by_setting) {
    for (std::size_t i = 1; i < same.size(); ++i)
      if (auto one = disagreement_of(*same[i - 1], *same[i])) found.push_back(*std::move(one));
  }
  return found;
}

}  // namespace

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
    v.cases.push_back(predicted(std::move(c), options));
  }
  std::vector<const PredictedCase*> all;
  for (const PredictedCase& c : v.cases) all.push_back(&c);
  for (int range = 0; range < kSizeRanges; ++range) v.errors[static_cast<std::size_t>(range)] = errors_of(all, range);
  v.all = errors_of(all, -1);
  weigh_evidence(v, *options.constants);
  v.classes = classes_of(v);
  v.disagreements = disagreements_of(v.cases);
  return v;
}

}  // namespace peal::sim
