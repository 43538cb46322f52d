// A machine's colour says what its ranks do, and how with one another; an edge between two machines is a channel, and its label says which
// rank of each names it, and as what. Machines of one class then do the same (folding.hpp): their ranks run programs of one shape, in
// pairs; channels of a class begin and end at ranks of one place, and cross the same wires there; and between machines that are alike on a
// fabric that treats them alike there are no others. Wires that never limit are the same in machines that are slowed in the same way.
#include <algorithm>
#include <base/index.hpp>
#include <bit>
#include <map>
#include <tuple>
#include <unordered_map>

#include "flat_map.hpp"
#include "folding.hpp"
#include "program_shape.hpp"

namespace peal::sim {

namespace {

constexpr std::uint64_t kMachineColour = 4;
constexpr std::uint64_t kShapeSeed = 5;

class ByParts final : public Folding {
 public:
  ByParts(const Unfolded& whole, std::int32_t period)
      : whole_(whole), ranks_(whole.environment.ranks), period_(period), per_copy_(whole.resources.per_copy()) {}

  bool fold(std::size_t most_channels) {
    const std::int32_t machines = ranks_ / period_;
    std::vector<std::uint64_t> colours(at(machines), kMachineColour);
    for (const auto& [id, factor] : whole_.perturbation.scaled_resources) {
      if (id / per_copy_ >= colours.size()) return false;
      std::uint64_t& colour = colours[id / per_copy_];
      colour = hash_with(hash_with(colour, id % per_copy_), std::bit_cast<std::uint64_t>(factor));
    }
    for (const auto& [rank, factor] : whole_.perturbation.slow_ranks) slowness_.emplace(rank, factor);
    if (!look_through(colours, most_channels)) return false;

    ColouredGraph graph;
    for (const std::uint64_t colour : colours) graph.add(colour);
    for (Crossing& c : crossings_) {
      const auto label = std::tuple(c.from % period_, c.to % period_, c.number, c.as_sent, c.as_received);
      c.label = labels_.try_emplace(label, static_cast<std::uint32_t>(labels_.size())).first->second;
      graph.join(machine_of(c.from), machine_of(c.to), 2 * c.label, 2 * c.label + 1);
    }
    class_of_machine_ = graph.equitable_classes(colours.size(), colours.size() / 2);
    if (class_of_machine_.empty()) return false;
    machines_.assign(*std::max_element(class_of_machine_.begin(), class_of_machine_.end()) + 1U, 0);
    for (const std::uint32_t c : class_of_machine_) ++machines_[c];
    for (const Crossing& c : crossings_) ++channels_[name_of(c)];
    std::vector<std::int32_t> class_of(at(ranks_));
    for (std::int32_t r = 0; r < ranks_; ++r)
      class_of[at(r)] = static_cast<std::int32_t>(class_of_machine_[machine_of(r)]) * period_ + r % period_;
    set_classes(std::move(class_of));
    return true;
  }

  /// More than half of the ranks are told apart, by their programs or by their way from one that is like no other.
  bool is_hopeless() {
    if (is_each_told_apart_) return true;
    std::sort(shapes_.begin(), shapes_.end());
    return std::unique(shapes_.begin(), shapes_.end()) - shapes_.begin() > ranks_ / 2;
  }

  Kin channel(std::int32_t from, std::int32_t to, std::int32_t number) const override {
    const std::uint32_t of_machine = class_of_machine_[machine_of(from)];
    if (machine_of(from) == machine_of(to)) {
      const std::uint64_t begin = static_cast<std::uint64_t>(of_machine) * at(period_) + at(from % period_);
      return {(begin * at(period_) + at(to % period_)) << 8 | static_cast<std::uint64_t>(number), machines_[of_machine]};
    }
    const std::uint32_t place = place_of_.find(NamedChannel{from, to, number}.key(ranks_));
    if (place == FlatMap::kNone) return {kNoName, 0};
    const std::uint64_t name = name_of(crossings_[place]);
    return {name, channels_.at(name)};
  }
  Kin resource(topology::ResourceId id) const override {
    const std::uint32_t of_machine = class_of_machine_[id / per_copy_];
    return {of_machine * per_copy_ + id % per_copy_, machines_[of_machine]};
  }

