#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <discovery/discover.hpp>
#include <topology/import.hpp>
#include <topology/machine.hpp>

namespace peal::cli {

void add_cluster_options(CLI::App& command, ClusterWords& words) {
  command.add_option("--machine", words.machine, "A machine of the catalogue (peal machines lists them)");
  command.add_option("--nodes", words.nodes, "How many of them")->capture_default_str();
  command.add_option("--fabric", words.fabric,
                     "What joins them: a kind or a published fabric, and its figures: fat-tree,levels=2,oversubscription=2");
  command.add_option("--file", words.file,
                     "A machine or cluster in Peal's YAML, or what other tools write (NCCL and hwloc XML, nvidia-smi, Slurm, ...)");
}

Result<topology::Cluster> cluster_of(const ClusterWords& words) {
  if (!words.machine.empty() && !words.file.empty())
    return fail(ErrorCode::invalid_argument, "--machine and --file both say what the machine is; give one of them");
  if (words.nodes < 1 || words.nodes > 1'000'000)
    return fail(ErrorCode::invalid_argument, "--nodes {} is no number of nodes; give 1 or more", words.nodes);
  if (!words.file.empty()) {
    PEAL_ASSIGN(topology::ImportedFile file, topology::import_file(words.file));
    if (!file.cluster) return topology::build_cluster(std::move(file.graph), words.nodes, words.fabric);
    if (!words.fabric.empty())
      return fail(ErrorCode::invalid_argument, "--fabric joins machines of --machine; write `fabric:` into {}", words.file);
    return std::move(*file.cluster);
  }
  if (!words.machine.empty()) return topology::build_cluster(words.machine, words.nodes, words.fabric);
  PEAL_ASSIGN(topology::Graph host, discovery::discover_host());
  if (words.nodes > 1) return topology::build_cluster(std::move(host), words.nodes, words.fabric);
  return topology::Cluster(std::move(host));
}

}  // namespace peal::cli
