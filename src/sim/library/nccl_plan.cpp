#include "nccl_plan.hpp"

#include <algorithm>
#include <base/text.hpp>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace peal::sim {

namespace {

constexpr NcclAlgorithm kAlgorithms[] = {NcclAlgorithm::ring,         NcclAlgorithm::tree, NcclAlgorithm::nvls,
                                         NcclAlgorithm::nvls_tree,    NcclAlgorithm::pat,  NcclAlgorithm::collnet_direct,
                                         NcclAlgorithm::collnet_chain};
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::size_t index(NcclAlgorithm a) { return static_cast<std::size_t>(a); }
std::size_t at(int i) { return static_cast<std::size_t>(i); }
bool is_gather(Collective c) { return c == Collective::all_gather || c == Collective::reduce_scatter; }
bool is_rooted(Collective c) { return c == Collective::broadcast || c == Collective::reduce; }
bool is_nvls(NcclAlgorithm a) { return a == NcclAlgorithm::nvls || a == NcclAlgorithm::nvls_tree; }
bool is_collnet(NcclAlgorithm a) { return a == NcclAlgorithm::collnet_direct || a == NcclAlgorithm::collnet_chain; }
bool is_planned(Collective c) { return c == Collective::all_reduce || is_gather(c) || is_rooted(c); }

int log2_of(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }

bool is_same_word(std::string_view a, std::string_view b) { return lower_case(a) == lower_case(b); }

/// Of "2.26.2"; an empty version is a recent one.
bool is_at_least(std::string_view version, int wanted_major, int wanted_minor) {
  int major = wanted_major;
  int minor = wanted_minor;
  const char* const last = version.data() + version.size();
  const auto [end, error] = std::from_chars(version.data(), last, major);
  if (error == std::errc() && end != last) std::from_chars(end + 1, last, minor);
  return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
}

/// NCCL_PROTO and NCCL_ALGO, by which plugins and operators switch ways off, came with NCCL 2.5.
bool can_switch_off(std::string_view version) { return is_at_least(version, 2, 5); }
bool has_pat(std::string_view version) { return is_at_least(version, 2, 23); }

}  // namespace

std::string_view name_of(NcclAlgorithm algorithm) noexcept {
  constexpr std::string_view kNames[] = {"Ring", "Tree", "NVLS", "NVLSTree", "PAT", "CollNetDirect", "CollNetChain", "Direct"};
  return kNames[index(algorithm)];
}

std::string_view nccl_table_of(std::string_view gpu) noexcept { return gpu == "cdna" || gpu == "ascend" ? "hopper" : gpu; }

RingSteps ring_steps(Collective collective, const JobShape& shape) {
  if (collective == Collective::all_reduce) return {2 * (shape.ranks - 1), 2 * (shape.nodes - 1)};
  return {shape.ranks - 1, shape.nodes - 1};
}

Result<NcclPlan> NcclPlan::make(const JobShape& shape, const LibraryOptions& options, const topology::LibraryConstants& constants) {
  NcclPlan plan;
  plan.shape_ = shape;
  plan.options_ = options;
  PEAL_TRY(plan.read(constants));
  if (options.protocol &&
      std::none_of(std::begin(kNcclProtocols), std::end(kNcclProtocols), [&](auto p) { return is_same_word(p, *options.protocol); }))
    return fail(ErrorCode::invalid_argument, "NCCL has no protocol {}: LL, LL128 or Simple", *options.protocol);
  for (std::size_t p = 0; options.protocol && p < 3; ++p)
    if (is_same_word(kNcclProtocols[p], *options.protocol) && plan.offered_[p] == 0)
      return fail(ErrorCode::unsupported,
                  "{} is switched off over {}, which does not keep the order of bytes that it needs; type --protocol Simple",
                  kNcclProtocols[p], shape.network);
  if (!options.algorithm) return plan;
  const auto known =
      std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms), [&](auto a) { return is_same_word(name_of(a), *options.algorithm); });
  if (known == std::end(kAlgorithms))
    return fail(ErrorCode::unsupported,
                "the algorithm {} is not modelled: Ring, Tree, NVLS, NVLSTree, PAT, CollNetDirect and CollNetChain are",
                *options.algorithm);
  if (is_nvls(*known) && !shape.has_multicast)
    return fail(ErrorCode::unsupported,
                "{} needs switches that reduce (NVSwitch 3 or later) and Hopper or later: this machine has none; type --algorithm Ring",
                name_of(*known));
  if (*known == NcclAlgorithm::nvls && shape.nodes > 1 && !shape.has_network_sums)
    return fail(
        ErrorCode::unsupported,
        "NVLS alone stays in a node unless InfiniBand switches sum between them: write sharp: true at the cluster's fabric, or type "
        "--algorithm NVLSTree");
  if (is_collnet(*known) && !shape.has_network_sums)
    return fail(
        ErrorCode::unsupported,
        "{} needs InfiniBand switches that sum between several nodes: write sharp: true at the cluster's fabric, or type --algorithm Tree",
        name_of(*known));
  return plan;
}

