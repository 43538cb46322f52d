// Grid: more than two levels. Groups (nodes) stand in rows and planes; every side of the grid is a level of its own, the ranks of a group
// are the innermost.
//
//     4 groups of 2 as a grid of 2 x 2      all_reduce                          all_to_all: along each side every rank tells
//       group 0   group 1                   reduce-scatter inside               whoever differs from it in that side alone all
//       [0 1] --- [2 3]   side 0            reduce-scatter along side 0         blocks for ranks that stand there
//         |         |                       all-reduce along side 1                 [0 1]   0: blocks of 1, 3, 5, 7 to 1
//       [4 5] --- [6 7]                     all-gather along side 0                 side 0  0: those of 2, 6 to 2 (0's and 1's)
//         side 1                            all-gather inside                       side 1  0: that of 4 to 4 (of 0 to 3)
//
// All-reduce after Cho et al., "BlueConnect: Decomposing all-reduce for deep learning on heterogeneous network hierarchy" (2019), in two
// dimensions Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash" (2018). As many bytes cross as by rings
// along rails (build_hierarchical.cpp), in as many steps as the sides are long together, not their product: 12,500 groups take 134 steps
// and not 24,998. Along the first side, among neighbours, goes the most; what goes along a later one is shorter by the sides before it.
// A piece would be a message of few bytes in the last of them, so the whole goes through side by side.
//
// All-to-all after Bruck et al. (1997) in mixed radix, the sides; with groups as one side, as `hierarchical`, the form of Tutel's
// (Hwang et al., "Tutel: Adaptive mixture-of-experts at scale", 2023). A rank sends few long messages where the direct exchange sends one
// to every rank; every block crosses between groups once a side. Before each side blocks are put in order, so that what goes to one rank
// lies together: area 0 of scratch is what is sent, area 1 what came. After the last side they are in the order of the ranks they came
// from.
#include <algorithm>
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "grid.hpp"
#include "group_map.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

constexpr std::int32_t kMostChunks = 65535;  // of one message

using Sides = std::vector<std::int32_t>;

// The ranks of a group, and the groups as one side or as a grid.
Sides two_sides(const GroupMap& map) { return {map.size(), map.groups()}; }
Sides all_sides(const GroupMap& map) {
  Sides sides = grid_sides(map.groups());
  sides.insert(sides.begin(), map.size());
  return sides;
}

Status needs_grid(const GroupMap& map) {
  if (!map.is_equal) return fail(ErrorCode::unsupported, "a grid needs groups of equal size; use tree or ring");
  if (!grid_sides(map.groups()).empty()) return {};
  return fail(ErrorCode::unsupported,
              "a grid needs a number of groups that is a product, 4 or more; there are {}; use hierarchical or ring", map.groups());
}
Status supports_all_reduce(const Request& request) {
  const GroupMap map = group_map(request);
  PEAL_TRY(needs_grid(map));
  if (map.groups() <= kMostChunks) return {};
  return fail(ErrorCode::unsupported, "grid all_reduce moves a chunk a group in one message: at most {} groups, not {}", kMostChunks,
              map.groups());
}

Status supports_exchange(const Request& request, const GroupMap& map, const Sides& sides) {
  if (request.in_place)
    return fail(ErrorCode::unsupported, "{} cannot work in place; give it separate buffers", name_of(request.collective));
  if (!map.is_regular)
    return fail(ErrorCode::unsupported, "all_to_all by sides needs groups of equally many consecutive ranks; use all_pairs");
  for (const std::int32_t size : sides)
    if (size > 1 && request.ranks / size > kMostChunks)
      return fail(ErrorCode::unsupported, "all_to_all by sides would send {} blocks in a message, at most {} are possible; use all_pairs",
                  request.ranks / size, kMostChunks);
  return {};
}
Status supports_grid_exchange(const Request& request) {
  const GroupMap map = group_map(request);
  PEAL_TRY(needs_grid(map));
  return supports_exchange(request, map, all_sides(map));
}
Status supports_two_sides(const Request& request) {
  const GroupMap map = group_map(request);
  if (map.groups() < 2 || map.largest() < 2)
    return fail(ErrorCode::unsupported, "hierarchical all_to_all needs at least 2 groups of at least 2 ranks; use all_pairs");
  return supports_exchange(request, map, two_sides(map));
}

