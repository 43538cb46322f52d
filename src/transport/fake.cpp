#include <algorithm>
#include <chrono>
#include <cstring>
#include <transport/fake.hpp>

namespace peal::transport {

FakeFabric::FakeFabric(int ranks, const FakeOptions& options) : ranks_(ranks), options_(options), random_(options.seed) {
  const auto n = static_cast<std::size_t>(ranks);
  ways_.resize(n * n * static_cast<std::size_t>(options.channels));
  transports_.resize(n);
  dead_.assign(n, 0);
  health_.resize(n);
  for (int rank = 0; rank < ranks; ++rank) {
    transport(rank).fabric_ = this;
    transport(rank).rank_ = rank;
    for (int to = 0; to < ranks; ++to) {
      for (int channel = 0; channel < options.channels; ++channel) {
        const std::size_t at = way(rank, to, channel);
        Way& w = ways_[at];
        w.from = rank;
        w.to = to;
        w.sender.fabric_ = w.receiver.fabric_ = this;
        w.sender.way_ = w.receiver.way_ = at;
      }
    }
  }
}

std::size_t FakeFabric::way(int from, int to, int channel) const {
  return static_cast<std::size_t>((from * ranks_ + to) * options_.channels + channel);
}

// splitmix64: the same numbers on every platform.
std::uint64_t FakeFabric::next_random() {
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void FakeFabric::tick(std::uint64_t ticks) {
  const std::lock_guard lock(mutex_);
  now_ += ticks;
}

std::uint64_t FakeFabric::now() {
  const std::lock_guard lock(mutex_);
  return now_;
}

void FakeFabric::stall(int from, int to, int channel, bool is_stalled) {
  const std::lock_guard lock(mutex_);
  ways_[way(from, to, channel)].is_stalled = is_stalled;
  ++news_count_;
  news_.notify_all();
}

void FakeFabric::fail_rank(int rank, Failure failure) {
  Status& health = health_[static_cast<std::size_t>(rank)];
  if (health) health = pass_on(std::move(failure));
}

void FakeFabric::kill(int rank) {
  const std::lock_guard lock(mutex_);
  dead_[static_cast<std::size_t>(rank)] = 1;
  for (int other = 0; other < ranks_; ++other) {
    fail_rank(other, Failure{ErrorCode::rank_dead, fmt::format("rank {} was killed (fake transport)", rank), rank, other, {}});
  }
  ++news_count_;
  news_.notify_all();
}

void FakeFabric::break_channel(int from, int to, int channel) {
  const std::lock_guard lock(mutex_);
  ways_[way(from, to, channel)].is_stalled = true;
  fail_rank(from, Failure{ErrorCode::rank_dead, fmt::format("channel {} to rank {} broke (fake transport)", channel, to), to, from, {}});
  fail_rank(to, Failure{ErrorCode::rank_dead, fmt::format("channel {} from rank {} broke (fake transport)", channel, from), from, to, {}});
  ++news_count_;
  news_.notify_all();
}

std::size_t FakeFabric::in_flight() {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const Way& w : ways_) count += w.parcels.size();
  return count;
}

bool FakeFabric::has_room(std::size_t at) const {
  const Way& w = ways_[at];
  return w.parcels.size() < static_cast<std::size_t>(options_.slots) && is_alive(w.from) && is_alive(w.to);
}

bool FakeFabric::has_references(std::size_t at) const {
  const Way& w = ways_[at];
  return options_.has_references && w.carried >= static_cast<std::uint64_t>(options_.references_after) * static_cast<std::uint64_t>(w.to);
}

void FakeFabric::put(std::size_t at, Parcel parcel, const Tag* tag) {
  Way& w = ways_[at];
  ++w.carried;
  parcel.has_tag = tag != nullptr;
  if (tag != nullptr) parcel.tag = *tag;
  parcel.visible_at = now_;
  if (options_.longest_delay_ticks > 0) parcel.visible_at += next_random() % (static_cast<std::uint64_t>(options_.longest_delay_ticks) + 1);
  if (!w.parcels.empty()) parcel.visible_at = std::max(parcel.visible_at, w.parcels.back().visible_at);
  if (parcel.reference != nullptr) ++w.references;
  w.parcels.push_back(std::move(parcel));
  ++news_count_;
  news_.notify_all();
}

std::size_t FakeSender::message_bytes() const { return fabric_->options_.message_bytes; }

bool FakeSender::is_ready() {
  const std::lock_guard lock(fabric_->mutex_);
  if (fabric_->has_room(way_)) return true;
  ++fabric_->now_;
  return false;
}

std::byte* FakeSender::acquire(std::size_t bytes) {
  const std::lock_guard lock(fabric_->mutex_);
  if (has_room_) return room_.data();
  if (!fabric_->has_room(way_)) {
    ++fabric_->now_;
    return nullptr;
  }
  room_.resize(std::max<std::size_t>(bytes, 1));
  has_room_ = true;
  return room_.data();
}

void FakeSender::publish(std::size_t bytes, const Tag* tag) {
  const std::lock_guard lock(fabric_->mutex_);
  has_room_ = false;
  FakeFabric::Parcel parcel;
  parcel.bytes.assign(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(bytes));
  parcel.length = bytes;
  fabric_->put(way_, std::move(parcel), tag);
}

bool FakeSender::send(const std::byte* data, std::size_t bytes, const Tag* tag) {
  std::byte* room = acquire(bytes);
  if (room == nullptr) return false;
  if (bytes > 0) std::memcpy(room, data, bytes);
  publish(bytes, tag);
  return true;
}

bool FakeSender::has_references() const {
  const std::lock_guard lock(fabric_->mutex_);
  return fabric_->has_references(way_);
}

bool FakeSender::send_reference(const std::byte* data, std::size_t bytes, const Tag* tag, bool /*is_idle*/) {
  const std::lock_guard lock(fabric_->mutex_);
  if (!fabric_->has_references(way_) || !fabric_->has_room(way_)) {
    ++fabric_->now_;
    return false;
  }
  FakeFabric::Parcel parcel;
  parcel.reference = data;
  parcel.length = bytes;
  fabric_->put(way_, std::move(parcel), tag);
  return true;
}

int FakeSender::poll_descriptor() const { return fabric_->options_.is_by_sockets ? 0 : -1; }

int FakeReceiver::poll_descriptor() const { return fabric_->options_.is_by_sockets ? 0 : -1; }

const void* FakeSender::shared_area() {
  return fabric_->options_.has_shared_copies ? &fabric_->transport(fabric_->ways_[way_].from) : nullptr;
}

std::byte* FakeSender::acquire_shared() {
  const std::lock_guard lock(fabric_->mutex_);
  auto& rooms = fabric_->transport(fabric_->ways_[way_].from).shared_rooms_;
  auto room = std::find_if(rooms.begin(), rooms.end(), [](const std::vector<std::byte>& each) { return each.empty(); });
  if (room == rooms.end()) room = rooms.emplace(rooms.end());
  room->resize(std::max<std::size_t>(fabric_->options_.message_bytes, 1));
  return room->data();
}

bool FakeSender::send_shared(const std::byte* room, std::size_t bytes, const Tag* tag) { return send(room, bytes, tag); }

void FakeSender::end_shared(const std::byte* room) {
  const std::lock_guard lock(fabric_->mutex_);
  for (std::vector<std::byte>& each : fabric_->transport(fabric_->ways_[way_].from).shared_rooms_)
    if (each.data() == room) each.clear();
}

bool FakeSender::is_drained() {
  const std::lock_guard lock(fabric_->mutex_);
  if (fabric_->ways_[way_].references == 0) return true;
  ++fabric_->now_;
  return false;
}

const Message* FakeReceiver::peek() {
  const std::lock_guard lock(fabric_->mutex_);
  if (has_message_) return &message_;
  FakeFabric::Way& w = fabric_->ways_[way_];
  if (w.is_stalled || w.parcels.empty() || w.parcels.front().visible_at > fabric_->now_ || !fabric_->is_alive(w.to)) {
    ++fabric_->now_;
    return nullptr;
  }
  const FakeFabric::Parcel& parcel = w.parcels.front();  // a deque's front stays in place while others are pushed
  message_.data = parcel.reference != nullptr ? parcel.reference : parcel.bytes.data();
  message_.bytes = parcel.length;
  message_.tag = parcel.has_tag ? &parcel.tag : nullptr;
  has_message_ = true;
  return &message_;
}

void FakeReceiver::release() {
  const std::lock_guard lock(fabric_->mutex_);
  FakeFabric::Way& w = fabric_->ways_[way_];
  if (w.parcels.front().reference != nullptr) --w.references;
  w.parcels.pop_front();
  has_message_ = false;
  ++fabric_->news_count_;
  fabric_->news_.notify_all();
}

FakeSender* FakeTransport::sender(int peer, int channel) {
  const std::lock_guard lock(fabric_->mutex_);
  if (peer < 0 || peer >= fabric_->ranks_ || channel < 0 || channel >= fabric_->options_.channels) {
    fabric_->fail_rank(rank_,
                       Failure{ErrorCode::invalid_argument, fmt::format("there is no channel {} to rank {}", channel, peer), -1, -1, {}});
    return nullptr;
  }
  return &fabric_->ways_[fabric_->way(rank_, peer, channel)].sender;
}

FakeReceiver* FakeTransport::receiver(int peer, int channel) {
  const std::lock_guard lock(fabric_->mutex_);
  if (peer < 0 || peer >= fabric_->ranks_ || channel < 0 || channel >= fabric_->options_.channels) {
    fabric_->fail_rank(rank_,
                       Failure{ErrorCode::invalid_argument, fmt::format("there is no channel {} from rank {}", channel, peer), -1, -1, {}});
    return nullptr;
  }
  return &fabric_->ways_[fabric_->way(peer, rank_, channel)].receiver;
}

Status FakeTransport::health() {
  const std::lock_guard lock(fabric_->mutex_);
  return fabric_->health_[static_cast<std::size_t>(rank_)];
}

void FakeTransport::sleep(std::int64_t timeout_us) {
  std::unique_lock lock(fabric_->mutex_);
  ++fabric_->now_;
  const std::int64_t wait_us = std::min(timeout_us, fabric_->options_.longest_sleep_us);
  if (wait_us <= 0) return;
  const std::uint64_t seen = fabric_->news_count_;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(wait_us);
  while (fabric_->news_count_ == seen && fabric_->news_.wait_until(lock, deadline) != std::cv_status::timeout) {
  }
}

}  // namespace peal::transport