Result<std::array<double, 3>> by_protocol(const topology::LibraryConstants& constants, const std::string& name) {
  PEAL_ASSIGN(const int i, constants.find(name));
  const std::vector<double>& values = constants.all()[at(i)].values;
  if (values.size() != 3) return fail(ErrorCode::corrupt, "{} needs three values", name);
  return std::array<double, 3>{values[0], values[1], values[2]};
}

bool pays_hops_of_trees(const JobShape& shape) noexcept { return shape.per_node == 1; }

Status NcclPlan::read(const topology::LibraryConstants& constants) {
  const auto three = [&](const std::string& name, Three& into) -> Status {
    PEAL_ASSIGN(into, by_protocol(constants, name));
    return {};
  };
  const auto one = [&](const std::string& name, double& into) -> Status {
    PEAL_ASSIGN(const int i, constants.find(name));
    into = constants.value(i);
    return {};
  };
  const std::string wire(shape_.wire == NodeWire::pcie ? "pcie" : "nvlink");
  const std::string gpu(nccl_table_of(shape_.gpu));
  PEAL_TRY(three("plan.base.Ring", base_[0]));
  PEAL_TRY(three("plan.base.Tree", base_[1]));
  PEAL_TRY(three("plan.hop." + wire + ".Ring", hop_[0]));
  PEAL_TRY(three("plan.hop." + wire + ".Tree", hop_[1]));
  PEAL_TRY(three("plan.hop.net.Ring", net_hop_[0]));
  PEAL_TRY(three("plan.hop.net.Tree", net_hop_[1]));
  PEAL_TRY(three("plan.share.Ring", ring_share_));
  PEAL_TRY(three(shape_.nodes == 1 ? "plan.share.Tree.node" : "plan.share.Tree", tree_share_));
  PEAL_TRY(three("plan.post", post_));
  PEAL_TRY(three("plan.PAT", pat_));
  PEAL_TRY(one("plan.share.PAT", pat_share_));
  PEAL_TRY(three("plan.LL." + gpu, line_cap_));
  PEAL_TRY(three("plan.LL128.Ring." + gpu, ring_line128_cap_));
  PEAL_TRY(three("plan.LL128.Tree." + gpu, tree_line128_cap_));
  PEAL_TRY(three("plan.Simple.Tree." + gpu, tree_cap_));
  for (std::size_t p = 0; p < 3; ++p) {
    PEAL_ASSIGN(const int i, constants.find(fmt::format("plan.correction.{}", kNcclProtocols[p])));
    correction_[p] = constants.all()[at(i)].values;
  }
  PEAL_ASSIGN(const int plateau, constants.find("plan.plateau"));
  const std::vector<double>& factors = constants.all()[at(plateau)].values;
  plateau_ = shape_.gpu == "volta" ? factors.front() : factors.back();
  if (shape_.nodes > 1 && can_switch_off(options_.version)) {
    const std::string offer = "plan.offer." + shape_.network;
    if (constants.has(offer)) PEAL_TRY(three(offer, offered_));
  }
  if (!shape_.has_multicast) return {};
  Three hop{};
  PEAL_TRY(three("plan.hop.nvlink.NVLS", hop));
  nvls_hop_ = hop[2];
  PEAL_TRY(three("plan.hop.net.NVLSTree", hop));
  nvls_net_hop_ = hop[2];
  PEAL_TRY(three("plan.Simple.NVLSTree." + gpu, nvls_tree_cap_));
  return one("plan.NVLS." + gpu, nvls_share_);
}

bool NcclPlan::is_offered(NcclAlgorithm a, int p, Collective collective) const {
  if (options_.algorithm && !is_same_word(name_of(a), *options_.algorithm)) return false;
  if (options_.protocol && !is_same_word(kNcclProtocols[p], *options_.protocol)) return false;
  if (offered_[at(p)] == 0 || (p == 1 && !shape_.has_line128)) return false;
  if (a == NcclAlgorithm::tree) return collective == Collective::all_reduce;
  // NCCL takes it only where NCCL_COLLNET_ENABLE says so: by name.
  if (is_collnet(a)) return p == 2 && options_.algorithm && collective == Collective::all_reduce && shape_.has_network_sums;
  if (a == NcclAlgorithm::pat)
    return p == 2 && is_gather(collective) && shape_.nodes > 1 && shape_.per_node == 1 && has_pat(options_.version);
  if (!is_nvls(a)) return true;
  if (!shape_.has_multicast || options_.is_nvls_off || p != 2 || is_rooted(collective)) return false;
  // Between nodes it needs switches that sum, and as CollNet it is taken by name.
  if (a == NcclAlgorithm::nvls && shape_.nodes > 1)
    return options_.algorithm && collective == Collective::all_reduce && shape_.has_network_sums;
  if (a == NcclAlgorithm::nvls) return true;
  return shape_.nodes > 1 && collective == Collective::all_reduce;
}

