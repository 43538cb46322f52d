#include <algorithm>
#include <base/index.hpp>
#include <bit>
#include <cmath>

#include "kinds.hpp"
#include "nccl_plan.hpp"
#include "way.hpp"

namespace peal::sim {

namespace {

/// What NCCL plans a channel between nodes with (NCCL_P2P_PER_CHANNEL_NET_BW).
constexpr double kNetChannelGBps = 14;
/// From so many bytes on NCCL takes one channel more: threads of a channel, and bytes for each (src/enqueue.cc).
constexpr double kChannelBytes[] = {512 * 8, 640 * 8, 512 * 64};
/// Most data of a channel that LL posts at once: half of a step of its buffers (NCCL_LL_MAX_NTHREADS, NCCL_LL_LINES_PER_THREAD).
constexpr double kLinePieceKiB = 32;
/// Most data of a message of LL, half of what is posted, that libfabric sends eagerly.
constexpr double kEagerKiB = 2;
/// Bytes of a channel that trees pass on at once with Simple: a step of its buffers.
constexpr double kTreePiece = 524288;
/// Bytes of a channel and GPU that NVLSTree passes on at once from four nodes on (src/enqueue.cc).
constexpr double kNvlsTreePiece = 65536;
/// Chunks of a channel and GPU that NVLS has under way at once.
constexpr double kRounds = 2;

double value_or(const topology::LibraryConstants& constants, int index, double otherwise) {
  return index < 0 ? otherwise : constants.value(index);
}

/// Of one limit with these constants; bytes a nanosecond.
double rate_of(const LibraryWay& way, const LibraryWay::Limit& limit, const topology::LibraryConstants& constants) {
  return limit.GBps * value_or(constants, limit.share, 1) * value_or(constants, way.two, 1);
}

/// There is one.
const LibraryWay::Limit& narrowest(const LibraryWay& way, const topology::LibraryConstants& constants) {
  return *std::min_element(way.limits.begin(), way.limits.end(), [&](const LibraryWay::Limit& a, const LibraryWay::Limit& b) {
    return rate_of(way, a, constants) < rate_of(way, b, constants);
  });
}

/// Of the way's bytes: by its narrowest limit, or by all of them one after the other.
double rate_of(const LibraryWay& way, const topology::LibraryConstants& constants) {
  if (!way.limits_add) return rate_of(way, narrowest(way, constants), constants);
  double ns_a_byte = 0;
  for (const LibraryWay::Limit& limit : way.limits) ns_a_byte += 1 / rate_of(way, limit, constants);
  return 1 / ns_a_byte;
}

}  // namespace

Nanoseconds time_of(const LibraryWay& way, const topology::LibraryConstants& constants) {
  const double move = way.limits.empty() ? 0 : way.bytes / rate_of(way, constants) * 1e-3;
  const double inside = way.hops * value_or(constants, way.hop, 0) * (1 - way.halvings * value_or(constants, way.hop_short, 0));
  const double between =
      (way.net_hops - way.net_later) * value_or(constants, way.net_hop, 0) + way.net_later * way.net_later_us +
      way.net_hops * (way.net_crossings * value_or(constants, way.net_more, 0) + way.held * value_or(constants, way.stored, 0));
  const double launch = way.fixed_us + value_or(constants, way.launch, 0) + way.posts * value_or(constants, way.post, 0) +
                        way.channels * value_or(constants, way.work, 0);
  const double paid_inside = way.flows_inside ? 0 : value_or(constants, way.ramp, 1) * inside;
  const double paid = paid_inside + value_or(constants, way.pieces, 0) + value_or(constants, way.net_ramp, 0) * between;
  const double cut = way.round_bytes > 0 ? std::min(1.0, way.round_bytes / way.bytes) : 1;
  const double pieces = 2 * std::sqrt(paid * move * cut);
  // The process hands over the next call while the GPUs are at this one.
  const double host = way.more * value_or(constants, way.launch_more, 0) + (way.is_handed_over ? inside : 0);
  return Nanoseconds{1e3 * std::max(host, launch + inside + between + move + pieces)};
}

std::vector<int> constants_of(const LibraryWay& way, const topology::LibraryConstants& constants) {
  std::vector<int> used;
  const auto add = [&](int index, bool counts) {
    if (index >= 0 && counts) used.push_back(index);
  };
  add(way.launch, true);
  add(way.launch_more, way.more > 0);
  add(way.hop, way.hops > 0);
  add(way.hop_short, way.hops > 0 && way.halvings > 0);
  add(way.post, way.posts > 0);
  add(way.work, way.channels > 0);
  add(way.net_hop, way.net_hops > 0);
  add(way.net_more, way.net_hops > 0);
  add(way.net_ramp, way.net_hops > 0);
  add(way.stored, way.net_hops > 0 && way.held > 0);
  add(way.pieces, true);
  add(way.ramp, true);
  add(way.two, true);
  if (way.limits_add)
    for (const LibraryWay::Limit& limit : way.limits) add(limit.share, true);
  else if (!way.limits.empty())
    add(narrowest(way, constants).share, true);
  return used;
}

Result<WayMaker> WayMaker::make(const JobShape& shape, const LibraryOptions& options, const topology::LibraryConstants& constants) {
  WayMaker maker;
  maker.shape_ = shape;
  maker.is_one_process_ = options.one_process;
  maker.calls_ = std::max(1, options.calls);
  maker.sends_in_one_call_ = options.whose == Library::rccl || is_at_least(options.version, 2, 28);
  const auto find = [&](const std::string& name, int& into) -> Status {
    PEAL_ASSIGN(into, constants.find(name));
    return {};
  };
  // Of a GPU's generation or a network where it has one of its own, else that of all.
  const auto own_of = [&](const std::string& name, std::string_view whose) {
    const std::string own = fmt::format("{}.{}", name, whose);
    return constants.has(own) ? own : name;
  };
  const std::string wire(name_of(shape.wire));
  PEAL_TRY(find("launch." + shape.gpu, maker.launch_));
  PEAL_TRY(find("launch.process", maker.launch_more_));
  for (std::size_t p = 0; p < 3; ++p) {
    const std::string mesh = fmt::format("hop.{}.{}", kNcclProtocols[p], shape.link);
    const std::string hop = constants.has(mesh) ? mesh : fmt::format("hop.{}.{}", kNcclProtocols[p], wire);
    if (p != 1 || has_line128(shape, options.version)) PEAL_TRY(find(own_of(hop, shape.gpu), maker.hop_[p]));
    PEAL_TRY(find(fmt::format("hop.{}.net", kNcclProtocols[p]), maker.net_hop_[p]));
  }
  PEAL_TRY(find(own_of("hop.LL.short", shape.gpu), maker.hop_short_));
  PEAL_TRY(find("hop.direct", maker.hop_direct_));
  // Until NCCL 2.21 a call's work lies in host memory, where every channel fetches its own; since then it comes with the kernel. Between
  // nodes, where there are fewer channels, it is not seen.
  const std::string work = "work." + shape.gpu;
  const bool fetches_work = shape.nodes == 1 && options.whose == Library::nccl && !is_at_least(options.version, 2, 22);
  if (fetches_work && constants.has(work)) PEAL_TRY(find(work, maker.work_));
  const std::string pair = "channel.direct." + shape.gpu;
  if (options.whose == Library::nccl && constants.has(pair)) PEAL_TRY(find(pair, maker.pair_channel_));
  if (options.whose == Library::nccl && is_at_least(options.version, 2, 29)) PEAL_TRY(find("channel.direct.net", maker.net_pair_channel_));
  PEAL_TRY(find("ramp.LL128", maker.line_ramp_));
  if (shape.nodes > 1) {
    PEAL_TRY(find("hop.LL128.net.ring", maker.net_line_ring_));
    PEAL_TRY(find(own_of("hop.direct.net", shape.network), maker.net_direct_));
    PEAL_TRY(find("hop.pair.net", maker.net_pair_));
  }
  if (shape.per_node > 1) PEAL_TRY(find(own_of("share.ring." + shape.link, shape.gpu), maker.ring_share_));
  if (shape.ranks == 2 && shape.wire != NodeWire::pcie) PEAL_TRY(find(own_of("share.ring.two", shape.gpu), maker.ring_of_two_));
  if (shape.has_multicast) {
    PEAL_TRY(find("hop.NVLS", maker.hop_nvls_));
    PEAL_ASSIGN(const int chunk, constants.find("plan.NVLS.chunk"));
    maker.nvls_chunk_ = constants.value(chunk);
    PEAL_TRY(find("share.NVLS." + shape.gpu, maker.nvls_share_));
  }
  PEAL_ASSIGN(const int cap, constants.find(line_cap_of(shape)));
  maker.line_cap_ = constants.all()[at(cap)].values[at(std::min(shape.nodes, 3) - 1)];
  PEAL_ASSIGN(const int step, constants.find("plan.step"));
  maker.step_bytes_ = constants.value(step);
  PEAL_ASSIGN(const int ring, constants.find("plan.share.Ring"));
  maker.ring_protocol_ = constants.all()[at(ring)].values;
  PEAL_ASSIGN(const int pat, constants.find("plan.PAT"));
  maker.pat_us_a_rank_ = constants.all()[at(pat)].values.back();
  PEAL_ASSIGN(const int pat_share, constants.find("plan.share.PAT"));
  maker.pat_share_ = constants.value(pat_share);
  PEAL_ASSIGN(const int tree, constants.find(shape.nodes == 1 ? "plan.share.Tree.node" : "plan.share.Tree"));
  maker.tree_protocol_ = constants.all()[at(tree)].values;
  if (shape.nodes == 1) {
    PEAL_TRY(find("ramp.direct", maker.direct_ramp_));
    return maker;
  }
  PEAL_ASSIGN(const auto hop, by_protocol(constants, pays_hops_of_trees(shape) ? "plan.hop.net.Tree" : "plan.hop.net.Ring"));
  maker.later_us_ = hop[1];
  PEAL_TRY(find(own_of("net.ramp", shape.network), maker.net_ramp_[2]));
  PEAL_TRY(find(own_of(own_of("net.stored.LL", shape.gpu), shape.network), maker.stored_[0]));
  PEAL_TRY(find(own_of("net.stored.LL128", shape.gpu), maker.stored_[1]));
  PEAL_TRY(find(own_of("net.stored.Simple", shape.network), maker.stored_[2]));
  const std::string net_share = "net.share." + (shape.is_staged ? "host" : shape.network);
  PEAL_TRY(find(shape.crosses_bridge ? own_of(net_share, "bridge") : net_share, maker.net_share_));
  if (shape.stage_GBps > 0) PEAL_TRY(find("share.ring.pcie-host", maker.stage_));
  const std::string copy = "net.copy." + shape.network;
  if (shape.is_staged && constants.has(copy)) PEAL_TRY(find(copy, maker.net_copy_));
  const std::string line = "net.line." + shape.network;
  if (constants.has(line)) PEAL_TRY(find(line, maker.net_line_));
  // InfiniBand is what the others are later than.
  if (shape.network == "infiniband") return maker;
  const std::string latency = own_of("net.latency." + shape.network, shape.is_staged ? "staged" : "direct");
  PEAL_TRY(find(latency, maker.net_more_));
  PEAL_TRY(find(own_of(latency, "bulk"), maker.net_bulk_));
  PEAL_TRY(find(own_of(latency, "lines"), maker.net_rendezvous_));
  return maker;
}

/// `inside` and `between`: the algorithm's bytes that a node's wires and its NICs carry a second, were all of their rate used; GB/s.
void WayMaker::limit(LibraryWay& way, double inside, double between) const {
  if (shape_.per_node > 1) way.limits.push_back({inside, ring_share_});
  if (shape_.nodes > 1) limit_between(way, between);
}

/// The NICs, and what brings their bytes to the GPUs where NICs do not: PCIe to host memory and, over some networks, a process that copies.
void WayMaker::limit_between(LibraryWay& way, double between) const {
  const double bytes = between / shape_.net_GBps;  // the algorithm's bytes for each byte on the NICs
  way.limits.push_back({between, net_share_});
  if (stage_ >= 0) way.limits.push_back({bytes * shape_.stage_GBps, stage_});
  if (net_copy_ >= 0) way.limits.push_back({bytes * shape_.per_node, net_copy_});
}

void WayMaker::ring(LibraryWay& way, int protocol, Collective collective) const {
  const RingSteps steps = ring_steps(collective, shape_);
  const bool is_rooted = peal::sim::is_rooted(collective);
  const double rounds = is_rooted ? 1 : static_cast<double>(steps.all) / shape_.ranks;  // times that each byte passes a wire
  const double share = ring_protocol_[at(protocol)];
  way.two = shape_.ranks == 2 && shape_.nodes == 1 ? ring_of_two_ : -1;
  // Through host bridges both directions share a rate that a lone sender to a lone receiver has for itself.
  const double ways = is_rooted && shape_.ranks == 2 && shape_.wire == NodeWire::pcie ? 2 : 1;
  limit(way, ways * shape_.ring_GBps * share / rounds, shape_.net_GBps * share / rounds);
  take_channels(way, protocol, protocol == 0 ? shape_.ranks : 1);
  if (protocol == 0) {
    const double block = is_rooted ? way.bytes : way.bytes / shape_.ranks;
    if (net_line_ >= 0) way.limits.push_back({shape_.per_node / rounds, net_line_});
    go_in_lines(way, rounds, collective == Collective::all_reduce ? way.bytes : block, block);
  }
  if (protocol == 2) way.round_bytes = step_bytes_ * shape_.ranks * shape_.channels;
  if (protocol == 1) {
    way.ramp = line_ramp_;
    way.net_hop = net_line_ring_;
  }
  // Calls follow each other down the chain to or from a root: of one in a row the hops behind the first cost their part of the row.
  const double part = is_rooted ? (1 + (steps.all - 1) / calls_) / steps.all : 1;
  way.hops = part * (steps.all - steps.between);
  way.net_hops = part * steps.between;
  if (protocol == 1 && !is_rooted && shape_.nodes > 1) later_hops(way, collective == Collective::all_reduce ? 2 : 1);
}

/// As many as the bytes are worth: `ranks` that pass each byte on with LL, which is sent in their parts.
void WayMaker::take_channels(LibraryWay& way, int protocol, int ranks) const {
  way.work = work_;
  way.channels = std::clamp(std::floor(way.bytes / (kChannelBytes[protocol] * ranks)), 1.0, static_cast<double>(shape_.channels));
}

/// Lines of LL have rates of their own, inside nodes and between them, for bytes that are sent `times`. And the fewer of them a message
/// has, the sooner the last is seen: from a sector of 32 bytes, half of them flags, to what two warps read. Between nodes a process looks
/// for the last line of a channel's part of a `block` before it posts it: every hop has all of that before it goes on.
void WayMaker::go_in_lines(LibraryWay& way, double times, double message, double block) const {
  constexpr double kFewest = 16;
  constexpr double kMost = 512;
  way.limits.push_back({line_cap_ / times, -1});
  way.stored = stored_[0];
  way.held = std::min(kLinePieceKiB, block / way.channels / 1024);
  if (way.held > kEagerKiB) way.net_more = net_rendezvous_;
  way.hop_short = hop_short_;
  way.halvings = std::log2(kMost / std::clamp(message, kFewest, kMost));
}

/// Two trees, each with half of the bytes: a node sends and receives all bytes once with two nodes, twice with more. The g - 1 wires of a
/// chain of GPUs carry them up and down, which is what a ring's wires carry. (On PCIe all of a GPU's wires are one port.)
void WayMaker::tree(LibraryWay& way, int protocol) const {
  const double share = tree_protocol_[at(protocol)];
  const double g = shape_.per_node;
  const double chain = shape_.wire == NodeWire::pcie || g == 1 ? 1 : g / (g - 1);
  // Two nodes that just exchange their sums keep their NICs as busy as a ring does.
  const bool is_exchange = protocol == 2 && shape_.nodes == 2;
  limit(way, shape_.ring_GBps * share * chain / 2, shape_.net_GBps * (is_exchange ? 1 : share) / (shape_.nodes == 2 ? 1 : 2));
  take_channels(way, protocol, 1);
  if (protocol == 0) go_in_lines(way, 2, way.bytes, way.bytes);
  way.hops = 2 * (shape_.per_node - 1);
  way.net_hops = 2 * (std::bit_width(static_cast<unsigned>(shape_.nodes)) - 1);
  if (protocol == 1) {
    way.stored = stored_[1];
    way.held = std::min(tree_chunk(way), way.bytes / way.channels) / 1024;
  }
  if (protocol == 2) hold_pieces(way, kTreePiece * way.channels);
}

/// Bytes of a channel that a tree with LL128 passes on at once (calcCollChunking of src/enqueue.cc): of the buffers' step, until there are
/// several pieces for each step of the tree.
double WayMaker::tree_chunk(const LibraryWay& way) const {
  constexpr double kStep = 576000;
  const double steps = std::bit_width(static_cast<unsigned>(shape_.nodes)) + 0.1 * shape_.per_node;
  double chunk = kStep;
  const auto too_few = [&](double wanted) { return std::floor(way.bytes / way.channels / chunk) < wanted * steps / shape_.per_node; };
  while (too_few(64) && chunk > 131072) chunk /= 2;
  while (too_few(16) && chunk > 32768) chunk /= 2;
  return chunk;
}

/// A hop between nodes has all of a piece with Simple, at most so many bytes of all channels, before it goes on with it.
void WayMaker::hold_pieces(LibraryWay& way, double most) const {
  if (shape_.nodes == 1) return;
  way.stored = stored_[2];
  way.held = std::min(way.bytes, most) / shape_.net_GBps * 1e-3;
}

/// Lines of LL128 follow each other round the nodes as they come: what the first NICs of a pass over the nodes wait for, until there is
/// enough to post, the later ones do not wait for again. Two nodes have no later hops, so that the plan's own figure stands for them.
void WayMaker::later_hops(LibraryWay& way, double passes) const {
  way.net_later = way.net_hops - passes;
  way.net_later_us = later_us_;
}

/// The switch reads every GPU's bytes once and writes every result once: a GPU's wires carry, one way, all bytes (all_reduce; that they
/// carry the sums of its own part as well is not seen: 4, 8 and 64 GPUs of one machine take the same time), or all but its own (all_gather,
/// reduce_scatter). Between nodes as the tree, or through switches that sum: up and down once.
void WayMaker::nvls(LibraryWay& way, Collective collective, bool is_tree) const {
  const double g = shape_.per_node;
  way.limits.push_back({shape_.port_GBps / (collective == Collective::all_reduce ? 1 : (g - 1) / g), nvls_share_});
  if (shape_.nodes > 1) limit_between(way, shape_.net_GBps / (is_tree && shape_.nodes > 2 ? 2 : 1));
  if (shape_.nodes == 1) way.round_bytes = kRounds * nvls_chunk_ * shape_.channels * g;
  way.hop = hop_nvls_;
  way.hops = 1;
  const int levels = std::bit_width(static_cast<unsigned>(shape_.nodes)) - 1;
  way.net_hops = 2 * (is_tree ? levels : std::min(levels, 1));
  if (is_tree) hold_pieces(way, (shape_.nodes < 4 ? nvls_chunk_ : kNvlsTreePiece) * shape_.channels * g);
}

/// A tree for each rank's part, all of them shifted into one another (one GPU a node): log2 of the ranks steps on the wire, and a part that
/// grows with the ranks, for which NCCL's plan has the only figure.
void WayMaker::pat(LibraryWay& way) const {
  const double n = shape_.ranks;
  limit_between(way, shape_.net_GBps * pat_share_ * n / (n - 1));
  way.net_hops = std::bit_width(static_cast<unsigned>(shape_.ranks - 1));
  way.fixed_us = n * pat_us_a_rank_;
}

/// The network's switches sum: a node sends all bytes up once and gets them once, however many nodes there are. Inside, every GPU hands its
/// bytes to the GPUs beside the NICs and takes the sums from them (direct), or they go along a chain and back.
void WayMaker::collnet(LibraryWay& way, bool is_direct) const {
  const double g = shape_.per_node;
  limit(way, is_direct ? shape_.port_GBps * g / (2 * std::max(1.0, g - 1)) : shape_.ring_GBps / 2, shape_.net_GBps);
  way.hops = 2 * (is_direct ? std::min(1.0, g - 1) : g - 1);
  way.net_hops = 2;  // up and down
}

/// Ranks send to each other at once: no piece is passed on. Where all of a node send to all, pieces wait at their ports. A host hands each
/// pair to the library on its own, one that drives every GPU of a node those of all, unless all_to_all is one call.
void WayMaker::direct(LibraryWay& way, Collective collective) const {
  const double n = shape_.ranks;
  const double g = shape_.per_node;
  const double driven = is_one_process_ ? g : 1;
  way.hop = hop_direct_;
  way.net_hop = net_pair_;
  way.is_handed_over = true;
  way.flows_inside = true;
  way.net_ramp = -1;
  way.net_hops = shape_.nodes > 1 ? 1 : 0;
  switch (collective) {
    case Collective::all_to_all:
      limit(way, shape_.port_GBps * n / std::max(1.0, g - 1), shape_.net_GBps * n / (g * std::max(1.0, n - g)));
      way.pieces = direct_ramp_;
      way.hops = sends_in_one_call_ ? 1 : driven * (n - 1);
      way.post = net_direct_;
      way.posts = n - g;
      return;
    case Collective::send_recv:
      limit(way, shape_.pair_GBps, shape_.net_GBps / std::max(1, shape_.nics));
      limit_pair(way);
      way.hops = driven;
      return;
    default:  // gather and scatter: the root's own wires
      limit(way, shape_.port_GBps * n / std::max(1.0, g - 1), shape_.net_GBps / std::max(1, shape_.nics) * n / std::max(1.0, n - g));
      way.hops = n - 1;
  }
}

/// NCCL gives a pair of ranks few channels where there are many ranks, so that all pairs have some (src/enqueue.cc and, between nodes since
/// 2.29, ncclTopoComputeP2pChannels of src/graph/paths.cc); inside a node more, once a channel would have more than 16 MiB.
void WayMaker::limit_pair(LibraryWay& way) const {
  constexpr unsigned kMost = 32;
  constexpr double kMostOfAChannel = 16 << 20;
  const auto ranks = static_cast<unsigned>(shape_.ranks);
  if (shape_.nodes == 1 && pair_channel_ >= 0) {
    unsigned channels = std::max(1U, std::bit_floor(kMost / ranks));
    while (channels < kMost && way.bytes / channels > kMostOfAChannel) channels *= 2;
    way.limits.push_back({static_cast<double>(channels), pair_channel_});
  }
  if (shape_.nodes > 1 && net_pair_channel_ >= 0) {
    constexpr unsigned kRanksOfARound = 8;
    const auto nics = static_cast<unsigned>(std::max(1, shape_.nics));
    const unsigned all = std::min(kMost / 2, 4 * std::bit_ceil(nics));
    auto channels = std::bit_ceil(static_cast<unsigned>(std::ceil(shape_.net_GBps / nics / kNetChannelGBps)));
    while (channels > 1 && channels * ((ranks + kRanksOfARound - 1) / kRanksOfARound) > all) channels /= 2;
    way.limits.push_back({static_cast<double>(channels), net_pair_channel_});
  }
}

LibraryWay WayMaker::way(const LibraryCall& call, const NcclChoice& choice) const {
  LibraryWay way;
  way.algorithm = name_of(choice.algorithm);
  way.protocol = kNcclProtocols[choice.protocol];
  way.bytes = static_cast<double>(call.bytes.value);
  way.launch = launch_;
  way.launch_more = launch_more_;
  way.more = is_one_process_ ? shape_.per_node : 0;
  way.hop = hop_[at(choice.protocol)];
  way.net_hop = net_hop_[at(choice.protocol)];
  way.net_more = choice.protocol == 0 ? net_more_ : net_bulk_;
  way.net_crossings = choice.protocol == 2 ? 2 : 1;
  // LL128 hands its lines to the network as they come: no piece of it waits for another. LL passes on 8 bytes at a time inside nodes.
  way.net_ramp = net_ramp_[at(choice.protocol)];
  way.flows_inside = choice.protocol == 0;
  if (shape_.ranks == 1) return way;
  switch (choice.algorithm) {
    case NcclAlgorithm::ring: ring(way, choice.protocol, call.collective); break;
    case NcclAlgorithm::tree: tree(way, choice.protocol); break;
    case NcclAlgorithm::nvls: nvls(way, call.collective, false); break;
    case NcclAlgorithm::nvls_tree: nvls(way, call.collective, true); break;
    case NcclAlgorithm::pat: pat(way); break;
    case NcclAlgorithm::collnet_direct: collnet(way, true); break;
    case NcclAlgorithm::collnet_chain: collnet(way, false); break;
    case NcclAlgorithm::direct: direct(way, call.collective); break;
  }
  return way;
}

}  // namespace peal::sim
