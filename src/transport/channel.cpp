#include <base/copy.hpp>
#include <transport/channel.hpp>

namespace peal::transport {

void Sender::publish_from(const std::byte* data, std::size_t bytes, const Tag* tag) {
  if (bytes > 0) copy_bytes(acquire(bytes), data, bytes);
  publish(bytes, tag);
}

bool Sender::send_reference(const std::byte*, std::size_t, const Tag*, bool) { return false; }
bool Sender::send_shared(const std::byte*, std::size_t, const Tag*) { return false; }
void Sender::end_shared(const std::byte*) {}
bool Sender::can_show(const std::byte*, std::size_t) { return false; }
bool Sender::show(const std::byte*, std::size_t, const Tag*, std::byte*) { return false; }
bool Sender::show_theirs(const std::byte*, std::size_t, const Tag*) { return false; }

const Message* Receiver::peek_into(std::byte*, std::size_t) { return peek(); }

bool Receiver::receive(std::byte* data, std::size_t bytes, std::size_t* got, Tag* tag, bool* has_tag) {
  const Message* message = peek();
  if (message == nullptr) return false;
  *got = message->bytes;
  *has_tag = message->tag != nullptr;
  *tag = message->tag != nullptr ? *message->tag : Tag{};
  if (message->bytes <= bytes && message->bytes > 0) copy_bytes(data, message->data, message->bytes);
  release();
  return true;
}

}  // namespace peal::transport
