#include <algorithm>
#include <base/names.hpp>
#include <filesystem>
#include <topology/machine.hpp>
#include <topology/yaml_tree.hpp>

namespace peal::topology {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> machine_names() {
  const fs::path folder = fs::path(data_directory()) / "machines";
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".yaml") names.push_back(it->path().stem().string());
  }
  if (error || names.empty()) {
    return fail(ErrorCode::invalid_argument, "no machines in {}: set PEAL_DATA_DIR to the folder that holds machines/ and constants/",
                folder.string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string path_of(std::string_view name) { return (fs::path(data_directory()) / "machines" / fmt::format("{}.yaml", name)).string(); }

}  // namespace

Result<std::vector<MachineEntry>> list_machines() {
  PEAL_ASSIGN(const std::vector<std::string> names, machine_names());
  std::vector<MachineEntry> entries;
  for (const std::string& name : names) {
    PEAL_ASSIGN(const Graph graph, load_machine(name));
    entries.push_back({name, graph.title});
  }
  return entries;
}

Result<Graph> load_machine(std::string_view name) {
  PEAL_ASSIGN(const std::vector<std::string> names, machine_names());
  if (!std::binary_search(names.begin(), names.end(), name)) {
    const std::vector<std::string_view> choices(names.begin(), names.end());
    const std::string_view near = nearest(name, choices.data(), choices.size());
    return fail(ErrorCode::invalid_argument, "no machine is called '{}'{}; `peal machines` lists them", name,
                near.empty() ? std::string() : fmt::format(", did you mean '{}'?", near));
  }
  const std::string path = path_of(name);
  PEAL_ASSIGN(const std::string text, read_small_file(path));
  // A catalogue file spells its devices out; one that named another machine could name itself.
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, path));
  for (const auto& [key, value] : root.fields) {
    if (key == "machine" || key == "nodes")
      return fail(ErrorCode::corrupt, "{}:{}: a machine of the catalogue cannot have `{}:`", path, value.line, key);
  }
  PEAL_ASSIGN(const Cluster cluster, read_cluster_text(text, path));
  return cluster.machine();
}

Result<Cluster> build_cluster(std::string_view name, int nodes, std::string_view fabric) {
  PEAL_ASSIGN(Graph machine, load_machine(name));
  return build_cluster(std::move(machine), nodes, fabric);
}

}  // namespace peal::topology
