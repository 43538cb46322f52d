// Channels that are always ready and move nothing. In a file of its own so that no compiler sees through the virtual calls of whoever
// measures them.
#pragma once

#include <memory>
#include <transport/channel.hpp>

namespace peal::executor {

class ReadyTransport final : public transport::Transport {
 public:
  ReadyTransport();
  ~ReadyTransport() override;
  const char* name() const override { return "ready"; }
  transport::Sender* sender(int peer, int channel) override;
  transport::Receiver* receiver(int peer, int channel) override;
  Status health() override { return {}; }
  void sleep(std::int64_t) override {}
  /// The next message received carries this tag, the ones after it none.
  void begin(const transport::Tag& tag);
  /// From now on every message received carries this tag, numbered from 1.
  void begin_pairs(const transport::Tag& tag);

 private:
  struct Ends;
  std::unique_ptr<Ends> ends_;
};

}  // namespace peal::executor
