#include <algorithm>
#include <base/names.hpp>
#include <schedule/registry.hpp>

#include "build_algorithms.hpp"
#include "group_map.hpp"

namespace peal::schedule {

namespace {

std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all;
  for (const auto& part :
       {ring_algorithms(), bidirectional_ring_algorithms(), multi_ring_algorithms(), direct_algorithms(), recursive_algorithms(),
        bruck_algorithms(), pat_algorithms(), rabenseifner_algorithms(), tree_algorithms(), binary_tree_algorithms(),
        double_binary_tree_algorithms(), hierarchical_algorithms(), grid_algorithms(), nvls_algorithms(), point_to_point_algorithms()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

constexpr std::size_t kMostRings = 64;
constexpr std::int32_t kMostShares = 4096;  // of all rings together

// Alone, a rank's result is its own contribution. Reductions copy in place too: premul_sum scales on the way.
void build_alone(const Request& request, RankBuilder& builder) {
  if (request.collective == Collective::barrier) return;
  const bool reduces_data = has_reduction(request.collective);
  if (request.in_place && !reduces_data) return;
  Op& op = builder.strand("copy").copy(output(0), input(0));
  if (reduces_data) op.flags |= kFinish;
}

Status check_ring(const Request& request, const std::vector<std::int32_t>& ring) {
  if (ring.empty()) return {};
  if (ring.size() != static_cast<std::size_t>(request.ranks))
    return fail(ErrorCode::invalid_argument, "the ring names {} ranks, the group has {}; name every rank once", ring.size(), request.ranks);
  std::vector<bool> seen(ring.size(), false);
  for (std::int32_t rank : ring) {
    if (rank < 0 || rank >= request.ranks || seen[static_cast<std::size_t>(rank)])
      return fail(ErrorCode::invalid_argument, "the ring names rank {} twice or not below {}; name every rank once", rank, request.ranks);
    seen[static_cast<std::size_t>(rank)] = true;
  }
  return {};
}

Status check_shares(const Placement& placement) {
  if (placement.shares.empty()) return {};
  if (placement.shares.size() != placement.rings.size())
    return fail(ErrorCode::invalid_argument, "the placement gives {} rings {} shares; give each one", placement.rings.size(),
                placement.shares.size());
  std::int64_t all = 0;
  for (const std::int32_t share : placement.shares) {
    if (share < 1) return fail(ErrorCode::invalid_argument, "a ring has the share {}; give 1 or more", share);
    all += share;
  }
  if (all > kMostShares) return fail(ErrorCode::invalid_argument, "rings have {} shares together; give at most {}", all, kMostShares);
  return {};
}

Status check_groups(const Request& request) {
  const std::vector<std::int32_t>& group = request.placement.group;
  if (group.empty()) return {};
  if (group.size() != static_cast<std::size_t>(request.ranks))
    return fail(ErrorCode::invalid_argument, "the placement gives {} ranks a group, there are {}", group.size(), request.ranks);
  std::int32_t next = 0;
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    if (group[rank] < 0 || group[rank] > next)
      return fail(ErrorCode::invalid_argument, "rank {} is in group {}; number groups from 0 by their lowest rank", rank, group[rank]);
    if (group[rank] == next) ++next;
  }
  return {};
}

Status check_request(const Request& request) {
  const std::int32_t n = request.ranks;
  if (n < 1) return fail(ErrorCode::invalid_argument, "a schedule for {} ranks; give at least 1", n);
  if (has_root(request.collective) && (request.root < 0 || request.root >= n))
    return fail(ErrorCode::invalid_argument, "root {} is not a rank of {}; give 0 to {}", request.root, n, n - 1);
  if (request.collective == Collective::send_recv && (request.root < 0 || request.root >= n || request.peer < 0 || request.peer >= n))
    return fail(ErrorCode::invalid_argument, "send_recv from {} to {} among {} ranks; give ranks 0 to {}", request.root, request.peer, n,
                n - 1);
  const bool moves_in_place = request.collective == Collective::all_to_all || request.collective == Collective::all_to_all_v ||
                              request.collective == Collective::send_recv;
  if (request.in_place && moves_in_place)
    return fail(ErrorCode::unsupported, "{} cannot work in place; give it separate buffers", name_of(request.collective));
  if (request.radix < 2) return fail(ErrorCode::invalid_argument, "a tree of radix {}; give 2 or more", request.radix);
  PEAL_TRY(check_ring(request, request.placement.ring));
  if (request.placement.rings.size() > kMostRings)
    return fail(ErrorCode::invalid_argument, "the placement has {} rings; give at most {}", request.placement.rings.size(), kMostRings);
  for (const std::vector<std::int32_t>& ring : request.placement.rings) PEAL_TRY(check_ring(request, ring));
  PEAL_TRY(check_shares(request.placement));
  return check_groups(request);
}

}  // namespace

std::span<const Algorithm> registry() {
  static const std::vector<Algorithm> table = all_algorithms();
  return table;
}

std::vector<const Algorithm*> algorithms_for(Collective collective) {
  std::vector<const Algorithm*> found;
  for (const Algorithm& algorithm : registry())
    if (algorithm.collective == collective) found.push_back(&algorithm);
  return found;
}

Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name) {
  std::vector<std::string_view> names;
  std::string known;
  for (const Algorithm* algorithm : algorithms_for(collective)) {
    if (algorithm->name == name || (!name.empty() && algorithm->alone == name)) return algorithm;
    for (const std::string_view one : {algorithm->name, algorithm->alone}) {
      if (one.empty()) continue;
      names.push_back(one);
      known += known.empty() ? "" : ", ";
      known += one;
    }
  }
  const std::string_view near = nearest(name, names.data(), names.size());
  return fail(ErrorCode::invalid_argument, "{} has no algorithm \"{}\"{}; type one of: {}", name_of(collective), name,
              near.empty() ? std::string() : fmt::format(" (did you mean {}?)", near), known);
}

bool suits(const Algorithm& algorithm, const Request& request, Protocol protocol) {
  return request.ranks == 1 || algorithm.suits_traits == nullptr || algorithm.suits_traits(request, traits_of(protocol));
}

Result<Schedule> make_schedule(const Algorithm& algorithm, const Request& request) {
  if (algorithm.collective != request.collective)
    return fail(ErrorCode::invalid_argument, "{} is an algorithm of {}, not of {}", algorithm.name, name_of(algorithm.collective),
                name_of(request.collective));
  PEAL_TRY(check_request(request));
  Schedule schedule;
  schedule.name = algorithm.name;
  schedule.request = request;
  schedule.pieced = algorithm.pieced;
  if (request.ranks == 1) {
    schedule.layouts = standard_layouts(request, 1);
    schedule.build = [request](std::int32_t) {
      RankBuilder builder;
      build_alone(request, builder);
      return builder.take();
    };
    return schedule;
  }
  PEAL_TRY(algorithm.supports(request));
  schedule.layouts = algorithm.layouts(request);
  // By value: a schedule may outlive the request; the builder's function lives as long as the program.
  Request known = request;
  keep_groups(known);
  if (algorithm.prepare != nullptr) algorithm.prepare(known);
  schedule.build = [known = std::move(known), build = algorithm.build](std::int32_t rank) {
    RankBuilder builder;
    build(known, rank, builder);
    return builder.take();
  };
  return schedule;
}

Layouts standard_layouts(const Request& request, std::int32_t chunks_per_block) {
  const Layout whole{Partition::even, 1, chunks_per_block};
  const Layout own{Partition::blocks, 1, chunks_per_block};
  const Layout all{Partition::blocks, request.ranks, chunks_per_block};
  const Layout varied{Partition::varied, request.ranks, chunks_per_block};
  Layouts layouts;
  switch (request.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::barrier:
    case Collective::send_recv: layouts.input = layouts.output = whole; break;
    case Collective::all_gather:
    case Collective::gather:
      layouts.input = own;
      layouts.output = all;
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      layouts.input = all;
      layouts.output = own;
      break;
    case Collective::all_to_all: layouts.input = layouts.output = all; break;
    case Collective::all_gather_v:
    case Collective::gather_v:
      layouts.input = own;
      layouts.output = varied;
      break;
    case Collective::reduce_scatter_v:
    case Collective::scatter_v:
      layouts.input = varied;
      layouts.output = own;
      break;
    case Collective::all_to_all_v: layouts.input = layouts.output = varied; break;
  }
  return layouts;
}

}  // namespace peal::schedule
