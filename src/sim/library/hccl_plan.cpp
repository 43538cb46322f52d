#include "hccl_plan.hpp"

#include <algorithm>
#include <base/index.hpp>
#include <base/names.hpp>
#include <base/text.hpp>
#include <bit>

#include "kinds.hpp"

namespace peal::sim {

namespace {

constexpr std::string_view kHcclNames[] = {"Ring", "H-D_R", "NHR", "Pipeline", "Pairwise"};

/// Two passes over the ranks: what scatters and what gathers.
double passes_of(Collective c) { return c == Collective::all_reduce || is_rooted(c) ? 2 : 1; }

/// Copies and writes by RDMA that add as they store.
bool sums_in_place(DataType type) {
  return type == DataType::f32 || type == DataType::f16 || type == DataType::bf16 || type == DataType::i32 || type == DataType::i8;
}

/// Which collectives HCCL has each algorithm for (its table of algorithms between servers).
bool can_do(HcclAlgorithm algorithm, Collective collective) {
  const bool sums_or_gathers = collective == Collective::all_reduce || is_gather(collective);
  switch (algorithm) {
    case HcclAlgorithm::ring: return sums_or_gathers || is_rooted(collective) || collective == Collective::scatter;
    case HcclAlgorithm::halving_doubling: return sums_or_gathers || is_rooted(collective);
    case HcclAlgorithm::nhr: return sums_or_gathers || collective == Collective::broadcast || collective == Collective::scatter;
    case HcclAlgorithm::pipeline: return sums_or_gathers;
    case HcclAlgorithm::pairwise: return collective == Collective::all_to_all;
  }
  return false;
}

}  // namespace

std::string_view name_of(HcclAlgorithm algorithm) noexcept { return kHcclNames[static_cast<std::size_t>(algorithm)]; }

Result<HcclPlan> HcclPlan::make(const JobShape& shape, std::string_view processor, const LibraryOptions& options,
                                const topology::LibraryConstants& constants) {
  HcclPlan plan;
  plan.shape_ = shape;
  // A port that is as wide as links to all others has one to each.
  constexpr double kRounding = 0.99;
  plan.is_mesh_ =
      shape.per_node > 1 && shape.wire == NodeWire::hccs && shape.port_GBps >= kRounding * shape.pair_GBps * (shape.per_node - 1);
  plan.is_910b_ = processor.find("910B") != std::string_view::npos;
  if (options.protocol) return fail(ErrorCode::invalid_argument, "HCCL has no protocols to choose from: leave --protocol out");
  if (options.is_gdr_off) return fail(ErrorCode::unsupported, "Ascend processors have NICs of their own: leave --gpudirect out");
  if (options.algorithm) {
    const auto same = [&](std::string_view name) { return lower_case(name) == lower_case(*options.algorithm); };
    const auto known = std::find_if(std::begin(kHcclNames), std::end(kHcclNames), same);
    if (known == std::end(kHcclNames))
      return fail(ErrorCode::unsupported, "the algorithm {} of HCCL is not modelled: {} are, between servers", *options.algorithm,
                  fmt::join(kHcclNames, ", "));
    if (shape.nodes == 1)
      return fail(ErrorCode::unsupported,
                  "HCCL chooses by itself what goes on inside a server ({} here): leave --algorithm out, or give --nodes",
                  plan.is_mesh_ ? "a mesh" : "a ring");
    plan.forced_ = static_cast<HcclAlgorithm>(known - std::begin(kHcclNames));
    if (plan.forced_ == HcclAlgorithm::pipeline && !(plan.is_mesh_ && plan.is_910b_))
      return fail(ErrorCode::unsupported,
                  "HCCL's Pipeline needs servers of several Ascend 910B that are wired to each other: type --algorithm Ring");
  }
  for (const auto& [name, into] : {std::pair<std::string, int*>{"launch." + shape.gpu, &plan.launch_},
                                   {"hccl.step", &plan.step_},
                                   {"hccl.step.net", &plan.net_step_}}) {
    PEAL_ASSIGN(*into, constants.find(name));
  }
  if (shape.per_node > 1) {
    PEAL_ASSIGN(plan.share_, constants.find("share.ring." + shape.link));
  }
  if (shape.nodes > 1) {
    PEAL_ASSIGN(plan.net_share_, constants.find("net.share." + (shape.is_staged ? "host" : shape.network)));
  }
  for (const auto& [name, into] : {std::pair<std::string, double*>{"plan.hccl.oneshot", &plan.oneshot_bytes_},
                                   {"plan.hccl.tasks", &plan.most_tasks_},
                                   {"plan.hccl.ring.most", &plan.most_ring_}}) {
    PEAL_ASSIGN(const int i, constants.find(name));
    *into = constants.value(i);
  }
  PEAL_ASSIGN(const int pipeline, constants.find("plan.hccl.pipeline"));
  const std::vector<double>& blocks = constants.all()[at(pipeline)].values;
  if (blocks.size() != 2) return fail(ErrorCode::corrupt, "plan.hccl.pipeline needs two values");
  plan.gather_block_ = blocks[0];
  plan.reduce_block_ = blocks[1];
  return plan;
}

/// GetDefaultAlgoLevel1V2: long blocks of several ranks a server, and few enough tasks.
bool HcclPlan::is_pipelined(const LibraryCall& call) const {
  if (!is_mesh_ || !is_910b_ || !can_do(HcclAlgorithm::pipeline, call.collective)) return false;
  if (call.collective != Collective::all_gather && !sums_in_place(call.type)) return false;
  const bool is_all_reduce = call.collective == Collective::all_reduce;
  const double block = static_cast<double>(call.bytes.value) / shape_.ranks;
  const double tasks = (shape_.nodes * (5.0 * (shape_.per_node - 1) + 8) + 5) * (is_all_reduce ? 2 : 1);
  return block >= (is_all_reduce ? reduce_block_ : gather_block_) && tasks <= most_tasks_;
}

Result<HcclAlgorithm> HcclPlan::between(const LibraryCall& call) const {
  if (forced_) {
    if (can_do(*forced_, call.collective)) return *forced_;
    return fail(ErrorCode::unsupported, "HCCL's {} cannot do {}: leave --algorithm out", name_of(*forced_), name_of(call.collective));
  }
  if (call.collective == Collective::all_to_all) return HcclAlgorithm::pairwise;
  if (call.collective == Collective::scatter) return HcclAlgorithm::ring;
  const auto nodes = static_cast<unsigned>(shape_.nodes);
  if (is_910b_ && !is_rooted(call.collective)) {
    if (is_pipelined(call)) return HcclAlgorithm::pipeline;
    // The costs that it compares (SelectAlgoTypeFor...) give ring, NHR and powers of two of H-D_R the same bytes, so that their steps
    // decide, and of equals the first.
    return static_cast<unsigned>(std::bit_width(nodes - 1)) < nodes - 1 ? HcclAlgorithm::nhr : HcclAlgorithm::ring;
  }
  return nodes >= most_ring_ || std::has_single_bit(nodes) ? HcclAlgorithm::halving_doubling : HcclAlgorithm::ring;
}

bool HcclPlan::is_oneshot(const LibraryCall& call) const {
  return shape_.nodes == 1 && is_mesh_ && is_910b_ && call.collective == Collective::all_reduce && sums_in_place(call.type) &&
         static_cast<double>(call.bytes.value) <= oneshot_bytes_;
}

/// Over a mesh every step is one exchange with all others; a ring takes a step for each of them.
void HcclPlan::go_inside(LibraryWay& way, const LibraryCall& call) const {
  const double others = shape_.per_node - 1;
  const double passes = is_oneshot(call) ? 1 : passes_of(call.collective);
  if (call.collective == Collective::send_recv) {
    way.hops = 1;
    way.limits.push_back({shape_.pair_GBps, share_});
    return;
  }
  way.hops = passes * (is_mesh_ ? 1 : others);
  double times = is_oneshot(call) ? others : passes * others / shape_.per_node;  // that a rank's wires carry the bytes
  if (call.collective == Collective::scatter) times /= shape_.nodes;             // a server's part is all that comes there
  way.limits.push_back({(is_mesh_ ? shape_.port_GBps : shape_.ring_GBps) / times, share_});
}

/// Ranks that are equal in their servers speak to each other, each about its part and by its own NIC.
void HcclPlan::go_between(LibraryWay& way, const LibraryCall& call, HcclAlgorithm algorithm) const {
  const double m = shape_.nodes;
  const auto nodes = static_cast<unsigned>(shape_.nodes);
  const double passes = passes_of(call.collective);
  const double doublings = std::bit_width(nodes - 1);
  double steps = passes * (m - 1);
  double times = passes * (m - 1) / m;  // that the ranks of a server together carry the bytes
  if (algorithm == HcclAlgorithm::nhr || algorithm == HcclAlgorithm::halving_doubling) steps = passes * doublings;
  if (algorithm == HcclAlgorithm::halving_doubling && !std::has_single_bit(nodes)) {
    // Servers beyond a power of two hand their bytes to another and get the result: once for a root, in each pass for all.
    if (is_rooted(call.collective)) steps = 1 + passes * (doublings - 1);
    times += is_rooted(call.collective) ? 1 : passes;
  }
  if (call.collective == Collective::send_recv) {
    steps = 1;
    times = 1;
  }
  // Every rank has so many bytes, or all leave by the one NIC of who has them.
  const bool is_each_whole =
      call.collective == Collective::all_to_all || call.collective == Collective::scatter || call.collective == Collective::send_recv;
  if (is_each_whole) times *= shape_.per_node;
  way.net_hops = steps;
  way.limits.push_back({shape_.net_GBps / times, net_share_});
}

Result<LibraryWay> HcclPlan::way(const LibraryCall& call) const {
  if (call.collective == Collective::gather) return fail(ErrorCode::unsupported, "HCCL has no gather: ask for all_gather");
  LibraryWay way;
  way.bytes = static_cast<double>(call.bytes.value);
  way.launch = launch_;
  way.hop = step_;
  way.net_hop = net_step_;
  way.flows_inside = true;
  way.limits_add = true;
  if (shape_.ranks == 1) {
    way.algorithm = "Copy";
    way.protocol = "SDMA";
    return way;
  }
  const bool is_pair = call.collective == Collective::send_recv;
  const bool goes_inside = shape_.per_node > 1 && !(is_pair && shape_.nodes > 1);
  if (goes_inside) {
    way.algorithm = is_pair ? "Direct" : is_oneshot(call) ? "Mesh one-shot" : is_mesh_ ? "Mesh" : "Ring";
    go_inside(way, call);
  }
  way.protocol = "SDMA";
  if (shape_.nodes == 1) return way;
  way.protocol = goes_inside ? "SDMA+RDMA" : "RDMA";
  HcclAlgorithm algorithm = HcclAlgorithm::pairwise;
  if (!is_pair) {
    PEAL_ASSIGN(algorithm, between(call));
  }
  way.algorithm += (goes_inside ? "+" : "") + std::string(is_pair ? "Direct" : name_of(algorithm));
  go_between(way, call, algorithm);
  if (algorithm == HcclAlgorithm::pipeline) {
    // Both at once, a server's part at a time: whichever takes longer, and one part of the other.
    LibraryWay::Limit& inside = way.limits[0];
    LibraryWay::Limit& outside = way.limits[1];
    LibraryWay::Limit& faster = inside.GBps > outside.GBps ? inside : outside;
    faster.GBps *= shape_.nodes;
  }
  return way;
}

}  // namespace peal::sim
