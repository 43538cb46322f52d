// Wires that never limit, because whatever crosses them crosses a wire that is no wider: of a GPU's way to its NIC only the narrowest part
// is left. That holds for every plan: the ways between all devices are looked at, once for a machine, since ways between machines are made
// of the ways to and from a NIC. Machines on which a wire or a rank was made slow keep all of theirs.
#pragma once

#include <sim/interpret.hpp>
#include <span>
#include <vector>

namespace peal::sim {

class ImpliedWires {
 public:
  ImpliedWires() = default;  ///< none
  /// Jobs on GPUs. `switches_compute`: in one of them.
  ImpliedWires(std::span<const Job> jobs, const topology::Resources& resources, const Perturbation& perturbation, bool switches_compute);

  /// The wire that limits wherever `id` is crossed; `id` itself where nothing else is known to.
  topology::ResourceId leader(topology::ResourceId id) const { return is_plain(id) ? id - id % per_copy_ + leaders_[id % per_copy_] : id; }
  bool contains(topology::ResourceId id) const { return leader(id) != id; }
  /// Those that `leader` stands for, without itself, in ascending order.
  std::span<const topology::ResourceId> followers(topology::ResourceId leader, std::vector<topology::ResourceId>& room) const;
  std::size_t count_followers(topology::ResourceId leader) const { return is_plain(leader) ? followers_[leader % per_copy_].size() : 0; }

 private:
  bool is_plain(topology::ResourceId id) const { return per_copy_ != 0 && id / per_copy_ < is_plain_.size() && is_plain_[id / per_copy_]; }

  std::uint32_t per_copy_ = 0;
  std::vector<topology::ResourceId> leaders_;  // of one machine
  std::vector<std::vector<topology::ResourceId>> followers_;
  std::vector<bool> is_plain_;  // by machine
};

}  // namespace peal::sim
