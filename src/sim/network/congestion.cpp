#include <algorithm>
#include <cmath>
#include <sim/congestion.hpp>
#include <topology/library_constants.hpp>

namespace peal::sim {

namespace {

constexpr std::string_view kNames[] = {"fair", "credits", "pfc", "dcqcn"};

Result<double> constant(const std::string& name) {
  PEAL_ASSIGN(const topology::LibraryConstants all, topology::LibraryConstants::of_networks());
  PEAL_ASSIGN(const int index, all.find(name));
  return all.value(index);
}

}  // namespace

std::string_view name_of(FlowControl control) noexcept { return kNames[static_cast<std::size_t>(control)]; }

Result<Dcqcn> dcqcn_figures(std::string_view set) {
  Dcqcn d;
  const std::pair<std::string_view, double*> fields[] = {
      {"port", &d.port},   {"kmin", &d.kmin}, {"kmax", &d.kmax},     {"pmax", &d.pmax}, {"increase", &d.increase}, {"timer", &d.timer},
      {"bytes", &d.bytes}, {"cut", &d.cut},   {"stages", &d.stages}, {"gain", &d.gain}, {"alpha", &d.alpha},       {"packet", &d.packet}};
  for (const auto& [name, field] : fields) {
    PEAL_ASSIGN(*field, constant(fmt::format("dcqcn.{}.{}", set, name)));
  }
  return d;
}

double Congestion::queue(double flows, double port) const {
  if (control == FlowControl::fair || flows <= 1) return 0;
  if (control != FlowControl::dcqcn) return flows * pause;
  return std::min(fixed_point(dcqcn, flows, port).queue, dcqcn.kmax * port / dcqcn.port);
}

double Congestion::holds_up_for(double flows) const {
  if (control == FlowControl::fair) return 0;
  if (control != FlowControl::dcqcn) return std::numeric_limits<double>::infinity();
  // Flows begin at the rate of the port, and the first cuts halve: until all together are no more than the port carries.
  return dcqcn.cut * std::ceil(std::log2(std::max(1.0, flows)));
}

FlowControl flow_control_of(const topology::Cluster& cluster) {
  for (const topology::Device& device : cluster.machine().devices()) {
    if (device.kind != topology::DeviceKind::nic || device.rail < 0 || !device.port) continue;
    const std::string_view network = device.attribute("network");
    // RDMA over Ethernet that is not said to be something else.
    const bool is_plain = network.empty() || network == "ethernet";
    const bool is_rdma = device.port->kind == topology::LinkKind::ethernet && device.port->scope == "infiniband";
    if (network.starts_with("roce") || (is_plain && is_rdma)) return FlowControl::dcqcn;
  }
  return FlowControl::fair;
}

Result<Congestion> parse_congestion(std::string_view text, const topology::Cluster& cluster) {
  Congestion congestion;
  const bool is_paper = text == "dcqcn:paper";
  if (text == "auto") {
    congestion.control = flow_control_of(cluster);
  } else {
    const auto known = std::find(std::begin(kNames), std::end(kNames), is_paper ? "dcqcn" : text);
    if (known == std::end(kNames))
      return fail(ErrorCode::invalid_argument,
                  "--congestion {} is nothing that holds senders back; type auto, fair, credits, pfc, dcqcn or dcqcn:paper", text);
    congestion.control = static_cast<FlowControl>(known - std::begin(kNames));
  }
  if (congestion.control == FlowControl::dcqcn) {
    PEAL_ASSIGN(congestion.dcqcn, dcqcn_figures(is_paper ? "paper" : "vendor"));
  }
  if (congestion.control == FlowControl::pfc) {
    PEAL_ASSIGN(congestion.pause, constant("pfc.pause"));
  }
  if (congestion.control == FlowControl::credits) {
    PEAL_ASSIGN(congestion.pause, constant("credits.buffer"));
  }
  return congestion;
}

}  // namespace peal::sim
