// Descriptions of machines and networks that other tools write, read into our graph. The kind is recognised from the content, never from
// the file's name. What is cut off or contradicts itself gives what can be known, plus warnings that name the line; a failure only where
// nothing at all can be known. Any bytes may come: at most 64 MiB, limits on depth and counts; nothing is executed or fetched.
#pragma once

#include <topology/cluster.hpp>

namespace peal::topology {

enum class FileForm : std::uint8_t {
  peal_yaml,       ///< our own (machine.hpp)
  nccl_topology,   ///< NCCL or RCCL topology XML
  nccl_graph,      ///< NCCL graph XML: rings and trees that NCCL found
  hwloc,           ///< hwloc XML v1, v2
  smi_matrix,      ///< nvidia-smi topo -m
  smi_p2p,         ///< nvidia-smi topo -p2p
  smi_nvlink,      ///< nvidia-smi nvlink --status
  rocm_topology,   ///< rocm-smi --showtopo
  npu_topology,    ///< npu-smi info -t topo
  slurm_topology,  ///< topology.conf: tree, block, ring
  slurm_topology_yaml,
  slurm_gres,  ///< gres.conf
  ibnetdiscover,
  topograph_model,  ///< NVIDIA Topograph's cluster model (YAML)
  netq_topology,    ///< NetQ topology graph (JSON)
};
std::string_view name_of(FileForm form) noexcept;  ///< for people: "NCCL topology XML"

struct ImportedFile {
  FileForm form = FileForm::peal_yaml;
  Graph graph;                     ///< devices, links; warnings() name FILE:LINE; the title ends in the form
  std::optional<Cluster> cluster;  ///< our own YAML with nodes and fabric: use this instead of `graph`
};

/// What the content is, or nothing when no reader knows it. Looks at the first MiB.
std::optional<FileForm> recognise(std::string_view text);
/// Any of the forms above, of at most 64 MiB (our own YAML: 4 MiB). An unknown content fails with the list of forms.
Result<ImportedFile> import_text(std::string_view text, const std::string& name);
Result<ImportedFile> import_file(const std::string& path);

// One reader a form (import_<form>.cpp). `name` stands for the file in messages.
Result<Graph> import_nccl_topology(std::string_view text, const std::string& name);
Result<Graph> import_nccl_graph(std::string_view text, const std::string& name);
Result<Graph> import_hwloc(std::string_view text, const std::string& name);
Result<Graph> import_smi_matrix(std::string_view text, const std::string& name);
Result<Graph> import_smi_p2p(std::string_view text, const std::string& name);
Result<Graph> import_smi_nvlink(std::string_view text, const std::string& name);
Result<Graph> import_rocm_topology(std::string_view text, const std::string& name);
Result<Graph> import_npu_topology(std::string_view text, const std::string& name);
Result<Graph> import_slurm_topology(std::string_view text, const std::string& name);
Result<Graph> import_slurm_topology_yaml(std::string_view text, const std::string& name);
Result<Graph> import_slurm_gres(std::string_view text, const std::string& name);
Result<Graph> import_ibnetdiscover(std::string_view text, const std::string& name);
Result<Graph> import_topograph_model(std::string_view text, const std::string& name);
Result<Graph> import_netq_topology(std::string_view text, const std::string& name);

}  // namespace peal::topology
