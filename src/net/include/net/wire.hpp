// Numbers and texts to little-endian bytes and back, for payloads of frames. The reader never reads past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace peal::net {

class WireWriter {
 public:
  WireWriter& u32(std::uint32_t v) { return number(v, 4); }
  WireWriter& u64(std::uint64_t v) { return number(v, 8); }
  /// Length (u32), then the bytes.
  WireWriter& text(std::string_view v) {
    u32(static_cast<std::uint32_t>(v.size()));
    out_.append(v);
    return *this;
  }
  WireWriter& raw(const void* data, std::size_t bytes) {
    out_.append(static_cast<const char*>(data), bytes);
    return *this;
  }
  const std::string& bytes() const { return out_; }

 private:
  WireWriter& number(std::uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>((v >> (8 * i)) & 0xff));
    return *this;
  }
  std::string out_;
};

/// After the first read past the end, or a text above its limit, `is_good` is false and every value is zero or empty.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : left_(bytes) {}
  explicit WireReader(std::span<const std::uint8_t> bytes) : left_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::string_view text(std::size_t limit) {
    const std::size_t bytes = u32();
    if (bytes > limit) is_good_ = false;
    return raw(bytes);
  }
  std::string_view raw(std::size_t bytes) {
    if (!is_good_ || left_.size() < bytes) {
      is_good_ = false;
      return {};
    }
    const auto found = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return found;
  }
  bool is_good() const { return is_good_; }
  /// Everything read, nothing left over, nothing wrong.
  bool is_finished() const { return is_good_ && left_.empty(); }

 private:
  std::uint64_t number(std::size_t bytes) {
    const auto found = raw(bytes);
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < found.size(); ++i) v |= std::uint64_t{static_cast<std::uint8_t>(found[i])} << (8 * i);
    return v;
  }
  std::string_view left_;
  bool is_good_ = true;
};

}  // namespace peal::net
