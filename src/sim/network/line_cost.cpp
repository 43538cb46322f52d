#include <algorithm>
#include <nlohmann/json.hpp>
#include <sim/line_cost.hpp>

namespace peal::sim {

namespace {

constexpr std::string_view kWords[] = {"fair sharing", "InfiniBand, credits without congestion control", "Ethernet with PFC alone",
                                       "RoCE v2 with DCQCN and PFC"};

double widest_port(const topology::Cluster& cluster) {
  double widest = 0;
  for (const topology::Device& d : cluster.machine().devices())
    if (d.kind == topology::DeviceKind::nic && d.rail >= 0 && d.port) widest = std::max(widest, d.port->usable.gigabytes());
  return widest;
}

std::string against(double time, double other) {
  return fmt::format("{:.2f} us ({:+.1f} %)", other, other > 0 ? 100 * (time / other - 1) : 0);
}

bool has_law(const LineCost& cost) { return cost.congestion.control == FlowControl::dcqcn && cost.most_in_line > 1 && cost.port > 0; }

}  // namespace

Result<LineCost> cost_of_lines(const Scene& scene, const tuning::Question& question, const InterpretOptions& options,
                               std::span<const Beside> beside, const Study& study) {
  LineCost cost{options.congestion, widest_port(scene.resources->cluster())};
  cost.time_us = study.row.out_of_place->p50_us;
  cost.most_in_line = study.outcome.most_in_line;
  cost.longest_queue = study.outcome.longest_queue;
  cost.circle = study.outcome.circle;
  InterpretOptions other = options;
  other.keeps_log = other.keeps_path = other.keeps_trace = false;
  const auto with = [&](FlowControl control) -> Result<double> {
    PEAL_ASSIGN(other.congestion, parse_congestion(name_of(control), scene.resources->cluster()));
    PEAL_ASSIGN(const Study again, sim::study(scene, question, other, 1, beside));
    return again.row.out_of_place->p50_us;
  };
  PEAL_ASSIGN(cost.fair_us, with(FlowControl::fair));
  if (cost.congestion.control == FlowControl::dcqcn) {
    PEAL_ASSIGN(cost.pfc_us, with(FlowControl::pfc));
  }
  return cost;
}

std::string line_cost_text(const LineCost& cost) {
  std::string text =
      fmt::format("# Network           : {}, {:.2f} us; by fair sharing alone {}",
                  kWords[static_cast<std::size_t>(cost.congestion.control)], cost.time_us, against(cost.time_us, cost.fair_us));
  if (cost.pfc_us > 0) text += fmt::format(", by PFC alone {:.2f} us", cost.pfc_us);
  text += "\n";
  if (cost.most_in_line > 1)
    text += fmt::format("#   up to {:.0f} flows in front of a port, where {:.0f} bytes stood\n", cost.most_in_line, cost.longest_queue);
  if (has_law(cost))
    text += fmt::format("#   not simulated: that the rates of {:.0f} senders become equal, which takes {:.3g} ms at the latest\n",
                        cost.most_in_line, 1e-6 * converges_within(cost.congestion.dcqcn, cost.most_in_line, cost.port));
  if (!cost.circle.empty())
    text += fmt::format("#   pauses of this fabric can wait for one another for ever ({} > {}): it needs virtual lanes, or other routes\n",
                        fmt::join(cost.circle, " > "), cost.circle.front());
  return text;
}

std::string line_cost_json(const LineCost& cost) {
  nlohmann::json tree = {{"control", name_of(cost.congestion.control)},
                         {"time_us", cost.time_us},
                         {"fair_us", cost.fair_us},
                         {"flows", cost.most_in_line},
                         {"queue_bytes", cost.longest_queue}};
  if (cost.pfc_us > 0) tree["pfc_us"] = cost.pfc_us;
  if (has_law(cost)) tree["converges_us"] = 1e-3 * converges_within(cost.congestion.dcqcn, cost.most_in_line, cost.port);
  if (!cost.circle.empty()) tree["circle"] = cost.circle;
  return tree.dump();
}

}  // namespace peal::sim
