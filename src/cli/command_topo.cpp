// peal topo and peal machines: how machines are wired.
#include <algorithm>
#include <array>
#include <base/names.hpp>
#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <cli/commands.hpp>
#include <cli/measure_ranks.hpp>
#include <discovery/discover.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <topology/describe.hpp>
#include <topology/export.hpp>
#include <topology/fabrics.hpp>
#include <topology/link_tables.hpp>
#include <topology/machine.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_report.hpp>
#include <tuning/tree_report.hpp>

namespace peal::cli {

namespace {

constexpr int kMostSpelledOut = 1 << 17;  // devices

struct TopoWords {
  ClusterWords cluster;
  bool matrix = false, links = false, rings = false, trees = false, measure = false;
  std::string svg, form, json;
  int ranks = 0;
};

constexpr std::array<std::string_view, 9> kForms = {
    "nccl-xml", "gres", "slurm-topology", "slurm-topology-block", "slurm-topology-yaml", "sbatch", "nvlink-status", "dot", "yaml"};

Result<std::string> exported(const topology::Cluster& cluster, const TopoWords& words) {
  using topology::SlurmForm;
  // The script asks how many machines there are, never for each of them.
  if (words.form == "sbatch") return topology::export_sbatch(cluster, words.ranks > 0 ? words.ranks : cluster.ranks());
  PEAL_ASSIGN(const topology::Graph graph, cluster.graph(kMostSpelledOut));
  if (words.form == "nccl-xml") return topology::export_nccl_topology(graph);
  if (words.form == "gres") return topology::export_slurm_gres(graph);
  if (words.form == "slurm-topology") return topology::export_slurm_topology(graph, SlurmForm::tree);
  if (words.form == "slurm-topology-block") return topology::export_slurm_topology(graph, SlurmForm::block);
  if (words.form == "slurm-topology-yaml") return topology::export_slurm_topology_yaml(graph);
  if (words.form == "nvlink-status") return topology::export_nvlink_status(graph);
  if (words.form == "dot") return topology::export_dot(graph);
  return topology::export_yaml(graph);
}

Status check_form(const TopoWords& words) {
  if (words.ranks < 0) return fail(ErrorCode::invalid_argument, "--ranks {} is no number of ranks; give 1 or more", words.ranks);
  if (words.ranks > 0 && words.form != "sbatch" && !words.rings && !words.trees)
    return fail(ErrorCode::invalid_argument, "--ranks says how large a job is: give it with --export sbatch, --rings or --trees");
  if (words.form.empty() || std::find(kForms.begin(), kForms.end(), words.form) != kForms.end()) return {};
  const std::string_view near = nearest(words.form, kForms.data(), kForms.size());
  return fail(ErrorCode::invalid_argument, "there is no export form \"{}\"{}; type one of {}", words.form,
              near.empty() ? std::string() : fmt::format(", did you mean {}?", near), fmt::join(kForms, ", "));
}

Result<int> show_shapes(const topology::Cluster& cluster, const TopoWords& words) {
  const int ranks = words.ranks > 0 ? words.ranks : cluster.ranks();
  if (ranks > cluster.ranks()) return fail(ErrorCode::invalid_argument, "--ranks {}: there are places for {} only", ranks, cluster.ranks());
  const std::vector<int> devices = tuning::spread(cluster, ranks);
  const topology::Resources resources(cluster);
  if (words.trees) {
    PEAL_ASSIGN(const tuning::TreeReport report, tuning::report_trees(resources, devices, 0));
    PEAL_TRY(write_report(tuning::describe_trees(resources, devices, report), words.json,
                          [&] { return tuning::trees_json(resources, devices, report); }));
    return 0;
  }
  PEAL_ASSIGN(const tuning::RingReport report, tuning::report_rings(resources, devices));
  PEAL_TRY(write_report(tuning::describe_rings(resources, devices, report), words.json,
                        [&] { return tuning::rings_json(resources, devices, report); }));
  return 0;
}

/// This host with measured figures.
Result<topology::Cluster> measured_host(const TopoWords& words) {
  if (!words.cluster.machine.empty() || !words.cluster.file.empty())
    return fail(ErrorCode::invalid_argument, "--measure measures this host; leave out --machine and --file");
  PEAL_ASSIGN(const discovery::HostMeasurements measured, discovery::measure_host());
  PEAL_ASSIGN(topology::Graph host, discovery::discover_host({}, &measured));
  if (words.cluster.nodes > 1) return topology::build_cluster(std::move(host), words.cluster.nodes, words.cluster.fabric);
  return topology::Cluster(std::move(host));
}

/// Under a launcher: all ranks call it, rank 0 writes.
Result<int> show_pairs(const TopoWords& words, const bootstrap::Job& job) {
  PEAL_ASSIGN(const std::optional<RankMeasurements> found, measure_ranks(job));
  if (!found) return 0;
  if (words.json != "-") PEAL_TRY(write_output("-", rank_measurements_text(*found)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, rank_measurements_json(*found)));
  return 0;
}

Result<int> show(const TopoWords& words) {
  PEAL_TRY(check_form(words));
  if (words.measure) {
    PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_environment());
    if (job.size > 1) return show_pairs(words, job);
  }
  PEAL_ASSIGN(const topology::Cluster cluster, words.measure ? measured_host(words) : cluster_of(words.cluster));
  if (words.rings || words.trees) return show_shapes(cluster, words);
  const std::string fabric = topology::describe_fabric(cluster);
  const bool is_plain = !words.matrix && !words.links && words.svg.empty() && words.json.empty() && words.form.empty();
  // Machines that are alike are described once.
  const auto describe = [&](const topology::Graph& graph) {
    return write_output("-", topology::describe_text(cluster.copies() > 1 ? cluster.machine() : graph) + fabric);
  };
  if (is_plain && cluster.copies() > 1) {
    PEAL_TRY(describe(cluster.machine()));
    return 0;
  }
  bool said = false;
  if (!words.form.empty()) {
    PEAL_ASSIGN(const std::string text, exported(cluster, words));
    PEAL_TRY(write_output("-", text));
    said = true;
    if (words.svg.empty() && words.json.empty() && !words.matrix && !words.links) return 0;
  }
  PEAL_ASSIGN(const topology::Graph graph, cluster.graph(kMostSpelledOut));
  if (!words.svg.empty()) {
    PEAL_TRY(write_output(words.svg, graph.node_count() > 1 ? topology::draw_fabric_svg(graph) : topology::draw_svg(graph)));
    said = said || words.svg == "-";
  }
  if (!words.json.empty()) {
    PEAL_TRY(write_output(words.json, topology::describe_json(graph) + "\n"));
    said = said || words.json == "-";
  }
  if (words.matrix) {
    const std::size_t rows = graph.compute_devices().size() + graph.devices_of(topology::DeviceKind::nic).size();
    if (rows > topology::kMostMatrixRows) {
      return fail(ErrorCode::unsupported, "a matrix of {} rows is longer than the {} that are printed: see --links, --json or --svg", rows,
                  topology::kMostMatrixRows);
    }
    PEAL_TRY(write_output("-", topology::describe_matrix(graph)));
  }
  if (words.links) PEAL_TRY(write_output("-", topology::describe_links(graph)));
  if (!words.matrix && !words.links && !said) PEAL_TRY(describe(graph));
  return 0;
}

Result<int> list(const std::string& json) {
  if (json.empty()) {
    PEAL_ASSIGN(const std::string table, topology::describe_machines());
    PEAL_TRY(write_output("-", table));
    return 0;
  }
  PEAL_ASSIGN(const auto machines, topology::list_machines());
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const auto& machine : machines) entries.push_back({{"name", machine.name}, {"title", machine.title}});
  PEAL_TRY(write_output(json, nlohmann::ordered_json{{"machines", entries}}.dump(2) + "\n"));
  return 0;
}

