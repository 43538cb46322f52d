// The transaction layer of both ends: starts operations, cuts them into packets, answers what arrives, and knows when an operation has
// ended.
#pragma once

#include <vector>

#include "packet.hpp"

namespace peal::sim {

class LinkTraffic {
 public:
  LinkTraffic(const LinkModel& model, const LinkQuestion& question);

  /// Packets of the next operation that `end` may start; none: it has to wait, or has started all.
  std::vector<LinkPacket> next_operation(int end);
  /// The first byte of a packet leaves `end`.
  void on_started(int end, const LinkPacket& packet, double now);
  /// A packet has arrived at `end`. True: a request that is to be answered, `target_ns` later, by `answers`.
  bool on_delivered(int end, const LinkPacket& packet, double now);
  std::vector<LinkPacket> answers(int end, const LinkPacket& request);

  /// Channel of what `end` sends first for an operation.
  LinkChannel request_channel() const;
  bool is_done() const { return ended_ == total_; }
  double end_time() const { return last_end_; }
  /// Latencies and goodput into `outcome`.
  void report(LinkOutcome& outcome);

 private:
  struct Operation {
    double started = -1;
    std::int32_t awaited = 0;  // payload bytes, or answers without data
  };
  struct Side {
    std::vector<Operation> operations;
    std::uint32_t started = 0, under_way = 0, ended = 0;
    double quarter = 0, three_quarters = 0;  // when so many had ended
    PerChannel<std::uint64_t> numbers{};
  };

  LinkPacket packet(int from, LinkChannel channel, std::uint32_t operation, int data, int around);
  void end_operation(Side& side, Operation& operation, double now);

  const LinkModel& model_;
  const LinkQuestion& question_;
  const int reply_bytes_, extra_bytes_;
  const std::uint32_t most_under_way_;
  Side sides_[2];
  std::uint64_t ended_ = 0, total_ = 0;
  double last_end_ = 0;
  std::vector<double> latencies_;
};

}  // namespace peal::sim
