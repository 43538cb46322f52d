// Windows: memory of every rank that all ranks of the communicator reach with loads and stores; put, get, signal and wait on it.
#pragma once

#include <atomic>
#include <comm/core.hpp>
#include <memory>
#include <vector>

namespace peal::comm {

/// Copies within this process, past the caches where blocks are large. No overlap.
void copy_memory(void* destination, const void* source, std::size_t bytes);

class SharedWindow {
 public:
  static constexpr int kSignals = 64;  ///< signal numbers between two ranks

  /// Collective. `bytes` is the same on all ranks.
  static Result<std::unique_ptr<SharedWindow>> create(std::shared_ptr<Core> core, std::size_t bytes);

  std::byte* data(int rank) const { return segment_.data() + signals_bytes_ + static_cast<std::size_t>(rank) * stride_; }
  std::byte* own_data() const { return data(core_->rank()); }
  int ranks() const { return core_->size(); }
  std::size_t bytes() const { return bytes_; }
  Status put(int rank, std::size_t offset, const void* source, std::size_t bytes);
  Status get(int rank, std::size_t offset, void* destination, std::size_t bytes);
  Status signal(int rank, int index);
  Status wait(int from, int index, std::uint64_t count);
  /// Waits until some other rank has signalled `index` once more than earlier waits took, and takes that signal. Of several the first at or
  /// behind `first`, in turn. No rank leaves the communicator meanwhile.
  Result<int> wait_for_any(int first, int index);

 private:
  SharedWindow() = default;
  Status check(const char* verb, int rank, std::size_t offset, std::size_t bytes) const;
  /// The counter that `owner` holds for signals of `from`.
  std::atomic<std::uint64_t>& counter(int owner, int from, int index) const;

  std::shared_ptr<Core> core_;
  transport::SharedSegment segment_;
  std::size_t bytes_ = 0;
  std::size_t stride_ = 0;
  std::size_t signals_bytes_ = 0;
  std::vector<std::uint64_t> taken_;  // by rank and number: signals that earlier waits used up
};

}  // namespace peal::comm