Layouts all_reduce_layouts(const Request& request) { return standard_layouts(request, request.ranks); }
Layouts exchange_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_copies = 2;
  return layouts;
}

void build_exchange(const Request& request, std::int32_t rank, RankBuilder& builder, const Sides& sides) {
  const std::int32_t n = request.ranks;
  const std::int32_t packed = builder.event();
  const std::int32_t received = builder.event();
  StrandBuilder send = builder.strand("send");
  StrandBuilder receive = builder.strand("receive");
  std::vector<Side> places = places_in_grid(sides, rank);
  std::erase_if(places, [](const Side& side) { return side.size == 1; });
  for (const Side& side : places) {
    const auto number = static_cast<std::int32_t>(&side - places.data());
    const bool is_last = &side == &places.back();
    const std::int32_t blocks = n / side.size;  // that one rank is sent
    const auto to_send = [&](std::int32_t position) { return scratch(position * blocks, blocks); };
    const auto came = [&](std::int32_t position) {
      return is_last ? output(position * blocks, blocks) : scratch(n + position * blocks, blocks);
    };
    // What goes to one rank of this side lies `size` blocks apart.
    if (number > 0) send.wait(received, number);
    const Chunks unsorted = number == 0 ? input(0) : scratch(n);
    send.loop(side.size, [&] { send.loop(blocks, [&] { send.copy(scratch(0).by(1, blocks), unsorted.by(side.size, 1)); }); });
    send.signal(packed);
    receive.wait(packed, number + 1);
    receive.copy(came(side.position), to_send(side.position));
    const std::int32_t next = wrap(side.position + 1, side.size);
    const std::int32_t previous = wrap(side.position - 1, side.size);
    if (is_last) {  // whose places wrap as ranks do
      const auto is_one_of_a_round = [&](Op& op, std::int32_t step) {
        op.peer_step = step;
        op.modulus = n;
      };
      send.loop(side.size - 1, [&] { is_one_of_a_round(send.send(side.at(rank, next), to_send(next).by(blocks)), side.stride); });
      receive.loop(side.size - 1,
                   [&] { is_one_of_a_round(receive.recv(side.at(rank, previous), came(previous).by(-blocks)), -side.stride); });
    } else {
      for (std::int32_t d = 0; d < side.size - 1; ++d) {
        const std::int32_t to = wrap(next + d, side.size);
        const std::int32_t from = wrap(previous - d, side.size);
        send.send(side.at(rank, to), to_send(to));
        receive.recv(side.at(rank, from), came(from));
      }
    }
    receive.signal(received);
  }
}

void build_grid_exchange(const Request& request, std::int32_t rank, RankBuilder& builder) {
  build_exchange(request, rank, builder, all_sides(group_map(request)));
}
void build_two_sides(const Request& request, std::int32_t rank, RankBuilder& builder) {
  build_exchange(request, rank, builder, two_sides(group_map(request)));
}

CostTerms exchange_cost(const Sides& sides) {
  CostTerms cost;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (sides[i] == 1) continue;
    const double messages = sides[i] - 1;
    CostTerms::Level& level = cost.level[i == 0 ? 0 : 1];
    level.rounds += 1;
    level.messages += messages;
    level.sent += messages / sides[i];
    level.critical += messages / sides[i];
    cost.copied += 1 + 1.0 / sides[i];
  }
  return cost;
}
CostTerms grid_exchange_cost(const Request& request) { return exchange_cost(all_sides(group_map(request))); }
CostTerms two_sides_cost(const Request& request) { return exchange_cost(two_sides(group_map(request))); }

