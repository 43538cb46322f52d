// The data link layer of one end: numbers units, keeps them until they are acknowledged, goes back to the first unacknowledged one when
// something was lost, and hands up what arrives in order, each packet once. Credits say how much the other end has room for.
//
// It knows no time: its owner asks what the free wire sends next and tells it what arrived.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "packet.hpp"

namespace peal::sim {

/// What an end tells about itself; always the whole state, so that a lost one is made good by the next.
struct LinkControl {
  std::uint32_t expected = 0;        ///< number of the next unit: all before it have arrived
  bool is_nak = false;               ///< a unit was dropped
  PerChannel<std::uint64_t> room{};  ///< bytes that could be sent since the beginning
};

/// What goes over the wire in one piece.
struct LinkFrame {
  bool is_unit = false;  ///< else a message of `control` alone
  bool is_replay = false;
  std::uint32_t number = 0;
  int wire = 0;  ///< bytes
  LinkControl control;
  bool has_control = false;
};

class DataLink {
 public:
  /// `room`: bytes of the other end's buffer in each channel.
  DataLink(const topology::LinkLayers& layers, std::uint64_t room);

  void enqueue(const LinkPacket& packet);
  std::size_t queued(LinkChannel channel) const { return queues_[index_of(channel)].size(); }

  /// What the wire sends now, or nothing. `started` gets packets of which the first byte leaves for the first time.
  std::optional<LinkFrame> next(std::vector<LinkPacket>& started);

  /// Something whole came from the other end. `delivered` gets the packets that are now complete.
  void receive(const LinkFrame& frame, const DataLink& other, std::vector<LinkPacket>& delivered);
  /// A unit came broken. (A broken message is as if it had never been sent.)
  void receive_broken();
  /// A packet has left the receive buffer.
  void free_room(const LinkPacket& packet);

  bool has_unacknowledged() const { return !kept_.empty(); }
  /// Grows with every acknowledged unit.
  std::uint64_t progress() const { return progress_; }
  void replay() { replay_at_ = 0; }
  bool is_replaying() const { return replay_at_ < kept_.size(); }

  /// There is something to tell that nothing has carried yet, and messages wait for `allow_message`.
  bool wants_message() const { return !rides_ && !may_tell_ && has_news(); }
  void allow_message() { may_tell_ = has_news(); }
  /// Tells everything again: what was told may have been lost.
  void tell_again();

  const std::vector<LinkPacket>& packets_of(std::uint32_t number) const { return kept_[distance(first_, number)].packets; }

 private:
  struct Unit {
    int wire = 0;
    std::vector<LinkPacket> packets;  // those that end in it
  };

  std::uint32_t distance(std::uint32_t from, std::uint32_t to) const { return (to - from) & mask_; }
  bool has_news() const { return told_.expected != own_.expected || own_.is_nak || told_.room != own_.room || must_tell_; }
  int parts_of_news() const;
  void carry_control(LinkFrame& frame);
  void take_control(const LinkControl& control);
  LinkFrame message();
  LinkFrame send(std::size_t at, bool is_replay);
  std::optional<LinkFrame> next_packet(std::vector<LinkPacket>& started);
  std::optional<LinkFrame> next_flit(std::vector<LinkPacket>& started);
  LinkPacket* ready_packet();
  void take_packet(const LinkPacket& packet, std::vector<LinkPacket>& started);
  bool can_keep(int wire) const;

  const bool rides_, has_nak_;
  const int message_bytes_, flit_bytes_, flit_data_bytes_;
  const std::uint32_t mask_;
  const double replay_bytes_;

  // sending
  PerChannel<std::deque<LinkPacket>> queues_;
  PerChannel<std::uint64_t> used_{}, allowed_{};
  std::size_t turn_ = 0;  // the channel that is asked first
  std::deque<Unit> kept_;
  std::uint32_t first_ = 0;    // number of the first one kept
  std::size_t replay_at_ = 0;  // the next one to be sent again; kept_.size(): none
  double kept_bytes_ = 0;
  std::uint64_t progress_ = 0;
  std::optional<LinkPacket> open_;  // a packet that continues in the next flit
  int open_left_ = 0;

  // receiving
  LinkControl own_, told_;
  bool is_nak_out_ = false;  // no second one before what was asked for has come
  bool may_tell_ = false, must_tell_ = false;
};

}  // namespace peal::sim
