// Which reader a text belongs to. How a content is told apart stands in recognise_form.cpp.
#include <topology/import.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>

namespace peal::topology {
namespace {

constexpr std::size_t kMostMib = 64;

using Reader = Result<Graph> (*)(std::string_view, const std::string&);

struct Form {
  FileForm form;
  std::string_view name;
  Reader reader;  ///< null: our own YAML, which may be a whole cluster
};

// One line a form, in the order of FileForm.
constexpr Form kForms[] = {
    {FileForm::peal_yaml, "Peal's own YAML", nullptr},
    {FileForm::nccl_topology, "NCCL topology XML", import_nccl_topology},
    {FileForm::nccl_graph, "NCCL graph XML", import_nccl_graph},
    {FileForm::hwloc, "hwloc XML", import_hwloc},
    {FileForm::smi_matrix, "nvidia-smi topo -m", import_smi_matrix},
    {FileForm::smi_p2p, "nvidia-smi topo -p2p", import_smi_p2p},
    {FileForm::smi_nvlink, "nvidia-smi nvlink --status", import_smi_nvlink},
    {FileForm::rocm_topology, "rocm-smi --showtopo", import_rocm_topology},
    {FileForm::npu_topology, "npu-smi info -t topo", import_npu_topology},
    {FileForm::slurm_topology, "Slurm topology.conf", import_slurm_topology},
    {FileForm::slurm_topology_yaml, "Slurm topology.yaml", import_slurm_topology_yaml},
    {FileForm::slurm_gres, "Slurm gres.conf", import_slurm_gres},
    {FileForm::ibnetdiscover, "ibnetdiscover", import_ibnetdiscover},
    {FileForm::topograph_model, "Topograph cluster model", import_topograph_model},
    {FileForm::netq_topology, "NetQ topology graph", import_netq_topology},
};

const Form& form_of(FileForm form) { return kForms[static_cast<std::size_t>(form)]; }

tl::unexpected<Failure> unknown_form(std::string_view text, const std::string& name) {
  std::vector<std::string_view> known;
  for (const Form& form : kForms) known.push_back(form.name);
  // Somebody's own YAML with a mistake in its first words deserves the words of that reader.
  std::string as_yaml;
  if (const auto cluster = read_cluster_text(text, name); !cluster)
    as_yaml = fmt::format(" (read as Peal's own YAML: {})", cluster.error().message);
  return fail(ErrorCode::corrupt, "{}: the content is of no known form; known are {}{}", name, fmt::join(known, ", "), as_yaml);
}

}  // namespace

std::string_view name_of(FileForm form) noexcept { return form_of(form).name; }

Result<ImportedFile> import_text(std::string_view text, const std::string& name) {
  if (text.size() > kMostMib << 20) return fail(ErrorCode::corrupt, "{}:1: the file is larger than {} MiB: split it", name, kMostMib);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return fail(ErrorCode::corrupt, "{}:1: the file is empty", name);
  const std::optional<FileForm> form = recognise(text);
  if (!form) return unknown_form(text, name);
  ImportedFile file;
  file.form = *form;
  if (*form == FileForm::peal_yaml) {
    PEAL_ASSIGN(file.cluster, read_cluster_text(text, name));
    file.graph = file.cluster->machine();
    return file;
  }
  PEAL_ASSIGN(file.graph, form_of(*form).reader(text, name));
  file.graph.title += fmt::format(" ({})", name_of(*form));
  return file;
}

Result<ImportedFile> import_file(const std::string& path) {
  PEAL_ASSIGN(const std::string text, read_small_file(path, kMostMib));
  return import_text(text, path);
}

}  // namespace peal::topology
