#include "data_link.hpp"

#include <algorithm>

namespace peal::sim {

DataLink::DataLink(const topology::LinkLayers& layers, std::uint64_t room)
    : rides_(layers.ack_rides > 0),
      has_nak_(layers.has_nak > 0),
      message_bytes_(static_cast<int>(layers.message_bytes)),
      flit_bytes_(static_cast<int>(layers.flit_bytes)),
      flit_data_bytes_(static_cast<int>(layers.flit_data_bytes)),
      mask_((1U << static_cast<unsigned>(layers.sequence_bits)) - 1),
      replay_bytes_(layers.replay_bytes) {
  // Both ends have the same buffers.
  allowed_.fill(room);
  own_.room.fill(room);
  told_ = own_;
}

void DataLink::enqueue(const LinkPacket& packet) { queues_[index_of(packet.channel)].push_back(packet); }

// More than half of the numbers under way, and an old unit could be taken for a new one.
bool DataLink::can_keep(int wire) const { return kept_.size() < (mask_ + 1) / 2 && (kept_.empty() || kept_bytes_ + wire <= replay_bytes_); }

// Channels take turns; one that has no room at the other end is passed over.
LinkPacket* DataLink::ready_packet() {
  for (std::size_t i = 0; i < kLinkChannels; ++i) {
    const std::size_t channel = (turn_ + i) % kLinkChannels;
    auto& queue = queues_[channel];
    if (!queue.empty() && used_[channel] + static_cast<std::uint64_t>(queue.front().wire) <= allowed_[channel]) return &queue.front();
  }
  return nullptr;
}

void DataLink::take_packet(const LinkPacket& packet, std::vector<LinkPacket>& started) {
  const std::size_t channel = index_of(packet.channel);
  started.push_back(packet);
  used_[channel] += static_cast<std::uint64_t>(packet.wire);
  turn_ = channel + 1;
  queues_[channel].pop_front();
}

std::optional<LinkFrame> DataLink::next_packet(std::vector<LinkPacket>& started) {
  const LinkPacket* packet = ready_packet();
  if (packet == nullptr || !can_keep(packet->wire)) return std::nullopt;
  kept_.push_back({packet->wire, {*packet}});
  take_packet(*packet, started);
  return send(kept_.size() - 1, false);
}

// A flit goes as full as the waiting packets make it.
std::optional<LinkFrame> DataLink::next_flit(std::vector<LinkPacket>& started) {
  if (!can_keep(flit_bytes_)) return std::nullopt;
  Unit unit{flit_bytes_, {}};
  int space = flit_data_bytes_;
  while (space > 0) {
    if (!open_) {
      const LinkPacket* packet = ready_packet();
      if (packet == nullptr) break;
      open_ = *packet;
      open_left_ = packet->wire;
      take_packet(*open_, started);
    }
    const int part = std::min(space, open_left_);
    space -= part;
    open_left_ -= part;
    if (open_left_ > 0) break;
    unit.packets.push_back(*open_);
    open_.reset();
  }
  if (space == flit_data_bytes_) return std::nullopt;
  kept_.push_back(std::move(unit));
  return send(kept_.size() - 1, false);
}

LinkFrame DataLink::send(std::size_t at, bool is_replay) {
  LinkFrame frame{
      .is_unit = true, .is_replay = is_replay, .number = (first_ + static_cast<std::uint32_t>(at)) & mask_, .wire = kept_[at].wire};
  if (!is_replay) {
    kept_bytes_ += frame.wire;
    replay_at_ = kept_.size();
  }
  if (rides_) carry_control(frame);
  return frame;
}

int DataLink::parts_of_news() const {
  int parts = told_.expected != own_.expected || own_.is_nak || must_tell_ ? 1 : 0;
  for (std::size_t c = 0; c < kLinkChannels; ++c) parts += told_.room[c] != own_.room[c] || must_tell_ ? 1 : 0;
  return parts;
}

void DataLink::carry_control(LinkFrame& frame) {
  frame.control = own_;
  frame.has_control = true;
  own_.is_nak = false;
  told_ = own_;
  may_tell_ = must_tell_ = false;
}

LinkFrame DataLink::message() {
  LinkFrame frame{.wire = rides_ ? message_bytes_ : message_bytes_ * parts_of_news()};
  carry_control(frame);
  return frame;
}

std::optional<LinkFrame> DataLink::next(std::vector<LinkPacket>& started) {
  // Messages of their own go first: the other end may be waiting for them. A request for replay does not wait at all.
  if (!rides_ && has_news() && (may_tell_ || own_.is_nak)) return message();
  if (replay_at_ < kept_.size()) return send(replay_at_++, true);
  if (auto frame = flit_data_bytes_ > 0 ? next_flit(started) : next_packet(started)) return frame;
  if (rides_ && has_news()) return message();
  return std::nullopt;
}

void DataLink::take_control(const LinkControl& control) {
  const std::uint32_t done = distance(first_, control.expected);
  for (std::uint32_t i = 0; i < done && !kept_.empty(); ++i) {
    kept_bytes_ -= kept_.front().wire;
    kept_.pop_front();
    if (replay_at_ > 0) --replay_at_;
    ++progress_;
  }
  first_ = control.expected;
  allowed_ = control.room;
  if (control.is_nak) replay_at_ = 0;
}

void DataLink::receive(const LinkFrame& frame, const DataLink& other, std::vector<LinkPacket>& delivered) {
  if (frame.has_control) take_control(frame.control);
  if (!frame.is_unit) return;
  if (frame.number == own_.expected) {
    const auto& packets = other.packets_of(frame.number);
    delivered.insert(delivered.end(), packets.begin(), packets.end());
    own_.expected = (own_.expected + 1) & mask_;
    is_nak_out_ = false;
  } else if (distance(frame.number, own_.expected) <= (mask_ + 1) / 2) {
    must_tell_ = may_tell_ = true;  // it came before, so the acknowledgement did not
  } else {
    receive_broken();
  }
}

void DataLink::receive_broken() {
  if (!has_nak_ || is_nak_out_) return;
  is_nak_out_ = own_.is_nak = true;
}

void DataLink::free_room(const LinkPacket& packet) { own_.room[index_of(packet.channel)] += static_cast<std::uint64_t>(packet.wire); }

void DataLink::tell_again() { must_tell_ = may_tell_ = true; }

}  // namespace peal::sim
