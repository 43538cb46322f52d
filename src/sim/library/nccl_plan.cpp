#include "nccl_plan.hpp"

#include <algorithm>
#include <base/index.hpp>
#include <base/text.hpp>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "kinds.hpp"

namespace peal::sim {

namespace {

constexpr NcclAlgorithm kAlgorithms[] = {NcclAlgorithm::ring,         NcclAlgorithm::tree, NcclAlgorithm::nvls,
                                         NcclAlgorithm::nvls_tree,    NcclAlgorithm::pat,  NcclAlgorithm::collnet_direct,
                                         NcclAlgorithm::collnet_chain};
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::size_t index(NcclAlgorithm a) { return static_cast<std::size_t>(a); }
bool is_nvls(NcclAlgorithm a) { return a == NcclAlgorithm::nvls || a == NcclAlgorithm::nvls_tree; }
bool is_collnet(NcclAlgorithm a) { return a == NcclAlgorithm::collnet_direct || a == NcclAlgorithm::collnet_chain; }
bool is_planned(Collective c) { return c == Collective::all_reduce || is_gather(c) || is_rooted(c); }

int log2_of(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }

bool is_same_word(std::string_view a, std::string_view b) { return lower_case(a) == lower_case(b); }

/// NCCL_PROTO and NCCL_ALGO, by which plugins and operators switch ways off, came with NCCL 2.5.
bool can_switch_off(std::string_view version) { return is_at_least(version, 2, 5); }
bool has_pat(std::string_view version) { return is_at_least(version, 2, 23); }
/// src/transport/nvls.cc
bool takes_nvls_for_two(std::string_view version) { return is_at_least(version, 2, 28); }

}  // namespace

std::string_view name_of(NcclAlgorithm algorithm) noexcept {
  constexpr std::string_view kNames[] = {"Ring", "Tree", "NVLS", "NVLSTree", "PAT", "CollNetDirect", "CollNetChain", "Direct"};
  return kNames[index(algorithm)];
}

std::string_view nccl_table_of(std::string_view gpu) noexcept {
  if (gpu == "cdna") return "hopper";
  return gpu == "blackwell-12" ? "blackwell" : gpu;
}

RingSteps ring_steps(Collective collective, const JobShape& shape) {
  if (collective == Collective::all_reduce) return {2 * (shape.ranks - 1), 2 * (shape.nodes - 1)};
  return {shape.ranks - 1, shape.nodes - 1};
}

bool is_at_least(std::string_view version, int wanted_major, int wanted_minor) noexcept {
  int major = wanted_major;
  int minor = wanted_minor;
  const char* const last = version.data() + version.size();
  const auto [end, error] = std::from_chars(version.data(), last, major);
  if (error == std::errc() && end != last) std::from_chars(end + 1, last, minor);
  return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
}

bool has_line128(const JobShape& shape, std::string_view version) noexcept {
  if (shape.wire != NodeWire::nvlink) return false;
  if (shape.nodes == 1 || shape.nic_path == NicPath::switches) return true;
  if (!is_hopper_or_blackwell(shape.gpu)) return false;
  return shape.nic_path == NicPath::other_gpu || (shape.nic_path == NicPath::wires && is_at_least(version, 2, 27));
}

Result<std::string> version_of_its_time(const JobShape& shape, const topology::LibraryConstants& constants) {
  const std::string name = "plan.version." + shape.gpu;
  if (!constants.has(name)) return std::string();
  PEAL_ASSIGN(const int i, constants.find(name));
  return fmt::format("{}", fmt::join(constants.all()[at(i)].values, "."));
}

std::string line_cap_of(const JobShape& shape) {
  return fmt::format("plan.LL.{}", shape.nodes > 1 && shape.has_amd_host ? "amd-host" : nccl_table_of(shape.gpu));
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
  PEAL_TRY(three(shape_.has_amd_host ? "plan.post.amd-host" : "plan.post", post_));
  PEAL_TRY(three("plan.PAT", pat_));
  PEAL_TRY(one("plan.share.PAT", pat_share_));
  PEAL_TRY(three(line_cap_of(shape_), line_cap_));
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
  // Between nodes RCCL of 2025 and later has LL128, which its published figures of 2024 leave out: NCCL's are nearer to its times.
  is_rccl_ = shape_.gpu == "cdna" && shape_.nodes == 1;
  if (is_rccl_) return read_rccl(constants);
  if (!shape_.has_multicast) return {};
  Three hop{};
  PEAL_TRY(three("plan.hop.nvlink.NVLS", hop));
  nvls_hop_ = hop[2];
  PEAL_TRY(three("plan.hop.net.NVLSTree", hop));
  nvls_net_hop_ = hop[2];
  PEAL_TRY(one("plan.NVLS.heads", most_heads_));
  PEAL_TRY(three("plan.Simple.NVLSTree." + gpu, nvls_tree_cap_));
  return one("plan.NVLS." + gpu, nvls_share_);
}

/// In place of what NCCL plans with: RCCL has figures of its own.
Status NcclPlan::read_rccl(const topology::LibraryConstants& constants) {
  for (const auto& [name, into] : {std::pair<std::string, Three*>{"plan.rccl.base", &base_[0]},
                                   {"plan.rccl.base", &base_[1]},
                                   {"plan.rccl.hop.Ring", &hop_[0]},
                                   {"plan.rccl.hop.Tree", &hop_[1]},
                                   {"plan.rccl.share.Ring", &ring_share_},
                                   {"plan.rccl.share.Tree", &tree_share_}}) {
    PEAL_ASSIGN(*into, by_protocol(constants, name));
  }
  plateau_ = 1;
  for (const std::size_t p : {0U, 2U}) {
    PEAL_ASSIGN(const int tree, constants.find(fmt::format("plan.rccl.correction.{}", kNcclProtocols[p])));
    correction_[p] = constants.all()[at(tree)].values;
  }
  return {};
}

bool NcclPlan::is_offered(NcclAlgorithm a, int p, Collective collective) const {
  if (options_.algorithm && !is_same_word(name_of(a), *options_.algorithm)) return false;
  if (options_.protocol && !is_same_word(kNcclProtocols[p], *options_.protocol)) return false;
  if (offered_[at(p)] == 0 || (p == 1 && !has_line128(shape_, options_.version))) return false;
  if (a == NcclAlgorithm::tree) return collective == Collective::all_reduce && !(is_rccl_ && p == 2);
  // NCCL takes it only where NCCL_COLLNET_ENABLE says so: by name.
  if (is_collnet(a)) return p == 2 && options_.algorithm && collective == Collective::all_reduce && shape_.has_network_sums;
  if (a == NcclAlgorithm::pat)
    return p == 2 && is_gather(collective) && shape_.nodes > 1 && shape_.per_node == 1 && has_pat(options_.version);
  if (!is_nvls(a)) return true;
  if (!shape_.has_multicast || options_.is_nvls_off || p != 2 || is_rooted(collective)) return false;
  if (shape_.per_node == 2 && !takes_nvls_for_two(options_.version)) return false;
  if (shape_.per_node > most_heads_ && (is_gather(collective) || a == NcclAlgorithm::nvls_tree)) return false;
  // Between nodes it needs switches that sum, and as CollNet it is taken by name.
  if (a == NcclAlgorithm::nvls && shape_.nodes > 1)
    return options_.algorithm && collective == Collective::all_reduce && shape_.has_network_sums;
  if (a == NcclAlgorithm::nvls) return true;
  return shape_.nodes > 1 && collective == Collective::all_reduce;
}

/// Of the algorithm's own bytes, GB/s.
double NcclPlan::rate(NcclAlgorithm a, int p, Collective collective) const {
  const std::size_t row = at(std::min(shape_.nodes, 3) - 1);
  const double channels = shape_.graph_channels;
  const double inside = shape_.per_node > 1 ? shape_.ring_GBps : kUnlimited;
  const double net = shape_.nodes > 1 ? shape_.net_GBps : kUnlimited;
  double bus = std::min(inside, net);
  if (is_rccl_) {
    if (a == NcclAlgorithm::tree) return bus * tree_share_[at(p)] / 2;
    bus *= ring_share_[at(p)];
  } else if (a == NcclAlgorithm::tree) {
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
  } else if (!is_rccl_) {
    if (p == 0) bus = std::min(bus * ring_share_[0], line_cap_[row]);
    if (p == 1) bus = std::min(bus * ring_share_[1], channels * ring_line128_cap_[row]);
  }
  const double steps = is_rooted(collective)                  ? shape_.ranks
                       : collective == Collective::all_reduce ? 2 * (shape_.ranks - 1)
                                                              : shape_.ranks - 1;
  return bus * shape_.ranks / steps;
}

/// Factor on the rate, by size.
double NcclPlan::correction(NcclAlgorithm a, int p, Bytes bytes) const {
  const bool is_tree = a == NcclAlgorithm::tree || (a == NcclAlgorithm::nvls_tree && shape_.gpu == "blackwell");
  const std::vector<double>& by_size = correction_[at(p)];
  const std::uint64_t unit = bytes.value >> 6;
  if (!is_tree || unit == 0) return 1;
  const std::size_t size = std::bit_width(unit) - 1;
  if (size < by_size.size()) return by_size[size];
  return is_rccl_ ? by_size.back() : 1;
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
  rate *= correction(a, p, call.bytes);
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
