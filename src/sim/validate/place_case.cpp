#include <algorithm>
#include <sim/case_words.hpp>
#include <topology/machine.hpp>

#include "narrow_machine.hpp"
#include "table_fields.hpp"

namespace peal::sim {
namespace {

using topology::Cluster;
using topology::Graph;

/// Devices of the ranks: `count` spread over the nodes, the same number on each as far as it goes, node after node.
Result<std::vector<int>> spread_ranks(const Cluster& cluster, int count) {
  std::vector<std::vector<int>> places(static_cast<std::size_t>(cluster.nodes()));
  for (int r = 0; r < cluster.ranks(); ++r) {
    const int device = cluster.device_of_rank(r);
    places[static_cast<std::size_t>(cluster.node_of(device))].push_back(device);
  }
  places.erase(std::remove_if(places.begin(), places.end(), [](const auto& p) { return p.empty(); }), places.end());
  if (places.empty()) return fail(ErrorCode::unsupported, "the cluster has no GPU that a rank could sit on");
  if (count == 0) count = cluster.ranks();
  if (count > kMostRanks) return fail(ErrorCode::unsupported, "{} ranks are more than the {} of a case", count, kMostRanks);
  if (count > cluster.ranks())
    return fail(ErrorCode::unsupported, "{} ranks are more than the {} GPUs of {} x {}", count, cluster.ranks(), cluster.copies(),
                cluster.machine().title);
  const auto each = static_cast<std::size_t>((count + static_cast<int>(places.size()) - 1) / static_cast<int>(places.size()));
  std::vector<int> devices;
  for (const std::vector<int>& node : places)
    for (std::size_t i = 0; i < std::min(each, node.size()); ++i)
      if (devices.size() < static_cast<std::size_t>(count)) devices.push_back(node[i]);
  if (devices.size() < static_cast<std::size_t>(count))
    return fail(ErrorCode::unsupported, "{} ranks cannot be spread evenly over {} unlike nodes: give as many as they have GPUs", count,
                places.size());
  return devices;
}

/// Ranks in all as the columns have them, 0 where they do not; what they say twice must agree.
Result<int> ranks_of(const PublishedCase& published, const CaseWords& words, int copies) {
  const long long by_words = words.gpus > 0 ? static_cast<long long>(words.gpus) * copies : words.gpus_all;
  if (by_words > kMostRanks) return fail(ErrorCode::unsupported, "{} GPUs are more than the {} of a case", by_words, kMostRanks);
  if (published.ranks > 0 && by_words > 0 && by_words != published.ranks)
    return fail(ErrorCode::unsupported, "contradictory: machine '{}' means {} GPUs, the columns mean {}", published.machine, by_words,
                published.ranks);
  if (published.ranks > 0) return published.ranks;
  if (by_words > 0) return static_cast<int>(by_words);
  return published.gpus_per_node > 0 ? published.gpus_per_node * copies : 0;
}

int copies_of(const PublishedCase& published, const CaseWords& words) {
  return words.copies > 0 ? words.copies : std::max(published.nodes, 1);
}

Result<Cluster> cluster_of_words(const PublishedCase& published, const CaseWords& words) {
  const int copies = copies_of(published, words);
  PEAL_ASSIGN(Graph machine, topology::load_machine(words.machine));
  PEAL_ASSIGN(const int ranks, ranks_of(published, words, copies));
  if (!words.has_nvlink) {
    PEAL_ASSIGN(machine, without_nvlink(machine));
  }
  if (copies > 1 && words.network.is_said()) {
    std::vector<int> gpus = machine.compute_devices();
    const int each = ranks == 0 ? static_cast<int>(gpus.size()) : (ranks + copies - 1) / copies;
    gpus.resize(static_cast<std::size_t>(std::clamp(each, 1, static_cast<int>(gpus.size()))));
    PEAL_ASSIGN(machine, with_network(machine, words.network, gpus));
  }
  return topology::build_cluster(std::move(machine), copies);
}

/// The network's name among the constants, where the words say another than the machine's. A cloud's own kind of a network (EFA before or
/// after P5, RoCE with GCP's plugin) stands at the machine's NICs, and its words say the family alone.
std::string network_of(const CaseWords& words, const Cluster& cluster) {
  const std::string& said = words.network.technology;
  if (said == "ethernet") return "tcp";
  const auto& devices = cluster.machine().devices();
  const auto has_own = [&](std::string_view start) {
    return std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d.attribute("network").starts_with(start); });
  };
  if (said == "roce") return has_own("roce") ? "" : said;
  if (said == "efa") return has_own("efa") ? "" : "efa-1";
  return said;
}

/// Where a file describes the cluster, a machine column that means nothing is no obstacle.
Result<CaseWords> words_of_case(const PublishedCase& published, bool has_file) {
  auto words = read_case_words(published);
  if (words || !has_file) return words;
  PublishedCase bare = published;
  bare.machine = "file";
  PEAL_ASSIGN(CaseWords rest, read_case_words(bare));
  rest.remarks.push_back(fmt::format("of machine '{}' nothing is taken: a file describes the cluster", published.machine));
  return rest;
}

}  // namespace

Result<PlacedCase> place_case(const PublishedCase& published, const std::string& cluster_file) {
  PEAL_ASSIGN(CaseWords words, words_of_case(published, !cluster_file.empty()));
  if (!words.unsupported.empty()) return fail(ErrorCode::unsupported, "{}, which is not predicted", words.unsupported);
  PEAL_ASSIGN(Cluster cluster, cluster_file.empty() ? cluster_of_words(published, words) : topology::read_cluster_file(cluster_file));
  if (words.may_sum_in_network && cluster.nodes() > 1 && is_on_infiniband(cluster.machine()))
    return fail(ErrorCode::unsupported, "NCCL_COLLNET_ENABLE=1 lets InfiniBand's switches sum (SHARP), which is not predicted");
  const int copies = cluster_file.empty() ? copies_of(published, words) : cluster.nodes();
  PEAL_ASSIGN(const int ranks, ranks_of(published, words, copies));
  PEAL_ASSIGN(std::vector<int> devices, spread_ranks(cluster, ranks));
  if (devices.size() < 2) return fail(ErrorCode::unsupported, "one rank alone has nothing to exchange");
  words.options.whose = library_of(cluster, devices[0]);
  words.options.network = network_of(words, cluster);
  return PlacedCase{std::move(cluster), std::move(devices), std::move(words)};
}

}  // namespace peal::sim
