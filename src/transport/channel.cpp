#include <algorithm>
#include <base/copy.hpp>
#include <transport/channel.hpp>

namespace peal::transport {

std::size_t bytes_of(std::span<const Run> runs) {
  std::size_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return bytes;
}

void scatter(std::span<const Run> runs, const std::byte* data, std::size_t begin, std::size_t bytes) {
  for (const Run& run : runs) {
    const std::size_t here = begin < run.bytes ? std::min(run.bytes - begin, bytes) : 0;
    if (here > 0) copy_bytes(run.data + begin, data, here);
    begin -= std::min(begin, run.bytes);
    data += here;
    bytes -= here;
  }
}

void Sender::publish_from(const std::byte* data, std::size_t bytes, const Tag* tag) {
  if (bytes > 0) copy_bytes(acquire(bytes), data, bytes);
  publish(bytes, tag);
}

void Sender::publish_runs(std::byte* room, std::span<const Run> runs, std::size_t bytes, const Tag* tag) {
  for (const Run& run : runs) {
    if (run.bytes > 0) copy_bytes(room, run.data, run.bytes);
    room += run.bytes;
  }
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
  const Run run{data, std::min(bytes, message->bytes)};
  return receive_runs({&run, 1}, got, tag, has_tag);
}

bool Receiver::receive_runs(std::span<const Run> runs, std::size_t* got, Tag* tag, bool* has_tag) {
  const Message* message = peek();
  if (message == nullptr) return false;
  *got = message->bytes;
  *has_tag = message->tag != nullptr;
  *tag = message->tag != nullptr ? *message->tag : Tag{};
  if (message->bytes == bytes_of(runs)) scatter(runs, message->data, 0, message->bytes);
  release();
  return true;
}

}  // namespace peal::transport
