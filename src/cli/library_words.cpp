#include <cli/fault_options.hpp>
#include <cli/library_words.hpp>
#include <set>
#include <tuning/placement.hpp>

namespace peal::cli {

namespace {

/// Of all ranks.
Result<std::vector<int>> all_devices_of(const QuestionWords& words, const topology::Cluster& cluster) {
  if (!words.places.empty()) return devices_of_places(words, cluster);
  const int ranks = words.ranks > 0 ? words.ranks : cluster.ranks();
  if (ranks > cluster.ranks())
    return fail(ErrorCode::invalid_argument, "{} ranks, but the cluster has {} GPUs: type --ranks {} or more --nodes", ranks,
                cluster.ranks(), cluster.ranks());
  return tuning::spread(cluster, ranks);
}

/// The first group's of them. Groups of one node do not meet on NVLink switches or a mesh of links; groups that leave their nodes share
/// NICs, which is not in the formula.
Result<std::vector<int>> first_group_of(const QuestionWords& words, const topology::Cluster& cluster, std::vector<int> devices) {
  const auto ranks = static_cast<int>(devices.size());
  if (words.groups <= 0) return devices;
  if (ranks % words.groups != 0)
    return fail(ErrorCode::invalid_argument, "{} ranks cannot be split into groups of {}; give --groups a divisor of {}", ranks,
                words.groups, ranks);
  devices.resize(static_cast<std::size_t>(words.groups));
  std::set<int> nodes;
  for (const int device : devices) nodes.insert(cluster.node_of(device));
  if (nodes.size() > 1 && words.groups < ranks)
    return fail(ErrorCode::unsupported,
                "groups of {} leave their nodes and share NICs, which is not known of {}; leave --library out to simulate them",
                words.groups, words.whose);
  return devices;
}

Status set_version_and_processes(const QuestionWords& words, sim::LibraryOptions& options) {
  if (!words.nccl_version.empty() && options.whose != sim::Library::nccl)
    return fail(ErrorCode::invalid_argument, "--library-version is known of nccl; leave it out with --library {}", words.whose);
  const std::string& version = words.nccl_version;
  const bool is_version =
      version.empty() || (version.starts_with("2.") && version.size() > 2 && version.back() != '.' &&
                          version.find("..") == std::string::npos && version.find_first_not_of("0123456789.") == std::string::npos);
  if (!is_version)
    return fail(ErrorCode::invalid_argument, "--library-version {} is no version of NCCL 2; give it as 2.18 or 2.18.5", version);
  options.version = version;
  if (words.processes != "each" && words.processes != "one")
    return fail(ErrorCode::invalid_argument,
                "--processes {} is neither each nor one; type each (a process for each GPU) or one (for all GPUs of a node)",
                words.processes);
  options.one_process = words.processes == "one";
  if (options.one_process && options.whose == sim::Library::hccl)
    return fail(ErrorCode::invalid_argument, "--processes one is not known of hccl; leave it out");
  return {};
}

}  // namespace

Result<LibraryScene> library_scene_of(const QuestionWords& words) {
  sim::LibraryOptions options;
  PEAL_ASSIGN(options.whose, sim::parse_library(words.whose));
  PEAL_TRY(set_version_and_processes(words, options));
  if (!words.algorithm.empty()) options.algorithm = words.algorithm;
  if (!words.protocol.empty()) options.protocol = words.protocol;
  if (words.transport == "tcp") options.network = "tcp";
  PEAL_ASSIGN(options.is_gdr_off, is_staged(words));
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  PEAL_ASSIGN(std::vector<int> all, all_devices_of(words, cluster));
  const std::size_t ranks = all.size();
  PEAL_ASSIGN(const std::vector<int> devices, first_group_of(words, cluster, std::move(all)));
  PEAL_ASSIGN(sim::LibraryModel model, sim::LibraryModel::make(cluster, devices, options));
  tuning::Call call;
  PEAL_ASSIGN(call.collective, parse_collective(words.collective));
  PEAL_ASSIGN(call.type, parse_data_type(words.type));
  std::set<int> nodes;
  for (const int device : devices) nodes.insert(cluster.node_of(device));
  sim::Table table;
  table.collective = call.collective;
  table.ranks = static_cast<int>(devices.size());
  table.groups = words.groups > 0 ? static_cast<int>(ranks) / words.groups : 1;
  table.nodes = static_cast<int>(nodes.size());
  table.machine = cluster.machine().title;
  table.wires = words.whose;
  return LibraryScene{std::move(model), std::move(table), call};
}

}  // namespace peal::cli
