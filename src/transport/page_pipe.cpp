#include <fcntl.h>
#include <signal.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <transport/page_pipe.hpp>

namespace peal::transport {
namespace {

constexpr int kWantedRoom = 1024 * 1024;  // what the kernel gives everyone (fs.pipe-max-size); it may give less

// A splice into a socket that its other end has closed raises SIGPIPE, and no flag keeps it from that.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t waiting;
    sigemptyset(&only_);
    sigaddset(&only_, SIGPIPE);
    was_waiting_ = sigpending(&waiting) == 0 && sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec at_once{};
    if (has_come && !was_waiting_)
      while (sigtimedwait(&only_, nullptr, &at_once) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  bool has_come = false;

 private:
  sigset_t only_{}, before_{};
  bool was_waiting_ = false;
};

bool is_full(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS; }

}  // namespace

bool PagePipe::open() {
  if (room_ > 0) return true;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  out_ = FileDescriptor(ends[0]);
  in_ = FileDescriptor(ends[1]);
  (void)::fcntl(in_.get(), F_SETPIPE_SZ, kWantedRoom);
  const int room = ::fcntl(in_.get(), F_GETPIPE_SZ);
  room_ = room > 0 ? static_cast<std::size_t>(room) : 0;
  return room_ > 0;
}

PagePipe::Outcome PagePipe::move(int socket, const std::byte* data, std::size_t bytes, Progress& progress) {
  error_ = 0;
  if (!open()) {
    error_ = errno;
    return Outcome::refused;
  }
  WithoutSigpipe guard;
  bool is_refused = false;
  while (progress.written < bytes) {
    const std::size_t held = progress.lent - progress.written;
    if (progress.lent < bytes && held < room_ && !is_refused) {
      const iovec pages{const_cast<std::byte*>(data) + progress.lent, std::min(bytes - progress.lent, room_ - held)};
      const ssize_t lent = ::vmsplice(in_.get(), &pages, 1, SPLICE_F_NONBLOCK);
      if (lent < 0 && errno == EINTR) continue;
      if (lent > 0) progress.lent += static_cast<std::size_t>(lent);
      if (lent < 0 && !is_full(errno)) {
        is_refused = true;
        error_ = errno;
      }
    }
    if (progress.lent == progress.written) return Outcome::refused;
    const unsigned flags = SPLICE_F_NONBLOCK | (progress.lent < bytes ? SPLICE_F_MORE : 0u);
    const ssize_t moved = ::splice(out_.get(), nullptr, socket, nullptr, progress.lent - progress.written, flags);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && is_full(errno)) return Outcome::full;
    if (moved <= 0) {
      error_ = moved < 0 ? errno : EPIPE;
      guard.has_come = error_ == EPIPE;
      return Outcome::lost;
    }
    progress.written += static_cast<std::size_t>(moved);
  }
  return Outcome::moved;
}

}  // namespace peal::transport
