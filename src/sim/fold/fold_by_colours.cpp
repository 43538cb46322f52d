#include <algorithm>
#include <base/index.hpp>
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "flat_map.hpp"
#include "folding.hpp"
#include "program_shape.hpp"

namespace peal::sim {

namespace {

// Labels of edges. A rank and its channels see each other by the channel's place in the order in which the program names them: one label
// for the sender and one for the receiver each, from kFirstChannel on.
enum Label : std::uint32_t { kWay, kFirstChannel };

constexpr std::uint64_t kRankColour = 1;
constexpr std::uint64_t kChannelColour = 2;
constexpr std::uint64_t kResourceColour = 3;

using Vertex = ColouredGraph::Vertex;

class ByColours final : public Folding {
 public:
  ByColours(const Unfolded& whole, std::size_t most_channels)
      : whole_(whole),
        most_channels_(most_channels),
        joined_(whole.environment.ranks),
        vertex_of_resource_(whole.resources.count(), FlatMap::kNone) {
    for (const auto& [id, factor] : whole.perturbation.scaled_resources) capacity_scale_.emplace(id, factor);
    for (const auto& [rank, factor] : whole.perturbation.slow_ranks) slowness_.emplace(rank, factor);
  }

  bool fold() {
    const std::int32_t n = whole_.environment.ranks;
    // Ranks have the lowest vertices, so that classes of ranks are numbered first.
    for (std::int32_t r = 0; r < n; ++r) graph_.add(kRankColour);
    std::vector<std::uint64_t> shapes;
    shapes.reserve(at(n));
    ProgramReader reader(whole_.sizes);
    for (std::int32_t r = 0; r < n; ++r) {
      const schedule::Program program = schedule::program_for(whole_.plan.schedule, r);
      if (!can_be_folded(program)) return false;
      const auto slow = slowness_.find(r);
      const double slowness = slow == slowness_.end() ? 1.0 : slow->second;
      shapes.push_back(reader.read(program, hash_with(kRankColour, std::bit_cast<std::uint64_t>(slowness)),
                                   [&](NamedChannel channel, std::uint32_t number) {
                                     const std::uint32_t label = kFirstChannel + 2 * number + (channel.from == r ? 1 : 0);
                                     graph_.join(channel_vertex(channel), static_cast<Vertex>(r), label, label);
                                   }));
      graph_.set_colour(static_cast<Vertex>(r), shapes.back());
      if (vertex_of_channel_.size() > most_channels_) return false;
    }
    if (!reader.has_twins() && joined_.are_all_told_apart(std::move(shapes))) return false;
    // One class a rank costs what it saves.
    class_of_vertex_ = graph_.equitable_classes(at(n), at(n) / 2);
    if (class_of_vertex_.empty()) return false;
    graph_ = {};
    members_.assign(class_of_vertex_.size(), 0);
    for (const std::uint32_t c : class_of_vertex_) ++members_[c];
    std::vector<std::int32_t> class_of(at(n));
    for (std::int32_t r = 0; r < n; ++r) class_of[at(r)] = static_cast<std::int32_t>(class_of_vertex_[at(r)]);
    set_classes(std::move(class_of));
    return true;
  }

  Kin channel(std::int32_t from, std::int32_t to, std::int32_t number) const override {
    const Vertex vertex = vertex_of_channel_.find(NamedChannel{from, to, number}.key(whole_.environment.ranks));
    return vertex == FlatMap::kNone ? Kin{kNoName, 0} : kin(vertex);
  }
  Kin resource(topology::ResourceId id) const override { return kin(vertex_of_resource_[id]); }

 private:
  Kin kin(Vertex vertex) const {
    const std::uint32_t c = class_of_vertex_[vertex];
    return {c, static_cast<double>(members_[c])};
  }

  Vertex channel_vertex(NamedChannel channel) {
    const auto [from, to, number] = channel;
    const FlatMap::Place place = vertex_of_channel_.try_emplace(channel.key(whole_.environment.ranks), 0);
    if (!place.is_new) return *place.number;
    joined_.join(from, to);
    const tuning::Environment& e = whole_.environment;
    const int level = e.level_of(from, to);
    whole_.resources.route(whole_.device_of_rank[at(from)], whole_.device_of_rank[at(to)],
                           tuning::via_of(whole_.wires, e.is_host, level == 0), route_);
    std::uint64_t colour = hash_with(kChannelColour, static_cast<std::uint64_t>(number) << 8 | static_cast<std::uint64_t>(level));
    colour = hash_with(colour, std::bit_cast<std::uint64_t>(route_.latency.value));
    colour = hash_with(colour, std::bit_cast<std::uint64_t>(route_.bottleneck.value));
    const Vertex vertex = *place.number = graph_.add(colour);
    slow_outlet(from);
    for (const topology::ResourceId id : route_.resources)
      if (!whole_.implied.contains(id)) graph_.join(vertex, resource_vertex(id), kWay, kWay);
    return vertex;
  }

  double capacity_of(topology::ResourceId id) const {
    const auto scaled = capacity_scale_.find(id);
    return whole_.resources.capacity(id).value * (scaled == capacity_scale_.end() ? 1 : scaled->second);
  }

  // As World::slow_outlet has it: a slow rank fills its own end of each way more slowly.
  void slow_outlet(std::int32_t from) {
    const auto slow = slowness_.find(from);
    if (slow == slowness_.end() || slow->second <= 1 || route_.resources.empty()) return;
    const topology::ResourceId wire = route_.resources.front();
    if (slow_outlets_.insert(wire).second) capacity_scale_.try_emplace(wire, 1).first->second /= slow->second;
  }

  Vertex resource_vertex(topology::ResourceId id) {
    Vertex& vertex = vertex_of_resource_[id];
    if (vertex != FlatMap::kNone) return vertex;
    const std::uint64_t colour = hash_with(kResourceColour, std::bit_cast<std::uint64_t>(capacity_of(id)));
    return vertex = graph_.add(hash_with(colour, whole_.implied.count_followers(id)));
  }

  const Unfolded whole_;  // while folding
  std::size_t most_channels_;
  std::unordered_map<topology::ResourceId, double> capacity_scale_;
  std::unordered_map<std::int32_t, double> slowness_;
  std::unordered_set<topology::ResourceId> slow_outlets_;
  ColouredGraph graph_;
  JoinedRanks joined_;
  FlatMap vertex_of_channel_;
  LargeVector<Vertex> vertex_of_resource_;  // by id; FlatMap::kNone: none crosses it
  std::vector<std::uint32_t> class_of_vertex_;
  std::vector<std::uint32_t> members_;
  topology::Route route_;
};

}  // namespace

std::unique_ptr<Folding> fold_by_colours(const Unfolded& whole, std::size_t most_channels) {
  auto folding = std::make_unique<ByColours>(whole, most_channels);
  if (!folding->fold()) return nullptr;
  return folding;
}

}  // namespace peal::sim
