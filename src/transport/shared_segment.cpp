#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <base/units.hpp>
#include <cerrno>
#include <transport/shared_segment.hpp>
#include <utility>

namespace peal::transport {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

Result<std::byte*> map_shared(int fd, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) {
    const int error = errno;
    return fail(ErrorCode::system, "cannot map a shared segment of {}: {}. A limit on address space is likely: see `ulimit -v`.",
                to_text(Bytes{bytes}), errno_text(error));
  }
  return static_cast<std::byte*>(at);
}

}  // namespace

std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = page_bytes();
  if (bytes == 0 || bytes > SIZE_MAX / 4) return 0;
  return (bytes + page - 1) / page * page;
}

Result<SharedSegment> SharedSegment::create(std::size_t bytes, const char* label) {
  const std::size_t size = whole_pages(bytes);
  if (size == 0) return fail(ErrorCode::invalid_argument, "a shared segment of {} bytes cannot be made", bytes);
  FileDescriptor fd(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) {
    const int error = errno;
    return fail(ErrorCode::system, "cannot create shared memory (memfd_create): {}. Too many open files? See `ulimit -n`.",
                errno_text(error));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    const int error = errno;
    return fail(ErrorCode::system, "cannot size a shared segment to {}: {}. A limit on file size is likely: see `ulimit -f`.",
                to_text(Bytes{size}), errno_text(error));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    const int error = errno;
    return fail(ErrorCode::system, "cannot seal a shared segment: {}", errno_text(error));
  }
  SharedSegment segment;
  PEAL_ASSIGN(segment.data_, map_shared(fd.get(), size));
  segment.fd_ = std::move(fd);
  segment.bytes_ = size;
  return segment;
}

Result<SharedSegment> SharedSegment::map(FileDescriptor fd, std::size_t bytes, std::size_t allocated) {
  const std::size_t size = whole_pages(bytes);
  if (size == 0) return fail(ErrorCode::invalid_argument, "a shared segment of {} bytes cannot be mapped", bytes);
  // Unsealed memory could be cut off under our feet, and the next touch would be a SIGBUS.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return fail(ErrorCode::corrupt, "the descriptor that came as shared memory is not a sealed memfd; it is not used");
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size != static_cast<off_t>(size)) {
    return fail(ErrorCode::corrupt,
                "the shared segment that came has {} bytes, but {} were announced; do all ranks run the same version of Peal?",
                static_cast<long long>(info.st_size), size);
  }
  SharedSegment segment;
  PEAL_ASSIGN(segment.data_, map_shared(fd.get(), size));
  segment.fd_ = std::move(fd);
  segment.bytes_ = size;
  segment.allocated_ = allocated;
  return segment;
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      allocated_(std::exchange(other.allocated_, 0)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    allocated_ = std::exchange(other.allocated_, 0);
  }
  return *this;
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Status SharedSegment::allocate(std::size_t offset, std::size_t length) {
  if (offset > bytes_ || length > bytes_ - offset) {
    return fail(ErrorCode::internal, "range {} + {} lies outside a shared segment of {} bytes", offset, length, bytes_);
  }
  const std::atomic_ref known(allocated_);  // threads that are ranks may share one mapping
  if (length == 0 || offset + length <= known.load(std::memory_order_relaxed)) return {};
  int error = 0;
  do {
    error = ::fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0) {
    return fail(ErrorCode::system,
                "no memory for {} of a shared segment: {}. Shared memory counts against the container's memory limit: "
                "see memory.max of its cgroup, and `free -m`.",
                to_text(Bytes{length}), errno_text(error));
  }
  if (offset == 0) known.store(length, std::memory_order_relaxed);
  return {};
}

Status SharedSegment::discard(std::size_t offset, std::size_t length) {
  const auto at = static_cast<off_t>(offset);
  if (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, static_cast<off_t>(length)) == 0) return {};
  return fail(ErrorCode::system, "cannot give back {} of a shared segment: {}", to_text(Bytes{length}), errno_text(errno));
}

}  // namespace peal::transport
