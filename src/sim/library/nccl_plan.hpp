// Which algorithm and protocol NCCL takes, by its own planning model (src/graph/tuning.cc of NCCL; figures in
// data/constants/libraries/nccl.yaml). Private to this room.
#pragma once

#include <array>
#include <vector>

#include "job_shape.hpp"

namespace peal::sim {

enum class NcclAlgorithm : std::uint8_t { ring, tree, nvls, nvls_tree, pat, collnet_direct, collnet_chain, direct };
std::string_view name_of(NcclAlgorithm algorithm) noexcept;  ///< "Ring", "NVLSTree"; "Direct" where ranks just send to each other
inline constexpr std::string_view kNcclProtocols[] = {"LL", "LL128", "Simple"};

/// Generation whose figures NCCL's tables have for `gpu`; AMD's stand in the row of Hopper.
std::string_view nccl_table_of(std::string_view gpu) noexcept;

/// The constant that limits LL: of the GPU's generation, between nodes of AMD's hosts theirs.
std::string line_cap_of(const JobShape& shape);

/// Of "2.26.2"; an empty version is a recent one.
bool is_at_least(std::string_view version, int major, int minor) noexcept;

/// LL128 needs lines of 128 bytes to arrive whole: NVLink inside nodes, and between them NICs that GPUs reach so (src/graph/tuning.cc).
bool has_line128(const JobShape& shape, std::string_view version) noexcept;

/// What a published run that does not tell its version is taken to have had; empty: a recent one.
Result<std::string> version_of_its_time(const JobShape& shape, const topology::LibraryConstants& constants);

struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  int protocol = 2;  ///< of kNcclProtocols
};

/// Steps of a ring, and how many of them lead from node to node.
struct RingSteps {
  int all = 0;
  int between = 0;
};
RingSteps ring_steps(Collective collective, const JobShape& shape);

/// A constant of three values, one a protocol (kNcclProtocols). Fails where it is missing or is not three.
Result<std::array<double, 3>> by_protocol(const topology::LibraryConstants& constants, const std::string& name);
/// A ring of one GPU a node pays a tree's hops between nodes (plan.hop.net).
bool pays_hops_of_trees(const JobShape& shape) noexcept;

class NcclPlan {
 public:
  /// Fails where a constant is missing, and where `options` ask for what the machine or the library cannot do.
  static Result<NcclPlan> make(const JobShape& shape, const LibraryOptions& options, const topology::LibraryConstants& constants);
  Result<NcclChoice> choose(const LibraryCall& call) const;

 private:
  using Three = std::array<double, 3>;
  Status read(const topology::LibraryConstants& constants);
  Status read_rccl(const topology::LibraryConstants& constants);
  bool is_offered(NcclAlgorithm algorithm, int protocol, Collective collective) const;
  double rate(NcclAlgorithm algorithm, int protocol, Collective collective) const;
  double latency(NcclAlgorithm algorithm, int protocol, Collective collective) const;
  double time(NcclAlgorithm algorithm, int protocol, const LibraryCall& call) const;
  double correction(NcclAlgorithm algorithm, int protocol, Bytes bytes) const;

  JobShape shape_;
  LibraryOptions options_;
  Three base_[2] = {};  // ring, tree
  Three hop_[2] = {};
  Three net_hop_[2] = {};
  Three ring_share_ = {}, tree_share_ = {}, post_ = {};
  Three line_cap_ = {}, ring_line128_cap_ = {}, tree_line128_cap_ = {}, tree_cap_ = {}, nvls_tree_cap_ = {};
  bool is_rccl_ = false;               // RCCL's own figures: GPUs of AMD on one node
  std::vector<double> correction_[3];  // of trees
  Three pat_ = {};                     // us before the first hop, share of a network hop, us a rank; share of the rate
  double pat_share_ = 1;
  Three offered_ = {1, 1, 1};  // 0: a protocol that the network's plugin forbids
  double nvls_hop_ = 0, nvls_net_hop_ = 0, nvls_share_ = 0, plateau_ = 1, most_heads_ = 0;
};

}  // namespace peal::sim
