// The fixed point of DCQCN's fluid model, and how fast it is come to. Rates and queues are counted in packets, as the marking is.
#include <algorithm>
#include <cmath>
#include <sim/congestion.hpp>

namespace peal::sim {

namespace {

constexpr int kHalvings = 60;

/// Where a function that rises through zero does; between its ends otherwise the nearer.
template <class Function>
double root_of(Function&& f, double low, double high) {
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (f(middle) < 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// In packets, and packets a nanosecond, of a port.
struct Counted {
  double part;      // of the port, of one sender
  double increase;  // of a step
  double counter;
  double kmin, kmax;
};

Counted counted(const Dcqcn& d, double flows, double port) {
  const double grown = port / d.port / d.packet;
  return {port / flows / d.packet, d.increase * grown, d.bytes / d.packet, d.kmin * grown, d.kmax * grown};
}

}  // namespace

DcqcnPoint fixed_point(const Dcqcn& d, double flows, double port) {
  const Counted n = counted(d, flows, port);
  // Equation 11 of CoNEXT 2016: cuts and steps keep the balance. Rises with the share that is marked.
  const auto balance = [&](double marked) {
    const double log = std::log1p(-marked);
    const double cuts = -std::expm1(d.cut * n.part * log);
    const double depth = -std::expm1(d.alpha * n.part * log);
    const auto recovery = [&](double packets) { return packets > 0 ? marked / std::expm1(-packets * log) : 0; };
    const auto steps = [&](double packets) { return recovery(packets) * std::exp(d.stages * packets * log); };
    const double timer = d.timer * n.part;
    return cuts * cuts * depth -
           (recovery(n.counter) + recovery(timer)) * (steps(n.counter) + steps(timer)) * d.cut * d.cut * n.increase * n.part;
  };
  DcqcnPoint point;
  point.marked = root_of(balance, 1e-12, 0.5);
  point.queue = d.packet * (n.kmin + point.marked / d.pmax * (n.kmax - n.kmin));
  point.is_reached = point.marked <= d.pmax;
  return point;
}

double converges_within(const Dcqcn& d, double flows, double port) {
  const Counted n = counted(d, flows, port);
  // Appendix B: rates swing between two cuts; `cycle` is their distance in updates of the depth, `until_marked` of it after the port is
  // full.
  const double until_marked = (std::sqrt(1 + 8 * n.kmax / (flows * n.increase * d.alpha)) - 1) / 2;
  const auto cycle = [&](double depth) { return 2 + (until_marked + port / d.packet / (flows * n.increase)) / 2 * depth; };
  const double least =
      root_of([&](double depth) { return depth - std::pow(1 - d.gain, cycle(depth)) * ((1 - d.gain) * depth + d.gain); }, 0, 1);
  return d.alpha * cycle(least) * std::log(0.1 / flows) / std::log1p(-least / 2);
}

}  // namespace peal::sim
