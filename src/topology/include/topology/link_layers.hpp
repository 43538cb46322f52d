// How packets travel over a generation of links (data/links/layers/*.yaml): figures of the physical, data link and transaction layer, a
// source or a plainly stated assumption on each. Rates, lanes and coding stay in data/links (link_catalogue.hpp).
//
//   layers:
//     - name: nvlink
//       links: [nvlink-1, nvlink-2]           # generations of data/links; "pcie-3" stands for all its widths
//       request_frame: nvlink-packet          # of data/links
//       physical:    {end_ns: {is: 60, source: "..."}, ...}
//       data_link:   {flit_bytes: {is: 16, source: "..."}, ...}
//       transaction: {max_payload_bytes: {is: 256, source: "..."}, ...}
//     - name: nvlink-fec
//       like: nvlink                          # the figures of a record above; those given here replace them
//       links: [nvlink-4]
//       sharing: {fault_us: {is: 11.5, source: "..."}}   # of processors on these links; what is not given is as below
//   sharing: {line_bytes: {is: 128, source: "..."}, ...}
#pragma once

#include <base/result.hpp>
#include <string>
#include <string_view>
#include <topology/link_catalogue.hpp>
#include <vector>

namespace peal::topology {

/// One figure with its source, as `peal sim link --layers` prints it.
struct LayerFigure {
  std::string layer;  ///< "physical"
  std::string key;    ///< "end_ns"
  double value = 0;
  std::string source;
};

/// Of two processors that share data, beside the links themselves.
struct SharingFigures {
  double line_bytes = 0;
  double copy_us = 0;  ///< an explicit copy of next to nothing
  double page_bytes = 0;
  double first_fault_us = 0;  ///< from a fault to the page's mapping, without the transfer
  double fault_us = 0;        ///< each further page of many, likewise
  std::vector<LayerFigure> figures;
};

/// Bytes, nanoseconds, bits or counts, as the names say. A figure that a record lacks is the one given here: the thing is absent.
struct LinkLayers {
  std::string name;
  std::vector<std::string> links;
  std::string request_frame;   ///< of data/links: the bytes around the data of a request
  std::string response_frame;  ///< likewise of an answer

  // physical
  double end_ns = 0;  ///< one end: serialiser, lane alignment, link logic; one way
  double cable_ns_per_metre = 0;
  double metres = 0;             ///< length where nobody says one
  double fec_symbol_bits = 0;    ///< of the correcting code; 0: no correction
  double fec_symbols = 0;        ///< of a code word
  double fec_corrects = 0;       ///< wrong symbols that are corrected in each code word
  double fec_decode_ns = 0;      ///< after the last symbol of a code word
  double is_coded_by_flits = 0;  ///< 1: the share of data in the catalogue's coding is the flit's; on the wire the lane rate counts

  // data link
  double flit_bytes = 1;       ///< packets end at multiples of this
  double flit_data_bytes = 0;  ///< > 0: flits of one size carry a stream of packets, so many bytes each; 0: a packet travels alone
  double crc_bits = 0;
  double crc_detects = 0;  ///< so many wrong bits anywhere in a unit are always found
  double sequence_bits = 0;
  double replay_bytes = 0;       ///< of packets (or flits) that wait for their acknowledgement
  double has_nak = 0;            ///< 1: the receiver reports what it dropped; 0: the sender finds out by its timer
  double ack_rides = 0;          ///< 1: acknowledgements and credits travel in every header and in idle flits; 0: in messages of their own
  double message_bytes = 0;      ///< an acknowledgement or a credit update that travels alone
  double ack_delay_symbols = 0;  ///< an end's internal delay before it acknowledges, in bytes of one lane
  double ack_around_bytes = 0;   ///< that the acknowledgement's delay counts beside the largest payload
  double ack_packets =
      0;  ///< acknowledged together at x4 and narrower, in packets of the largest payload, each taking a share of the width
  double ack_packets_x8 = 0;
  double ack_packets_x16 = 0;
  double timeout_round_trips = 0;  ///< until a replay without acknowledgement; of (acknowledgement's delay + round trip)
  double refresh_ns = 0;           ///< credits are told again after this, for the case that the message was lost

  // transaction
  double max_payload_bytes = 0;
  double max_read_bytes = 0;    ///< of one read request
  double read_reply_bytes = 0;  ///< of one reply to a read
  double credits = 0;           ///< packets of the largest payload that the receiver has room for in each virtual channel
  double drain_ns = 0;          ///< a packet lies so long in the receiver's buffer
  double target_ns = 0;         ///< from a request's arrival to its answer: the memory behind
  double outstanding = 0;       ///< operations that wait for an answer at once

  std::vector<LayerFigure> figures;  ///< all that were given, in the order of the file
  SharingFigures sharing;            ///< over these links, as far as its `figures` say
};

struct LayerCatalogue {
  std::vector<LinkLayers> layers;
  std::optional<SharingFigures> sharing;
};

/// Everything in data/links/layers, read once a process. Thread-safe.
Result<const LayerCatalogue*> layer_catalogue();
/// The layers of a link; unsupported, with what there is, for a family whose packets nobody describes.
Result<const LinkLayers*> layers_of(const LinkGeneration& link);
/// What two processors that share data over such a link pay: the catalogue's figures, replaced by those of the link.
Result<SharingFigures> sharing_over(const LinkLayers& link);
/// Parses one file's text; `name` stands for the file in messages. Takes any bytes: limits of our YAML form, at most 1,000 records.
Result<LayerCatalogue> read_layers_text(std::string_view text, const std::string& name);

}  // namespace peal::topology
