// A graph in the forms that other tools read. All functions are pure; texts end with a newline. What a form cannot say is left out, and
// what it must say although the graph does not is made up: a comment at the head of the text names both.
//
// Attributes (Device::attributes) that are written as they stand, so that what was read from such a file is written back:
//   GPUs          busid class vendor device subsystem_vendor subsystem_device link_speed link_width, dev sm rank gdr mlopart,
//                 gcn arch (RCCL), gfx ("942", when gcn is not there), uuid, minor (the n of /dev/nvidian), device_file
//   PCIe switches busid class vendor device subsystem_vendor subsystem_device link_speed link_width
//   NICs          the same, and dev speed port guid latency maxconn gdr coll net gin rma rail plane
//   CPUs          numaid affinity arch vendor (or cpu_vendor) familyid modelid host_hash, cores (how many there are, hyperthreads not
//   counted) NVSwitches    busid
// link_speed and link_width are of the link to the parent, as sysfs spells them ("16.0 GT/s PCIe", "16").
#pragma once

#include <base/result.hpp>
#include <string>
#include <topology/cluster.hpp>

namespace peal::topology {

/// NCCL's topology XML (NCCL_TOPO_FILE), RCCL's where the GPUs are joined by xGMI. One machine: the first of the graph, with those that its
/// NVLinks reach. NCCL takes the rate of a PCIe link from speed and lanes, of an NVLink from `sm` and the count, between CPUs from their
/// vendor and model: those are written, not GB/s. Refuses a graph without GPUs.
Result<std::string> export_nccl_topology(const Graph& graph);

/// Slurm's gres.conf of the first machine, one line a GPU in the order of their bus ids. `Links=` is a list with one entry a GPU in that
/// same order: how many links this GPU has to each other one, 0 none, and -1 in its own place. It counts links; it does not name GPUs
/// ("Links=1,2,3" is one link to the first device, two to the second, three to the third). Behind NVSwitches all of a GPU's links lead to
/// each other GPU, so that is what every entry says. Refuses a graph without GPUs.
/// Source: man gres.conf(5), Slurm 284c3b95; doc of the entries: src/plugins/gpu/nvml/gpu_nvml.c.
Result<std::string> export_slurm_gres(const Graph& graph);

/// What Slurm calls a block: machines that are nearer to each other than to the rest.
enum class SlurmForm : std::uint8_t {
  tree,   ///< switches and what hangs on them
  block,  ///< NVLink domains of several machines, else machines on the same leaf switches
};
/// Slurm's topology.conf of a cluster that is spelled out (Cluster::graph). Switches that join the same machines act as one (the rails of
/// a fabric, the spines above them), as Slurm wants every machine below one switch. Refuses a graph whose machines hang on no switch.
Result<std::string> export_slurm_topology(const Graph& graph, SlurmForm form);
/// Both forms as topology.yaml (Slurm 25.05 and later), the tree being the default.
Result<std::string> export_slurm_topology_yaml(const Graph& graph);

/// A batch script that runs a program with so many ranks on the fewest machines of a cluster that share them evenly, started by
/// `peal run` or torchrun. Refuses more ranks than the cluster has, and numbers that no even split gives.
Result<std::string> export_sbatch(const Cluster& cluster, int ranks);

/// Every GPU's NVLinks and their rates as `nvidia-smi nvlink --status` prints them. Refuses a graph without NVLinks.
Result<std::string> export_nvlink_status(const Graph& graph);

}  // namespace peal::topology
