// Two ranks over one segment, both in this process.
#pragma once

#include <gtest/gtest.h>
#include <cstring>
#include <memory>
#include <transport/shm.hpp>
#include <utility>

namespace peal::transport {

struct Pair {
  ShmLayout layout;
  SharedSegment segment;
  std::unique_ptr<ShmTransport> zero, one;
  explicit Pair(ShmLayout wanted = ShmLayout::of(2)) : layout(wanted) {
    segment = std::move(*SharedSegment::create(layout.total_bytes(), "test"));
    zero = std::move(*ShmTransport::open(segment, layout, 0));
    one = std::move(*ShmTransport::open(segment, layout, 1));
  }
};

// A message in a slot, from `from` to `to`.
inline void pass_one(ShmTransport& from, ShmTransport& to) {
  const std::vector<std::byte> data(1000);
  ASSERT_TRUE(from.sender(to.rank())->send(data.data(), data.size(), nullptr));
  ASSERT_NE(to.receiver(from.rank())->peek(), nullptr);
  to.receiver(from.rank())->release();
}

}  // namespace peal::transport