 private:
  /// A channel between two machines, and the numbers that it has in the programs of its ends.
  struct Crossing {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::int32_t number = 0;
    std::uint32_t as_sent = 0;
    std::uint32_t as_received = 0;
    std::uint32_t label = 0;
  };

  ColouredGraph::Vertex machine_of(std::int32_t rank) const { return static_cast<ColouredGraph::Vertex>(rank / period_); }

  /// Colours of machines by what their ranks do, and what crosses between them. False where that is too much, or cannot be folded.
  bool look_through(std::vector<std::uint64_t>& colours, std::size_t most_channels) {
    ProgramReader reader(whole_.sizes);
    JoinedRanks joined(ranks_);
    for (std::int32_t r = 0; r < ranks_; ++r) {
      const schedule::Program program = schedule::program_for(whole_.plan.schedule, r);
      if (!can_be_folded(program) || crossings_.size() > most_channels) return false;
      const auto slow = slowness_.find(r);
      const std::uint64_t seed = slow == slowness_.end() ? kShapeSeed : hash_with(kShapeSeed, std::bit_cast<std::uint64_t>(slow->second));
      shapes_.push_back(reader.read(program, seed, [&](NamedChannel channel, std::uint32_t number) {
        const bool is_sender = channel.from == r;
        const std::int32_t other = is_sender ? channel.to : channel.from;
        joined.join(r, other);
        if (machine_of(other) == machine_of(r)) {
          within_.push_back(at(other % period_) << 40 | static_cast<std::uint64_t>(number) << 9 |
                            static_cast<std::uint64_t>(channel.number) << 1 | (is_sender ? 1U : 0U));
          return;
        }
        const FlatMap::Place place = place_of_.try_emplace(channel.key(ranks_), static_cast<std::uint32_t>(crossings_.size()));
        if (place.is_new) crossings_.push_back({channel.from, channel.to, channel.number});
        Crossing& crossing = crossings_[*place.number];
        (is_sender ? crossing.as_sent : crossing.as_received) = number;
      }));
      std::uint64_t& colour = colours[machine_of(r)];
      colour = hash_with(colour, shapes_.back());
      for (const std::uint64_t channel : within_) colour = hash_with(colour, channel);
      within_.clear();
    }
    is_each_told_apart_ = !reader.has_twins() && joined.are_all_told_apart(shapes_);
    return !is_each_told_apart_;
  }

  std::uint64_t name_of(const Crossing& c) const {
    const std::uint64_t pair =
        static_cast<std::uint64_t>(class_of_machine_[machine_of(c.from)]) * machines_.size() + class_of_machine_[machine_of(c.to)];
    return std::uint64_t{1} << 63 | (pair * labels_.size() + c.label);
  }

  const Unfolded whole_;  // while folding
  std::int32_t ranks_;
  std::int32_t period_;
  std::size_t per_copy_;
  std::unordered_map<std::int32_t, double> slowness_;
  std::vector<std::uint64_t> shapes_;  // of all ranks' programs
  bool is_each_told_apart_ = false;
  std::vector<Crossing> crossings_;
  FlatMap place_of_;                   // in crossings_, by key
  std::vector<std::uint64_t> within_;  // of the rank at hand: its channels inside its machine
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::uint32_t, std::uint32_t>, std::uint32_t> labels_;
  std::vector<std::uint32_t> class_of_machine_;
  std::vector<double> machines_;                        // by class
  std::unordered_map<std::uint64_t, double> channels_;  // of a class, by its name
};

}  // namespace

ByPartsOrNot fold_by_parts(const Unfolded& whole, std::size_t most_channels) {
  const std::int32_t period = ranks_of_alike_machines(whole);
  if (period == 0) return {};
  auto folding = std::make_unique<ByParts>(whole, period);
  if (folding->fold(most_channels)) return {std::move(folding), false};
  return {nullptr, folding->is_hopeless()};
}

}  // namespace peal::sim
