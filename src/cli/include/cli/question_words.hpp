// What is asked about one collective on some machine, as explain and sim take it.
#pragma once

#include <base/result.hpp>
#include <cli/cluster_words.hpp>
#include <sim/simulate.hpp>
#include <string>
#include <tuning/select.hpp>
#include <vector>

namespace peal::cli {

struct QuestionWords {
  ClusterWords cluster;
  std::string collective, type = "f32", transport = "auto", algorithm, protocol, partial_sums = "element";
  std::vector<std::string> dead_links;
  std::string places;  ///< "0-31": that the ranks sit on; empty: from the first on
  int ranks = 0, root = 0, groups = 0;
  bool deterministic = false;
  std::string congestion = "auto", gpudirect = "on";
  std::string cores;               ///< on this host: how far they are from each other; empty: where the table of `peal tune` has most
  std::string whose = "peal";      ///< behaviour is asked for: a library's name
  std::string nccl_version;        ///< "2.18"; empty: a recent one
  std::string processes = "each";  ///< each GPU has one, or one has all of a node
};

void add_question_options(CLI::App& command, QuestionWords& words);

/// Where the ranks sit, with --places.
Result<std::vector<int>> devices_of_places(const QuestionWords& words, const topology::Cluster& cluster);
/// The ranks on their devices, ready to be asked.
Result<sim::Scene> scene_of(const QuestionWords& words);
/// The timeline of a study that kept its trace, as SVG.
std::string timeline_of(const QuestionWords& words, const sim::Scene& scene, const sim::Study& study);
/// The question without its size.
Result<tuning::Question> question_of(const QuestionWords& words, int ranks);

}  // namespace peal::cli
