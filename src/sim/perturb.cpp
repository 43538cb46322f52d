// What differs from the machine as described: slow wires, slow and late ranks, noise, a rank that fails.
#include <base/mix_bits.hpp>
#include <cmath>

#include "world.hpp"

namespace peal::sim {

double World::slowness(std::int32_t rank) const {
  if (slow_.empty()) return 1;
  const auto it = slow_.find(rank);
  return it == slow_.end() ? 1 : it->second;
}

/// What jitter makes of a time: a factor, the same for the same stream and draw.
double World::noise(std::uint64_t stream, std::uint64_t draw) const {
  if (options_.jitter.share <= 0) return 1;
  const std::uint64_t bits = mix_bits(mix_bits(mix_bits(options_.jitter.seed) + stream) + draw);
  const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
  return 1 - options_.jitter.share * std::log(uniform);
}

double World::stretch(Strand& s) const {
  const double slow = slowness(s.rank);
  if (options_.jitter.share <= 0) return slow;
  return slow * noise((static_cast<std::uint64_t>(s.rank) << 16) + static_cast<std::uint64_t>(s.number), s.draws++);
}

double World::capacity_of(topology::ResourceId id) const {
  const double capacity = resources_.capacity(id).gigabytes();
  const auto it = scale_.find(id);
  return it == scale_.end() ? capacity : capacity * it->second;
}

/// A slow GPU fills its own end of a way more slowly, whatever it sends there and however many sends share it. To be called before the wire
/// is first crossed: nobody else begins there.
void World::slow_outlet(std::int32_t rank, topology::ResourceId wire) {
  const double slow = slowness(rank);
  if (slow <= 1 || !slow_outlets_.insert(wire).second) return;
  scale_.try_emplace(wire, 1).first->second /= slow;
}

double World::starts_at(std::int32_t rank) const {
  double time = ranks_[static_cast<std::size_t>(rank)].job->job->start;
  for (const auto& [late, delay] : options_.late_ranks)
    if (late == rank) time += delay;
  return time;
}

/// What a message costs a rank that takes longer for what it does.
const tuning::MessageCost& World::cost_to(const Strand& s, const tuning::MessageCost& cost) {
  if (!is_perturbed_ || s.stretch == 1) return cost;
  slowed_ = cost;
  slowed_.copy /= s.stretch;
  slowed_.reduce /= s.stretch;
  return slowed_;
}

}  // namespace peal::sim
