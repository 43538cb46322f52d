#include <algorithm>
#include <base/index.hpp>

#include "folding.hpp"
#include "program_shape.hpp"

namespace peal::sim {

namespace {

class ByMachine final : public Folding {
 public:
  ByMachine(const Unfolded& whole, std::int32_t period)
      : ranks_(whole.environment.ranks), period_(period), per_copy_(whole.resources.per_copy()) {
    std::vector<std::int32_t> class_of(at(ranks_));
    for (std::int32_t r = 0; r < ranks_; ++r) class_of[at(r)] = r % period;
    set_classes(std::move(class_of));
  }

  Kin channel(std::int32_t from, std::int32_t to, std::int32_t number) const override {
    const std::int32_t distance = to >= from ? to - from : to - from + ranks_;
    const auto name =
        static_cast<std::uint64_t>(from % period_) * static_cast<std::uint64_t>(ranks_) + static_cast<std::uint64_t>(distance);
    return {name << 8 | static_cast<std::uint64_t>(number), static_cast<double>(ranks_ / period_)};
  }
  Kin resource(topology::ResourceId id) const override { return {id % per_copy_, static_cast<double>(ranks_ / period_)}; }

 private:
  std::int32_t ranks_;
  std::int32_t period_;
  std::size_t per_copy_;
};

/// Rank r + period sits on the next machine where rank r sits on its own, and machines are groups or hold as many groups each.
bool is_laid_out_alike(const Unfolded& whole, std::int32_t period) {
  const topology::Cluster& cluster = whole.resources.cluster();
  const std::vector<std::int32_t>& group = whole.environment.placement.group;
  const std::int32_t n = whole.environment.ranks;
  if (group.empty()) return false;
  const std::int32_t groups_a_machine = *std::max_element(group.begin(), group.begin() + period) + 1;
  for (std::int32_t r = 0; r < n; ++r) {
    if (whole.device_of_rank[at(r)] != cluster.device_of_rank(r)) return false;
    if (group[at(r)] != group[at(r % period)] + r / period * groups_a_machine) return false;
  }
  return true;
}

/// Of a program in which ranks are counted from its own.
std::uint64_t relative_shape(const schedule::Program& program, const MessageSizes& sizes) {
  std::uint64_t hash = program.strands();
  for (const std::uint32_t begin : program.strand_begin) hash = hash_with(hash, begin);
  for (const schedule::Op& op : program.ops) {
    hash = hash_with(hash, shape_of(op, sizes));
    for (const std::int32_t peer : {op.peer, op.peer2})
      if (peer >= 0) hash = hash_with(hash, static_cast<std::uint64_t>((peer - program.rank + program.ranks) % program.ranks));
  }
  return hash;
}

}  // namespace

std::int32_t ranks_of_alike_machines(const Unfolded& whole) {
  const topology::Cluster& cluster = whole.resources.cluster();
  const std::int32_t n = whole.environment.ranks;
  if (cluster.fabric() == nullptr || !cluster.fabric()->treats_nodes_alike() || n != cluster.ranks() || cluster.copies() < 2) return 0;
  const std::int32_t period = n / cluster.copies();
  return is_laid_out_alike(whole, period) ? period : 0;
}

std::unique_ptr<Folding> fold_by_machine(const Unfolded& whole) {
  const std::int32_t period = ranks_of_alike_machines(whole);
  if (period == 0 || !whole.perturbation.scaled_resources.empty() || !whole.perturbation.slow_ranks.empty()) return nullptr;
  std::vector<std::uint64_t> shapes;
  for (std::int32_t r = 0; r < whole.environment.ranks; ++r) {
    const schedule::Program program = schedule::program_for(whole.plan.schedule, r);
    const std::uint64_t shape = relative_shape(program, whole.sizes);
    if (r < period) {
      if (!can_be_folded(program)) return nullptr;
      shapes.push_back(shape);
    } else if (shape != shapes[at(r % period)]) {
      return nullptr;
    }
  }
  return std::make_unique<ByMachine>(whole, period);
}

}  // namespace peal::sim