// Rings are canonical between two only; then neighbours are added up side by side.
bool all_reduce_is_canonical(const Request& request) {
  const GroupMap map = group_map(request);
  const Sides sides = all_sides(map);
  if (std::any_of(sides.begin(), sides.end(), [](std::int32_t size) { return size > 2; })) return false;
  std::vector<CanonicalNode> sums;
  for (const auto& members : map.members) {
    CanonicalNode sum{members[0], 1};
    for (std::size_t i = 1; i < members.size(); ++i) sum = combined(sum, {members[i], 1});
    sums.push_back(sum);
  }
  for (; sums.size() > 1; sums.resize(sums.size() / 2))
    for (std::size_t i = 0; i < sums.size() / 2; ++i) sums[i] = combined(sums[2 * i], sums[2 * i + 1]);
  return sums[0].count != 0;
}

}  // namespace

void build_grid_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const GroupSeat at = group_seat(request, map, rank);
  const std::int32_t m = map.size();
  struct Level {
    RingSeat seat;
    RingChunks parts;
    const char* down;
    const char* up;
  };
  std::vector<Level> levels;
  std::int32_t first = 0;
  std::int32_t width = request.ranks;  // what this rank still answers for
  const auto add = [&](std::int32_t size, std::int32_t position, auto&& rank_at, const char* down, const char* up) {
    if (size == 1) return;
    width /= size;
    levels.push_back({{size, position, rank_at(wrap(position - 1, size)), rank_at(wrap(position + 1, size)), 0},
                      RingChunks::in_order(size, first, width),
                      down,
                      up});
    first += position * width;
  };
  add(
      m, at.local, [&](std::int32_t p) { return map.member(at.group, p); }, "reduce inside", "gather inside");
  for (const Side& side : places_in_grid(grid_sides(map.groups()), at.group))
    add(
        side.size, side.position, [&](std::int32_t p) { return map.member(side.at(at.group, p), at.local); }, "reduce along a side",
        "gather along a side");

  StrandBuilder strand = builder.strand("grid");
  for (Level& level : levels) {
    level.seat.channel = static_cast<std::uint8_t>(&level - levels.data());
    const bool is_first = &level == &levels.front();
    const bool is_last = &level == &levels.back();
    ring_reduce_scatter(strand, level.seat, level.parts, is_first ? kInput : kOutput, kOutput,
                        level.parts.at(level.seat.position).in(kOutput), is_last);
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level)
    ring_all_gather(strand, level->seat, level->parts, level->parts.at(level->seat.position).in(kOutput), kOutput);
}

CostTerms grid_all_reduce_cost(const Request& request) {
  CostTerms cost;
  double left = 1;  // of the data, what a rank still answers for
  const GroupMap map = group_map(request);
  const Sides sides = all_sides(map);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const double steps = sides[i] - 1;
    left /= sides[i];
    CostTerms::Level& level = cost.level[i == 0 ? 0 : 1];
    level.rounds += 2 * steps;
    level.messages += 2 * steps;
    level.sent += 2 * steps * left;
    level.critical += 2 * steps * left;
    cost.reduced += steps * left;
  }
  return cost;
}

std::vector<Algorithm> grid_algorithms() {
  using C = Collective;
  return {
      {"grid", "reduce-scatter inside groups, then along each side of a grid of groups, and back", C::all_reduce, true, supports_all_reduce,
       all_reduce_layouts, build_grid_all_reduce, grid_all_reduce_cost, all_reduce_is_canonical, has_slots},
      {"grid", "blocks travel inside groups, then along each side of a grid of groups", C::all_to_all, false, supports_grid_exchange,
       exchange_layouts, build_grid_exchange, grid_exchange_cost, without_reduction, has_snapshots_or_is_pair},
      {"hierarchical", "blocks travel inside groups, then along rails", C::all_to_all, false, supports_two_sides, exchange_layouts,
       build_two_sides, two_sides_cost, without_reduction, has_snapshots_or_is_pair},
  };
}

}  // namespace peal::schedule
