#include <sim/framing.hpp>

#include <algorithm>
#include <cmath>
#include <sim/link.hpp>

namespace peal::sim {

namespace {

double packet(const Framing& f, double data) { return std::ceil((data + f.around) / f.flit) * f.flit; }

Result<Framing> of_layers(const topology::LinkGeneration& link) {
  Framing framing;
  if (!topology::layers_of(link)) return framing;
  PEAL_ASSIGN(const LinkModel model, link_model(link.name));
  if (model.layers.flit_data_bytes > 0) return framing;  // a stream in flits: the end of a message wastes none
  framing.payload = model.layers.max_payload_bytes;
  framing.around = model.request_bytes;
  framing.flit = model.layers.flit_bytes;
  return framing;
}

}  // namespace

double Framing::counted(double bytes) const {
  if (payload <= 0 || bytes <= 0) return bytes;
  const double full = std::floor(bytes / payload);
  const double rest = bytes - full * payload;
  return payload * (full + (rest > 0 ? packet(*this, rest) / packet(*this, payload) : 0));
}

Result<Framing> framing_of(std::string_view scope, topology::LinkKind kind) {
  PEAL_ASSIGN(const topology::LinkCatalogue* catalogue, topology::link_catalogue());
  if (!topology::is_network(kind)) {
    const auto link = std::find_if(catalogue->links.begin(), catalogue->links.end(), [&](const auto& l) { return l.scope == scope; });
    if (link == catalogue->links.end()) return Framing{};
    return of_layers(*link);
  }
  const std::string_view name = kind == topology::LinkKind::infiniband ? "infiniband-rc" : scope == "infiniband" ? "roce-v2" : scope;
  const bool is_rdma = scope == "infiniband";
  for (const topology::FrameOverhead& frame : catalogue->frames) {
    if (frame.name != name || frame.payloads.empty()) continue;
    // RDMA with its largest packet, TCP in ordinary frames: what the constants of both were taken with.
    return Framing{static_cast<double>(is_rdma ? frame.payloads.back() : frame.payloads.front()), static_cast<double>(frame.bytes()), 1};
  }
  return Framing{};
}

}  // namespace peal::sim
