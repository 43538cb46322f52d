// peal topo and peal machines: how machines are wired.
#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <cli/commands.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <topology/describe.hpp>
#include <topology/fabrics.hpp>
#include <topology/machine.hpp>

namespace peal::cli {

namespace {

struct TopoWords {
  ClusterWords cluster;
  bool matrix = false, links = false;
  std::string svg, form, json;
};

Result<std::string> exported(const topology::Graph& graph, const std::string& form) {
  if (form == "dot") return topology::export_dot(graph);
  if (form == "yaml") return topology::export_yaml(graph);
  if (form == "nccl-xml" || form == "gres" || form == "slurm-topology")
    return fail(ErrorCode::unsupported, "this build cannot export {} yet; it can export dot and yaml", form);
  return fail(ErrorCode::invalid_argument, "there is no export form \"{}\"; type dot or yaml", form);
}

constexpr int kMostSpelledOut = 1 << 16;

Result<int> show_large(const topology::Graph& machine, const std::string& fabric) {
  PEAL_TRY(write_output("-", topology::describe_text(machine) + fabric));
  return 0;
}

Result<int> show(const TopoWords& words) {
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  const std::string fabric = topology::describe_fabric(cluster);
  const bool is_plain = !words.matrix && !words.links && words.svg.empty() && words.json.empty() && words.form.empty();
  // A large cluster is described by one of its machines.
  if (is_plain && cluster.device_count() > kMostSpelledOut) return show_large(cluster.machine(), fabric);
  PEAL_ASSIGN(const topology::Graph graph, cluster.graph(kMostSpelledOut));
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
  if (!words.matrix && !words.links && !said) PEAL_TRY(write_output("-", topology::describe_text(graph) + fabric));
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