struct MachinesWords {
  bool links = false, sources = false;
  std::string json;
};

Result<int> list_links(const MachinesWords& words) {
  PEAL_ASSIGN(const topology::LinkCatalogue* catalogue, topology::link_catalogue());
  if (words.json.empty()) {
    PEAL_TRY(write_output("-", topology::link_tables(*catalogue, words.sources)));
  } else {
    PEAL_TRY(write_output(words.json, topology::link_tables_json(*catalogue)));
  }
  return 0;
}

}  // namespace

void add_topo(CLI::App& app, Action& action) {
  auto words = std::make_shared<TopoWords>();
  CLI::App* command = app.add_subcommand("topo",
                                         "Show how this host, a machine of the catalogue or a described cluster is wired.\n"
                                         "Example: peal topo --machine dgx-h100 --matrix\n"
                                         "Others:  peal topo --machine dgx-h100 --nodes 32 --svg fabric.svg\n"
                                         "         peal topo --machine dgx-a100 --export nccl-xml > topology.xml\n"
                                         "         peal topo --machine dgx-a100 --nodes 4 --export sbatch --ranks 32 > job.sh");
  add_cluster_options(*command, words->cluster);
  command->add_flag("--matrix", words->matrix, "Path classes between devices, as nvidia-smi topo -m prints them");
  command->add_flag("--links", words->links, "One line a link: kind, count, GB/s, latency, source");
  command->add_flag("--rings", words->rings, "The rings that ranks take, what they carry, and the most that any rings could");
  command->add_flag("--trees", words->trees,
                    "The trees from the first rank that carry the most together, and the proof that none carry more");
  command->add_flag("--measure", words->measure,
                    "Measure cores, memory and loopback of this host; under peal run: every pair of ranks, and which hosts share a rack");
  command->add_option("--svg", words->svg, "Draw into a file, or - for standard output: one machine, or a cluster and its fabric");
  command->add_option("--export", words->form,
                      "Print in a form of other tools:\n"
                      "nccl-xml: NCCL's topology (NCCL_TOPO_FILE)\n"
                      "gres: Slurm's gres.conf of one machine\n"
                      "slurm-topology, slurm-topology-block: topology.conf as a tree, as blocks\n"
                      "slurm-topology-yaml: topology.yaml with both\n"
                      "sbatch: a batch script for a job of --ranks\n"
                      "nvlink-status: as nvidia-smi nvlink --status prints it\n"
                      "dot: Graphviz; yaml: Peal's own form");
  command->add_option("--ranks", words->ranks,
                      "Ranks of --rings or --trees, or of the job of --export sbatch (default: all of the cluster)");
  command->add_option("--json", words->json, "Write devices and links as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return show(*words); }; });
}

void add_machines(CLI::App& app, Action& action) {
  auto words = std::make_shared<MachinesWords>();
  CLI::App* command = app.add_subcommand("machines",
                                         "List the machines of the catalogue, or the generations of links.\n"
                                         "Example: peal machines --links");
  CLI::Option* links = command->add_flag("--links", words->links, "Links by generation: PCIe, NVLink, switches, memory, networks");
  command->add_flag("--sources", words->sources, "With --links: where each figure comes from")->needs(links);
  command->add_option("--json", words->json, "Write the list as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return words->links ? list_links(*words) : list(words->json); }; });
}

}  // namespace peal::cli
