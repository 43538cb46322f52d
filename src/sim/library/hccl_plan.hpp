// Which algorithms HCCL takes inside a server and between servers, and how they cross the machine (coll_alg_operator.cc,
// alg_configurator.cc and the operators of cann-hccl; figures in data/constants/libraries/hccl.yaml). Private to this room.
#pragma once

#include "job_shape.hpp"

namespace peal::sim {

/// HCCL_ALGO's level 1.
enum class HcclAlgorithm : std::uint8_t { ring, halving_doubling, nhr, pipeline, pairwise };
std::string_view name_of(HcclAlgorithm algorithm) noexcept;  ///< "Ring", "H-D_R", as HCCL_ALGO has it

class HcclPlan {
 public:
  /// On `processor`s ("Ascend 910B"). Fails where a constant is missing, and where `options` ask for what HCCL does not have.
  static Result<HcclPlan> make(const JobShape& shape, std::string_view processor, const LibraryOptions& options,
                               const topology::LibraryConstants& constants);
  /// Steps follow one another, each with all of its bytes: nothing is passed on in pieces.
  Result<LibraryWay> way(const LibraryCall& call) const;

 private:
  bool is_pipelined(const LibraryCall& call) const;
  Result<HcclAlgorithm> between(const LibraryCall& call) const;
  bool is_oneshot(const LibraryCall& call) const;
  void go_inside(LibraryWay& way, const LibraryCall& call) const;
  void go_between(LibraryWay& way, const LibraryCall& call, HcclAlgorithm algorithm) const;

  JobShape shape_;
  bool is_mesh_ = false;  // every two of a server are wired to each other
  bool is_910b_ = false;  // where bytes count in the choice
  std::optional<HcclAlgorithm> forced_;
  double oneshot_bytes_ = 0, gather_block_ = 0, reduce_block_ = 0, most_tasks_ = 0, most_ring_ = 0;
  int launch_ = -1, step_ = -1, net_step_ = -1, share_ = -1, net_share_ = -1;
};

}  // namespace peal::sim
