// NCCL graph XML (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE): the rings and trees that NCCL found on a machine, as they stand in the file.
// import.hpp's import_nccl_graph makes a Graph of them; this form is for comparing them with what a search of our own finds.
#pragma once

#include <base/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peal::topology {

struct NcclGraphGpu {
  int host = 0;   ///< index of the host; above 0 only where several hosts form one NVLink domain
  int dev = -1;   ///< number on its host, -1: the file gives only the rank
  int rank = -1;  ///< -1: the file gives only dev. Where both are there the rank decides which GPU is meant
  bool operator==(const NcclGraphGpu&) const = default;
};

struct NcclGraphNet {
  int host = 0;
  int dev = 0;
  bool operator==(const NcclGraphNet&) const = default;
};

/// One ring or chain, in order. A ring without nets closes from the last GPU to the first.
struct NcclChannel {
  std::vector<NcclGraphGpu> gpus;
  std::optional<NcclGraphNet> entry;  ///< where data comes in from other nodes
  std::optional<NcclGraphNet> exit;   ///< where it leaves
  int line = 0;
};

enum class NcclPattern : std::uint8_t { unknown, balanced_tree, split_tree, tree, ring, nvls, collnet_direct };
std::string_view name_of(NcclPattern pattern) noexcept;  ///< "balanced tree"

struct NcclGraphEntry {
  int id = 0;  ///< 0 ring, 1 tree, 2 collnet chain, 3 NVLS, 4 collnet direct
  NcclPattern pattern = NcclPattern::unknown;
  int crossnic = 0;
  int channels_said = 0;     ///< nchannels; 0: NCCL cannot use this graph
  double intra_gbps = 0;     ///< GB/s of one channel inside a node
  double inter_gbps = 0;     ///< GB/s of one channel between nodes
  double inter_latency = 0;  ///< microseconds
  std::string intra_type;    ///< NCCL's word for the way: "NVL", "PIX", "SYS"
  std::string inter_type;
  bool same_channels = false;
  std::vector<NcclChannel> channels;  ///< as many as the file holds; each may be doubled at run time
  int line = 0;
};

struct NcclGraphs {
  std::vector<NcclGraphEntry> graphs;
  std::vector<std::string> warnings;  ///< FILE:LINE: what is odd
};

/// At most 64 MiB. A piece without root and a file that breaks off give what is there. Fails where there is no graph at all.
Result<NcclGraphs> read_nccl_graphs(std::string_view text, const std::string& name);

}  // namespace peal::topology
