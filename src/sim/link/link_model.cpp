// What follows from the figures without any event: times of the physical layer, sizes on the wire, shares, and what a correcting code
// leaves.
#include <algorithm>
#include <cmath>
#include <sim/link.hpp>

namespace peal::sim {

namespace {

constexpr struct {
  LinkOperation operation;
  std::string_view name;
} kOperations[] = {{LinkOperation::posted_write, "posted"},
                   {LinkOperation::write, "write"},
                   {LinkOperation::read, "read"},
                   {LinkOperation::atomic, "atomic"},
                   {LinkOperation::invalidate, "invalidate"}};

Result<int> frame_bytes(const std::string& name) {
  PEAL_ASSIGN(const topology::LinkCatalogue* catalogue, topology::link_catalogue());
  for (const topology::FrameOverhead& frame : catalogue->frames)
    if (frame.name == name) return frame.bytes();
  return fail(ErrorCode::corrupt, "data/links has no frame '{}', which data/links/layers names", name);
}

}  // namespace

std::string_view name_of(LinkOperation operation) {
  for (const auto& known : kOperations)
    if (known.operation == operation) return known.name;
  return "";
}

Result<LinkOperation> parse_link_operation(std::string_view text) {
  for (const auto& known : kOperations)
    if (known.name == text) return known.operation;
  return fail(ErrorCode::invalid_argument, "--op {} is no operation of a link; type posted, write, read, atomic or invalidate", text);
}

Result<LinkModel> link_model(std::string_view name) {
  LinkModel model;
  PEAL_ASSIGN(const topology::LinkGeneration* link, topology::link_generation(name));
  PEAL_ASSIGN(const topology::LinkLayers* layers, topology::layers_of(*link));
  model.link = *link;
  model.layers = *layers;
  PEAL_ASSIGN(model.request_bytes, frame_bytes(layers->request_frame));
  PEAL_ASSIGN(model.response_bytes, frame_bytes(layers->response_frame));
  return model;
}

double LinkModel::wire_rate() const { return layers.is_coded_by_flits > 0 ? link.lane_gbps * link.lanes / 8 : link.bandwidth.gigabytes(); }

double LinkModel::one_way_ns(double metres) const {
  // A flit that is its own code word is waited for anyway.
  const double word = layers.is_coded_by_flits > 0 ? 0 : layers.fec_symbols * layers.fec_symbol_bits / 8 / wire_rate();
  return 2 * layers.end_ns + metres * layers.cable_ns_per_metre + word + layers.fec_decode_ns;
}

int LinkModel::wire_bytes(int data, int around) const {
  const int bytes = data + around;
  if (layers.flit_data_bytes > 0) return bytes;
  const int flit = static_cast<int>(layers.flit_bytes);
  return (bytes + flit - 1) / flit * flit;
}

double LinkModel::ack_delay_ns() const {
  if (layers.ack_rides > 0 || layers.ack_delay_symbols <= 0) return 0;
  const double packets = link.lanes >= 16 ? layers.ack_packets_x16 : link.lanes >= 8 ? layers.ack_packets_x8 : layers.ack_packets;
  const double symbols = (layers.max_payload_bytes + layers.ack_around_bytes) * packets / link.lanes + layers.ack_delay_symbols;
  return symbols * 8 / (link.lane_gbps * link.coding_share);
}

double link_share(const LinkModel& model, const LinkQuestion& q) {
  const LinkOperation what = q.operation;
  if (what == LinkOperation::invalidate) return 0;
  const int extra = q.extra_flits * static_cast<int>(model.layers.flit_bytes);
  // Bytes of all packets that carry `payload` in pieces.
  const auto bytes_of = [&](int payload, int piece, int around, bool has_data) {
    int sum = 0;
    do {
      const int part = std::min(payload, piece);
      payload -= part;
      sum += model.wire_bytes(has_data ? part : 0, around + (has_data ? extra : 0));
    } while (payload > 0);
    return sum;
  };
  const int reply = q.reply_bytes.value_or(static_cast<int>(model.layers.read_reply_bytes));
  const bool reads = what == LinkOperation::read;
  const int piece = static_cast<int>(reads ? model.layers.max_read_bytes : model.layers.max_payload_bytes);
  const int there = bytes_of(q.payload, piece, model.request_bytes, !reads);
  int back = 0;
  if (what == LinkOperation::write) back = model.wire_bytes(0, model.response_bytes);
  if (reads || what == LinkOperation::atomic)
    for (int left = q.payload; left > 0; left -= piece) back += bytes_of(std::min(left, piece), reply, model.response_bytes, true);
  const int wire = q.is_both_ways ? there + back : std::max(there, back);
  const double flits = model.layers.flit_data_bytes > 0 ? model.layers.flit_data_bytes / model.layers.flit_bytes : 1;
  return q.payload * flits / wire * model.wire_rate() / model.link.bandwidth.gigabytes();
}

double code_word_failure(const LinkModel& model, double before) {
  const double n = model.layers.fec_symbols;
  const double wrong = -std::expm1(model.layers.fec_symbol_bits * std::log1p(-before));
  if (wrong <= 0) return 0;
  // Binomial tail, from its largest term on: each from the one before.
  const double first = model.layers.fec_corrects + 1;
  double term = std::exp(std::lgamma(n + 1) - std::lgamma(first + 1) - std::lgamma(n - first + 1) + first * std::log(wrong) +
                         (n - first) * std::log1p(-wrong));
  double sum = 0;
  for (double k = first; k <= n; ++k) {
    sum += term;
    term *= (n - k) / (k + 1) * wrong / (1 - wrong);
  }
  return std::min(sum, 1.0);
}

double ber_after_correction(const LinkModel& model, double before) {
  if (model.layers.fec_symbol_bits <= 0) return before;
  const double failure = code_word_failure(model, before);
  return failure >= 1 ? 1 : -std::log1p(-failure) / (model.layers.fec_symbols * model.layers.fec_symbol_bits);
}

}  // namespace peal::sim
