#include "handles.hpp"

namespace peal {

void copy(void* destination, const void* source, std::size_t bytes) { comm::copy_memory(destination, source, bytes); }

Window::Window() = default;
Window::Window(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

namespace {
comm::SharedWindow& window_of(const std::unique_ptr<Window::Impl>& impl) {
  if (impl == nullptr) throw Error(ErrorCode::invalid_argument, "this window is empty: it was moved from or never made");
  return *impl->window;
}
}  // namespace

std::byte* Window::data() { return window_of(impl_).own_data(); }
std::size_t Window::bytes() const { return window_of(impl_).bytes(); }

std::byte* Window::data(int rank) {
  comm::SharedWindow& window = window_of(impl_);
  if (rank < 0 || rank >= window.ranks())
    throw Error(ErrorCode::invalid_argument, "window: there is no rank " + std::to_string(rank), rank);
  return window.data(rank);
}

void Window::put(int rank, std::size_t offset, const void* source, std::size_t bytes) {
  require(window_of(impl_).put(rank, offset, source, bytes));
}
void Window::get(int rank, std::size_t offset, void* destination, std::size_t bytes) {
  require(window_of(impl_).get(rank, offset, destination, bytes));
}
void Window::signal(int rank, int index) { require(window_of(impl_).signal(rank, index)); }
void Window::wait(int from, int index, std::uint64_t count) { require(window_of(impl_).wait(from, index, count)); }

Memory::Memory() = default;
Memory::Memory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;
Memory::~Memory() = default;

std::byte* Memory::data() const { return impl_ == nullptr ? nullptr : impl_->buffer->data(); }
std::size_t Memory::bytes() const { return impl_ == nullptr ? 0 : impl_->buffer->bytes(); }

Memory allocate(Communicator& communicator, std::size_t bytes) {
  communicator.size();  // throws for an empty one
  return Memory(std::make_unique<Memory::Impl>(Memory::Impl{value_or_throw(comm::SharedBuffer::create(*communicator.impl().core, bytes))}));
}

}  // namespace peal
