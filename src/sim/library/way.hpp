// From a choice to a LibraryWay: how many hops of which kind, and what limits the rate. Private to this room.
#pragma once

#include "nccl_plan.hpp"

namespace peal::sim {

class WayMaker {
 public:
  /// Fails where a constant that the job needs is not known ("nothing is known of net.share.iwarp").
  static Result<WayMaker> make(const JobShape& shape, const LibraryOptions& options, const topology::LibraryConstants& constants);
  LibraryWay way(const LibraryCall& call, const NcclChoice& choice) const;

 private:
  void limit(LibraryWay& way, double inside, double between) const;
  void limit_between(LibraryWay& way, double between) const;
  void ring(LibraryWay& way, int protocol, Collective collective) const;
  void take_channels(LibraryWay& way, int protocol, int ranks) const;
  void go_in_lines(LibraryWay& way, double times, double message, double block) const;
  void tree(LibraryWay& way, int protocol) const;
  void hold_pieces(LibraryWay& way, double most) const;
  double tree_chunk(const LibraryWay& way) const;
  void later_hops(LibraryWay& way, double passes) const;
  void nvls(LibraryWay& way, Collective collective, bool is_tree) const;
  void pat(LibraryWay& way) const;
  void collnet(LibraryWay& way, bool is_direct) const;
  void direct(LibraryWay& way, Collective collective) const;
  void limit_pair(LibraryWay& way) const;

  JobShape shape_;
  bool is_one_process_ = false;
  double calls_ = 1;
  bool sends_in_one_call_ = false;  // all_to_all is a call of the library, and not one a pair
  int launch_ = -1, launch_more_ = -1, hop_short_ = -1, hop_direct_ = -1, direct_ramp_ = -1, net_direct_ = -1, net_pair_ = -1, work_ = -1,
      line_ramp_ = -1, net_line_ring_ = -1, hop_nvls_ = -1;
  int hop_[3] = {-1, -1, -1};
  int net_hop_[3] = {-1, -1, -1};
  int net_ramp_[3] = {-1, -1, -1};
  int stored_[3] = {-1, -1, -1};
  int ring_share_ = -1, nvls_share_ = -1, net_share_ = -1, ring_of_two_ = -1, net_more_ = -1, net_bulk_ = -1, net_rendezvous_ = -1,
      net_line_ = -1, net_copy_ = -1, stage_ = -1, pair_channel_ = -1, net_pair_channel_ = -1;
  std::vector<double> ring_protocol_, tree_protocol_;
  double line_cap_ = 0, step_bytes_ = 0, nvls_chunk_ = 0, pat_share_ = 1, pat_us_a_rank_ = 0;
  double later_us_ = 0;
};

}  // namespace peal::sim
