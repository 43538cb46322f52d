// What holds senders back where more wants to pass a port of the network than it carries, as laws for flows.
//
//   fair     nothing but max-min sharing: the other three without their side effects
//   credits  InfiniBand without congestion control: a port's buffer is full, its credits are spent, and whoever stands behind waits
//   pfc      Ethernet with priority flow control alone: the same by pause frames
//   dcqcn    RoCE v2: pause frames until the rates of the senders have been cut, then a standing queue and nobody is held up
//
// Held up means: a port passes packets in their order, so a flow that is slow further on slows whoever uses the same port with it
// (solver.hpp, lines). Standing queues delay what passes. docs/decisions/lines-in-front-of-ports.md says what this leaves out.
//
// DCQCN: Zhu et al., SIGCOMM 2015; fixed point and convergence as in Zhu et al., ECN or Delay, CoNEXT 2016, sections 3.1 and 3.2. Constants
// are data/constants/network/roce.yaml. Bytes, nanoseconds, GB/s. Pure functions.
#pragma once

#include <base/result.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <topology/resources.hpp>

namespace peal::sim {

enum class FlowControl : std::uint8_t { fair, credits, pfc, dcqcn };
std::string_view name_of(FlowControl control) noexcept;

struct Dcqcn {
  double port = 0;  ///< GB/s that thresholds and steps belong to; they grow with the port
  double kmin = 0;
  double kmax = 0;
  double pmax = 0;
  double increase = 0;
  double timer = 0;
  double bytes = 0;  ///< 0: no byte counter
  double stages = 0;
  double cut = 0;
  double alpha = 0;
  double gain = 0;
  double packet = 0;
};
/// "vendor": what adapters and switches are set to; "paper": SIGCOMM 2015.
Result<Dcqcn> dcqcn_figures(std::string_view set);

/// Where `flows` senders that share a port settle: each has an equal part of it, and so much of what they send is marked.
struct DcqcnPoint {
  double marked = 0;        ///< share of the packets
  double queue = 0;         ///< bytes, if marking went on rising beyond kmax as below it
  bool is_reached = false;  ///< false: even kmax marks too little; the queue stands at kmax, where everything is marked
};
DcqcnPoint fixed_point(const Dcqcn& dcqcn, double flows, double port);
/// Nanoseconds within which the rates of `flows` senders differ by less than a tenth of their part, at the latest.
double converges_within(const Dcqcn& dcqcn, double flows, double port);

struct Congestion {
  FlowControl control = FlowControl::fair;
  Dcqcn dcqcn = {};
  double pause = 0;  ///< bytes of one flow that wait where it is held up, under pfc and credits

  /// Bytes that stand in front of a full port that so many flows share.
  double queue(double flows, double port) const;
  /// So long after its first byte a message's sender holds up others.
  double holds_up_for(double flows) const;
};

/// "auto" (what the network is), "fair", "credits", "pfc", "dcqcn", "dcqcn:paper".
Result<Congestion> parse_congestion(std::string_view text, const topology::Cluster& cluster);
/// RoCE v2 where a port of the machine says so: dcqcn; else fair.
FlowControl flow_control_of(const topology::Cluster& cluster);

}  // namespace peal::sim
