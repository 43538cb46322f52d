// A list that is mostly short: the first few lie in the object itself, so that to look at them costs no further access to memory. For plain
// data.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace peal::sim {

template <class T, std::uint32_t kInside>
class ShortList {
 public:
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  ShortList() = default;
  ShortList(const ShortList& other) { *this = other; }
  ShortList(ShortList&& other) noexcept : size_(other.size_), room_(other.room_) {
    std::memcpy(&inside_, &other.inside_, sizeof inside_);
    other.size_ = 0;
    other.room_ = kInside;
  }
  ShortList& operator=(const ShortList& other) {
    if (this == &other) return *this;
    clear();
    for (const T& value : other) push_back(value);
    return *this;
  }
  ShortList& operator=(ShortList&&) = delete;
  ~ShortList() {
    if (room_ > kInside) delete[] outside_;
  }

  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return room_ > kInside ? outside_ : inside_; }
  const T* begin() const { return room_ > kInside ? outside_ : inside_; }
  T* end() { return begin() + size_; }
  const T* end() const { return begin() + size_; }
  T& operator[](std::size_t i) { return begin()[i]; }
  const T& operator[](std::size_t i) const { return begin()[i]; }
  T& back() { return begin()[size_ - 1]; }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void push_back(const T& value) {
    if (size_ == room_) grow();
    begin()[size_++] = value;
  }

 private:
  void grow() {
    T* larger = new T[2 * std::size_t{room_}];
    std::memcpy(larger, begin(), size_ * sizeof(T));
    if (room_ > kInside) delete[] outside_;
    outside_ = larger;
    room_ *= 2;
  }

  std::uint32_t size_ = 0;
  std::uint32_t room_ = kInside;
  union {
    T inside_[kInside];
    T* outside_;
  };
};

}  // namespace peal::sim
