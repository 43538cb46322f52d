// peal topo and peal machines: how machines are wired.
#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <cli/commands.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <topology/describe.hpp>
#include <topology/machine.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_report.hpp>

namespace peal::cli {

namespace {

struct TopoWords {
  ClusterWords cluster;
  bool matrix = false, links = false, rings = false;
  int ranks = 0;
  std::string svg, form, json;
};

Result<std::string> exported(const topology::Graph& graph, const std::string& form) {
  if (form == "dot") return topology::export_dot(graph);
  if (form == "yaml") return topology::export_yaml(graph);
  if (form == "nccl-xml" || form == "gres" || form == "slurm-topology")
    return fail(ErrorCode::unsupported, "this build cannot export {} yet; it can export dot and yaml", form);
  return fail(ErrorCode::invalid_argument, "there is no export form \"{}\"; type dot or yaml", form);
}

Result<int> show_rings(const topology::Cluster& cluster, const TopoWords& words) {
  const int ranks = words.ranks > 0 ? words.ranks : cluster.ranks();
  if (ranks > cluster.ranks()) return fail(ErrorCode::invalid_argument, "--ranks {}: there are places for {} only", ranks, cluster.ranks());
  const std::vector<int> devices = tuning::spread(cluster, ranks);
  const topology::Resources resources(cluster);
  PEAL_ASSIGN(const tuning::RingReport report, tuning::report_rings(resources, devices));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, tuning::rings_json(resources, devices, report) + "\n"));
  if (words.json != "-") PEAL_TRY(write_output("-", tuning::describe_rings(resources, devices, report)));
  return 0;
}

Result<int> show(const TopoWords& words) {
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  if (words.rings) return show_rings(cluster, words);
  PEAL_ASSIGN(const topology::Graph graph, cluster.graph(1 << 16));
  bool said = false;
  if (!words.svg.empty()) {
    PEAL_TRY(write_output(words.svg, topology::draw_svg(graph)));
    said = words.svg == "-";
  }
  if (!words.json.empty()) {
    PEAL_TRY(write_output(words.json, topology::describe_json(graph) + "\n"));
    said = said || words.json == "-";
  }
  if (!words.form.empty()) {
    PEAL_ASSIGN(const std::string text, exported(graph, words.form));
    PEAL_TRY(write_output("-", text));
    said = true;
  }
  if (words.matrix) PEAL_TRY(write_output("-", topology::describe_matrix(graph)));
  if (words.links) PEAL_TRY(write_output("-", topology::describe_links(graph)));
  if (!words.matrix && !words.links && !said) PEAL_TRY(write_output("-", topology::describe_text(graph)));
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

}  // namespace

void add_topo(CLI::App& app, Action& action) {
  auto words = std::make_shared<TopoWords>();
  CLI::App* command = app.add_subcommand("topo",
                                         "Show how this host, a machine of the catalogue or a described cluster is wired.\n"
                                         "Example: peal topo --machine dgx-h100 --matrix");
  add_cluster_options(*command, words->cluster);
  command->add_flag("--matrix", words->matrix, "Path classes between devices, as nvidia-smi topo -m prints them");
  command->add_flag("--links", words->links, "One line a link: kind, count, GB/s, latency, source");
  command->add_flag("--rings", words->rings, "The rings that ranks take, what they carry, and the most that any rings could");
  command->add_option("--ranks", words->ranks, "With --rings: so many ranks (default: one on every device that takes one)")
      ->check(CLI::Range(2, 1'000'000));
  command->add_option("--svg", words->svg, "Draw a node into a file");
  command->add_option("--export", words->form, "Print as dot or yaml");
  command->add_option("--json", words->json, "Write devices and links as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return show(*words); }; });
}

void add_machines(CLI::App& app, Action& action) {
  auto json = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("machines", "List the machines of the catalogue.\nExample: peal machines");
  command->add_option("--json", *json, "Write the list as JSON to a file, or - for standard output");
  command->callback([json, &action] { action = [json] { return list(*json); }; });
}

}  // namespace peal::cli
