// What the words of a published case mean: which machine of the catalogue, how many GPUs and NICs of it, over which network, and what the
// run's environment forced.
//
//   dgx-a100:2                                         two of them, as the catalogue has them
//   dgx-h100:2 (1 GPU and 1x400G RoCE a node)          one rank a node, one NIC of 400 Gb/s
//   aws-g4dn:2 (1 GPU a node, TCP)                     sockets over the machine's NIC
//   dgx-h100:1 (4 of 8 GPUs, NVLS off)
//
// The parenthesis is a list of phrases: GPUs ("2 GPUs", "1 GPU a node"), the network ("EFA", "8x 200Gb/s HDR per node", "2 NICs"), and what
// is forced ("NVLS off", "PCIe only", "P2P off", "ring", "one process", "bf16", "NCCL_ALGO=Tree"). notable_env, software and notes
// are read for the same; what means nothing there becomes a remark, in the parenthesis it is an error.
#pragma once

#include <sim/library.hpp>
#include <sim/published.hpp>

namespace peal::sim {

/// What was said of a node's network. Nothing said: as the catalogue has it.
struct NetworkWords {
  std::string technology = {};  ///< "roce", "infiniband", "efa", "ethernet" (sockets), "slingshot", "iwarp", "tcpx", "tcpxo"
  int nics = 0;                 ///< of a node
  double gbps = 0;              ///< of one NIC
  bool is_said() const { return !technology.empty() || nics > 0 || gbps > 0; }
};

struct CaseWords {
  std::string machine;
  int copies = 0;    ///< of the machine; 0: not said
  int gpus = 0;      ///< of each copy; 0: not said
  int gpus_all = 0;  ///< of all copies together; 0: not said
  NetworkWords network;
  bool has_nvlink = true;           ///< false: the GPUs talk over PCIe
  bool may_sum_in_network = false;  ///< NCCL_COLLNET_ENABLE=1: with InfiniBand its switches sum, elsewhere nothing does
  std::string unsupported = {};     ///< what was forced and cannot be predicted; empty: nothing
  LibraryOptions options = {};      ///< the library itself follows from the machine's GPUs (place_case)
  DataType type = DataType::f32;
  std::vector<std::string> remarks = {};  ///< what was said and changes nothing here
};

/// Reads a case's columns. Fails with the phrase of the machine column that is not understood, and what can be written.
Result<CaseWords> read_case_words(const PublishedCase& published);

/// A phrase such as "1x400G RoCE a node", "EFA", "4 NICs per node"; nothing where any word of it is not of a network. `is_strict` false:
/// words that mean nothing are passed over ("RoCE (4 NICs per node; rate not told)").
std::optional<NetworkWords> read_network_words(std::string_view phrase, bool is_strict);

/// A cluster and its ranks, ready for LibraryModel::make.
struct PlacedCase {
  topology::Cluster cluster;
  std::vector<int> device_of_rank;
  CaseWords words;
};

/// The cluster that the words stand for. `cluster_file`: one that describes it in their place (empty: the catalogue); what is forced, and
/// how many GPUs take part, still comes from the words. Fails where the machine is unknown or has fewer GPUs or NICs than were said.
Result<PlacedCase> place_case(const PublishedCase& published, const std::string& cluster_file);

}  // namespace peal::sim
