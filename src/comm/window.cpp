#include <comm/window.hpp>
#include <reduce/copy.hpp>

namespace peal::comm {

namespace {
constexpr std::size_t kMostWindowBytes = std::size_t{1} << 46;
}  // namespace

Result<std::unique_ptr<SharedWindow>> SharedWindow::create(std::shared_ptr<Core> core, std::size_t bytes) {
  if (bytes > kMostWindowBytes) return fail(ErrorCode::invalid_argument, "a window of {} bytes a rank is more than can be mapped", bytes);
  const auto ranks = static_cast<std::size_t>(core->size());
  std::unique_ptr<SharedWindow> window(new SharedWindow());
  window->bytes_ = bytes;
  window->stride_ = transport::whole_pages(bytes);
  window->signals_bytes_ = transport::whole_pages(ranks * ranks * kSignals * sizeof(std::uint64_t));
  PEAL_ASSIGN(window->segment_, core->share_segment(window->signals_bytes_, bytes, "peal-window"));
  window->taken_.assign(ranks * kSignals, 0);
  window->core_ = std::move(core);
  return window;
}

Status SharedWindow::check(const char* verb, int rank, std::size_t offset, std::size_t bytes) const {
  if (rank < 0 || rank >= core_->size())
    return fail(ErrorCode::invalid_argument, "{}: rank {} is not a rank of a communicator of {}; give 0 to {}", verb, rank, core_->size(),
                core_->size() - 1);
  if (bytes > bytes_ || offset > bytes_ - bytes)
    return fail(ErrorCode::invalid_argument, "{}: {} bytes at {} reach beyond the window of {} bytes", verb, bytes, offset, bytes_);
  return core_->fault();
}

void copy_memory(void* destination, const void* source, std::size_t bytes) {
  if (bytes > 0) reduce::copy(destination, source, bytes, reduce::stores_for(bytes));
}

Status SharedWindow::put(int rank, std::size_t offset, const void* source, std::size_t bytes) {
  PEAL_TRY(check("put", rank, offset, bytes));
  copy_memory(data(rank) + offset, source, bytes);
  return {};
}

Status SharedWindow::get(int rank, std::size_t offset, void* destination, std::size_t bytes) {
  PEAL_TRY(check("get", rank, offset, bytes));
  copy_memory(destination, data(rank) + offset, bytes);
  return {};
}

std::atomic<std::uint64_t>& SharedWindow::counter(int owner, int from, int index) const {
  const auto ranks = static_cast<std::size_t>(core_->size());
  const std::size_t at =
      (static_cast<std::size_t>(owner) * ranks + static_cast<std::size_t>(from)) * kSignals + static_cast<std::size_t>(index);
  return reinterpret_cast<std::atomic<std::uint64_t>*>(segment_.data())[at];
}

Status SharedWindow::signal(int rank, int index) {
  PEAL_TRY(check("signal", rank, 0, 0));
  if (index < 0 || index >= kSignals) return fail(ErrorCode::invalid_argument, "signal number {} is not in 0 to {}", index, kSignals - 1);
  counter(rank, core_->rank(), index).fetch_add(1, std::memory_order_acq_rel);
  return {};
}

Status SharedWindow::wait(int from, int index, std::uint64_t count) {
  PEAL_TRY(check("wait", from, 0, 0));
  if (index < 0 || index >= kSignals) return fail(ErrorCode::invalid_argument, "signal number {} is not in 0 to {}", index, kSignals - 1);
  std::uint64_t& taken = taken_[static_cast<std::size_t>(from) * kSignals + static_cast<std::size_t>(index)];
  std::atomic<std::uint64_t>& arrived = counter(core_->rank(), from, index);
  const std::uint64_t wanted = taken + count;
  PEAL_TRY(core_->wait_until([&] { return arrived.load(std::memory_order_acquire) >= wanted; },
                             [&] {
                               return Core::Awaited{from, fmt::format("signal {} of a window", index), "wait"};
                             }));
  taken = wanted;
  return {};
}

Result<int> SharedWindow::wait_for_any(int first, int index) {
  if (index < 0 || index >= kSignals) return fail(ErrorCode::invalid_argument, "signal number {} is not in 0 to {}", index, kSignals - 1);
  const int ranks = core_->size();
  int found = -1;
  const auto has_signalled = [&] {
    for (int i = 0; i < ranks && found < 0; ++i) {
      const int from = (first + i) % ranks;
      const std::uint64_t taken = taken_[static_cast<std::size_t>(from) * kSignals + static_cast<std::size_t>(index)];
      if (counter(core_->rank(), from, index).load(std::memory_order_acquire) > taken) found = from;
    }
    return found >= 0;
  };
  const int next = first % ranks == core_->rank() ? (first + 1) % ranks : first % ranks;
  PEAL_TRY(core_->wait_until(has_signalled, [&] { return Core::Awaited{next, fmt::format("signal {} of any rank", index), "wait"}; }));
  ++taken_[static_cast<std::size_t>(found) * kSignals + static_cast<std::size_t>(index)];
  return found;
}

}  // namespace peal::comm
