// The transport of one communicator: shared memory to ranks on this host, TCP to the others (or TCP to all, when asked for).
#pragma once

#include <memory>
#include <transport/channel.hpp>
#include <transport/shm.hpp>
#include <vector>

namespace peal::comm {

/// Sends each peer over the transport and under the number that was routed for it.
class Routes final : public transport::Transport {
 public:
  explicit Routes(int ranks) : routes_(static_cast<std::size_t>(ranks)) {}

  /// `through` is shared by all its peers; `number` is the peer's number on that transport.
  void route(int peer, transport::Transport* through, int number) { routes_[static_cast<std::size_t>(peer)] = {through, number}; }
  bool is_unrouted(int peer) const { return routes_[static_cast<std::size_t>(peer)].through == nullptr; }
  /// Takes ownership of a transport that routes may name.
  void own(std::unique_ptr<transport::Transport> transport) { owned_.push_back(std::move(transport)); }

  /// True where some peer is reached by sockets, which are polled.
  bool has_sockets() const { return owned_.size() > (shm_ == nullptr ? 0u : 1u); }

  /// The one of shared memory, which lends its slots to other communicators between calls; must be owned.
  void share_with(transport::ShmTransport* shm) { shm_ = shm; }
  /// True where shared memory leads to `peer`.
  bool is_shared(int peer) const { return shm_ != nullptr && routes_[static_cast<std::size_t>(peer)].through == shm_; }
  /// After a call that succeeded.
  void rest() {
    if (shm_ != nullptr) shm_->rest();
  }
  /// True when messages from `data` need not be copied for peers on this host.
  bool can_show(const std::byte* data, std::size_t bytes) { return shm_ != nullptr && shm_->can_show(data, bytes); }

  const char* name() const override { return owned_.empty() ? "none" : owned_.size() > 1 ? "shm+tcp" : owned_[0]->name(); }
  transport::Sender* sender(int peer, int channel) override {
    const Route& route = routes_[static_cast<std::size_t>(peer)];
    return route.through == nullptr ? nullptr : route.through->sender(route.number, channel);
  }
  transport::Receiver* receiver(int peer, int channel) override {
    const Route& route = routes_[static_cast<std::size_t>(peer)];
    return route.through == nullptr ? nullptr : route.through->receiver(route.number, channel);
  }
  Status health() override {
    for (const auto& transport : owned_) PEAL_TRY(transport->health());
    return {};
  }
  /// The last owned transport sleeps (a poll on sockets where there are any); with several, only briefly.
  void sleep(std::int64_t timeout_us) override {
    if (!owned_.empty()) owned_.back()->sleep(owned_.size() > 1 ? timeout_us / 4 + 1 : timeout_us);
  }
  /// Name of the transport that reaches `peer`, or "none".
  const char* name_of(int peer) const {
    const Route& route = routes_[static_cast<std::size_t>(peer)];
    return route.through == nullptr ? "none" : route.through->name();
  }

 private:
  struct Route {
    transport::Transport* through = nullptr;
    int number = -1;
  };
  std::vector<Route> routes_;
  transport::ShmTransport* shm_ = nullptr;
  std::vector<std::unique_ptr<transport::Transport>> owned_;
};

}  // namespace peal::comm