/// Of the algorithm's own bytes, GB/s.
double NcclPlan::rate(NcclAlgorithm a, int p, Collective collective) const {
  const std::size_t row = at(std::min(shape_.nodes, 3) - 1);
  const double channels = shape_.channels;
  const double inside = shape_.per_node > 1 ? shape_.ring_GBps : kUnlimited;
  const double net = shape_.nodes > 1 ? shape_.net_GBps : kUnlimited;
  double bus = std::min(inside, net);
  if (a == NcclAlgorithm::tree) {
    if (shape_.nodes == 2) bus = std::min(inside, 2 * net);
    bus = std::min(bus * tree_share_[2], channels * tree_cap_[row]);
    if (p == 0) bus = std::min(bus * tree_share_[0] / tree_share_[2], line_cap_[row]);
    if (p == 1) bus = std::min(bus * tree_share_[1] / tree_share_[2], channels * tree_line128_cap_[row]);
    return bus / 2;
  }
  if (is_nvls(a)) {
    const double share = nvls_share_ * (channels - 1) / channels;
    const double ppn = shape_.per_node;
    bus = shape_.port_GBps * share * (collective == Collective::all_reduce ? 2 : (ppn - 1) / ppn);
    if (a == NcclAlgorithm::nvls_tree) bus = std::min({bus, net * (shape_.nodes == 2 ? 2 : 1), channels * nvls_tree_cap_[row]});
    if (is_gather(collective)) return bus;
  } else if (a == NcclAlgorithm::pat) {
    bus *= pat_share_;
  } else {
    if (p == 0) bus = std::min(bus * ring_share_[0], line_cap_[row]);
    if (p == 1) bus = std::min(bus * ring_share_[1], channels * ring_line128_cap_[row]);
  }
  const double steps = is_rooted(collective)                  ? shape_.ranks
                       : collective == Collective::all_reduce ? 2 * (shape_.ranks - 1)
                                                              : shape_.ranks - 1;
  return bus * shape_.ranks / steps;
}

/// Microseconds.
double NcclPlan::latency(NcclAlgorithm a, int p, Collective collective) const {
  const std::size_t q = at(p);
  const double trees = log2_of(shape_.nodes);
  if (a == NcclAlgorithm::nvls) return nvls_hop_;
  if (a == NcclAlgorithm::nvls_tree) return nvls_hop_ + 2 * trees * nvls_net_hop_;
  if (a == NcclAlgorithm::tree) return base_[1][q] + 2 * ((shape_.per_node - 1) * hop_[1][q] + trees * net_hop_[1][q]);
  if (a == NcclAlgorithm::pat) return pat_[0] + trees * net_hop_[1][2] * pat_[1] + shape_.ranks * pat_[2];
  if (is_rooted(collective)) return base_[0][q] + (shape_.nodes > 1 ? net_hop_ : hop_)[0][q];
  const RingSteps steps = ring_steps(collective, shape_);
  const double hop = shape_.nodes > 1 ? std::max(hop_[0][q], post_[q]) : hop_[0][q];
  return base_[0][q] + (steps.all - steps.between) * hop + steps.between * net_hop_[pays_hops_of_trees(shape_) ? 1 : 0][q];
}

double NcclPlan::time(NcclAlgorithm a, int p, const LibraryCall& call) const {
  double rate = this->rate(a, p, call.collective);
  if (rate <= 0) return kUnlimited;
  double latency = this->latency(a, p, call.collective);
  const std::uint64_t unit = call.bytes.value >> 6;
  const int size = unit == 0 ? -1 : static_cast<int>(std::bit_width(unit)) - 1;
  const bool is_corrected = a == NcclAlgorithm::tree || (a == NcclAlgorithm::nvls_tree && shape_.gpu == "blackwell");
  if (is_corrected && size >= 0 && at(size) < correction_[p].size()) rate *= correction_[p][at(size)];
  const bool is_large = call.bytes.value / static_cast<std::uint64_t>(shape_.channels * shape_.ranks) >= 64;
  if (a == NcclAlgorithm::ring && p == 2 && shape_.nodes > 1 && call.collective == Collective::all_reduce && is_large) latency *= plateau_;
  return latency + static_cast<double>(call.bytes.value) / rate * 1e-3;
}

Result<NcclChoice> NcclPlan::choose(const LibraryCall& call) const {
  if (!is_planned(call.collective)) return NcclChoice{NcclAlgorithm::direct, 2};
  NcclChoice best;
  double least = kUnlimited;
  for (const NcclAlgorithm a : kAlgorithms)
    for (int p = 0; p < 3; ++p) {
      if (!is_offered(a, p, call.collective)) continue;
      const double t = time(a, p, call);
      if (t < least) best = {a, p}, least = t;
    }
  if (least < kUnlimited) return best;
  return fail(ErrorCode::unsupported, "{}{}{} cannot do this collective here: ask for Ring, or force nothing",
              options_.algorithm.value_or("no algorithm"), options_.protocol ? " with " : "", options_.protocol.value_or(""));
}

}  // namespace peal::sim
