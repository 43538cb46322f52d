// One link between two ends, packet by packet: what is left of the line rate, and how long an operation takes.
//
//   transaction   operations -> packets in three virtual channels, each with credits for the other end's buffers
//   data link     packets -> numbered units (a packet, or a flit full of packets) kept for replay until acknowledged; go-back-N
//   physical      units -> bits at the line rate, metres of cable, bit errors, the correcting code's delay
//
// Both directions are simulated with discrete events in virtual nanoseconds. A unit with a wrong bit is always recognised: of those with
// more wrong bits than a CRC of n bits is sure to find, about one in 2^n passes, which is told (`undetected`), not played. Wrong bits are
// independent and come from a seeded generator; the same question gives the same answer, bit for bit.
//
// Figures are those of data/links (rates) and data/links/layers (packets); where a source begins with "assumed", nobody publishes the
// figure.
#pragma once

#include <base/result.hpp>
#include <base/trace.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <topology/link_layers.hpp>
#include <vector>

namespace peal::sim {

/// posted_write: nobody answers. write: an empty answer comes back. read: an empty request, data come back. atomic: data both ways.
/// invalidate: nothing but headers both ways; takes a line away from the other end.
enum class LinkOperation : std::uint8_t { posted_write, write, read, atomic, invalidate };
std::string_view name_of(LinkOperation operation);
Result<LinkOperation> parse_link_operation(std::string_view text);

/// Virtual channels: what is stuck in one stops nobody in another.
enum class LinkChannel : std::uint8_t { posted, request, response };
inline constexpr int kLinkChannels = 3;

/// A link and how packets travel over it.
struct LinkModel {
  topology::LinkGeneration link;
  topology::LinkLayers layers;
  int request_bytes = 0;   ///< around the data of a request
  int response_bytes = 0;  ///< around the data of an answer

  double wire_rate() const;                    ///< bytes a nanosecond on the wire, flits' own parts included
  double one_way_ns(double metres) const;      ///< from the last bit's leaving to the end of the check, cable, code and both ends included
  int wire_bytes(int data, int around) const;  ///< of one packet, rounded up to flits where packets travel alone
  double ack_delay_ns() const;                 ///< an end waits so long at most before it acknowledges
};
/// The link of that name in `peal machines --links`.
Result<LinkModel> link_model(std::string_view name);

struct LinkQuestion {
  LinkOperation operation = LinkOperation::posted_write;
  bool is_both_ways = false;        ///< both ends start operations
  int payload = 256;                ///< bytes of an operation; larger ones are cut into packets
  int operations = 20'000;          ///< of each end that starts some
  double ber = 0;                   ///< wrong bits a bit, after correction
  int extra_flits = 0;              ///< beside the header of every packet with data: NVLink's address extension and byte enables
  std::optional<int> credits = {};  ///< room of the receiver in each channel, in packets of the largest payload; none: the link's figure
  std::optional<int> outstanding = {};  ///< operations under way at once; none: the link's figure, and no limit for posted writes
  std::optional<int> reply_bytes = {};  ///< an answer to a read is cut at this; none: the link's figure
  std::optional<double> metres = {};    ///< none: the link's figure
  std::uint64_t seed = 1;
};

/// What one end's transaction layer got; for whoever checks the data link layer.
struct LinkDelivery {
  int to = 0;  ///< end
  LinkChannel channel = LinkChannel::posted;
  std::uint64_t packet = 0;  ///< counted from 0 in each direction and channel as the sender made them
  int bytes = 0;
  double time_ns = 0;
};

/// For tests and pictures.
struct LinkHooks {
  Trace* trace = nullptr;
  std::function<void(const LinkDelivery&)> on_delivery;
  /// Asked for everything that is sent, beside the bit errors: the n-th unit or message of an end (counted from 0) arrives broken.
  std::function<bool(int end, std::uint64_t n)> breaks;
};

struct LinkOutcome {
  double goodput = 0;     ///< GB/s of payload, of each end that starts operations
  double share = 0;       ///< of the line rate in data/links
  double latency_ns = 0;  ///< of an operation alone
  double p50_ns = 0;      ///< under load, from the first bit's leaving to the answer
  double p99_ns = 0;
  double max_ns = 0;
  double time_ns = 0;          ///< until the last operation has ended
  std::uint64_t packets = 0;   ///< sent for the first time, both ends
  std::uint64_t messages = 0;  ///< acknowledgements and credits that travelled alone
  std::uint64_t broken = 0;    ///< units and messages that arrived with wrong bits
  std::uint64_t replayed = 0;  ///< units sent again
  std::uint64_t timeouts = 0;  ///< replays that nobody asked for
  double busy = 0;             ///< share of the time in which the busier direction's wire sent something
  double undetected = 0;       ///< expected wrong units a year of this load that a CRC takes for right
};

/// Runs the question. Refuses what is no link any more (hardly a packet arrives) and what has no credit, length or operation.
/// Cost: about a microsecond a packet and try.
Result<LinkOutcome> simulate_link(const LinkModel& model, const LinkQuestion& question, const LinkHooks& hooks = {});

/// Closed form, without errors and with credits enough: share of the line rate in data/links that payload gets in each direction that
/// operations start from. Acknowledgements and credits that travel alone are left out; at most one direction pays for them.
double link_share(const LinkModel& model, const LinkQuestion& question);

/// Wrong bits a bit behind the correcting code for so many in front of it, from its code words that cannot be corrected, each taken as one
/// error. Bits fail independently. The same number where there is no code.
double ber_after_correction(const LinkModel& model, double before);
/// Probability that a code word has more wrong symbols than the code corrects.
double code_word_failure(const LinkModel& model, double before);

/// Two processors work on the same data in turn; one has just written them, the other wants to read them.
struct SharingRow {
  std::uint64_t bytes = 0;
  double lines_ns = 0;  ///< coherent link: the writer's invalidations of the lines, then the reader's reads
  double copy_ns = 0;   ///< explicit copy over the other link
  double pages_ns = 0;  ///< managed memory: pages migrate over the other link when they are touched
};
/// The coherence sequence of one line over `link`: invalidate, its answer, read, its answer. Returns when each ended.
struct LineSequence {
  double invalidated_ns = 0;
  double read_ns = 0;
};
Result<LineSequence> share_line(const LinkModel& link, const topology::SharingFigures& figures, Trace* trace = nullptr);
/// `outstanding`: lines that the processors have under way; none: the link's figure.
Result<SharingRow> share_bytes(const LinkModel& coherent, const LinkModel& other, const topology::SharingFigures& figures,
                               std::uint64_t bytes, std::optional<int> outstanding = {});

}  // namespace peal::sim
