#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/file_descriptor.hpp>
#include <base/write_all.hpp>
#include <cerrno>
#include <net/key.hpp>

namespace peal::net {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_digits(std::string_view text, Key& key) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  if (text.size() != 2 * key.bytes.size()) return false;
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

/// At most `limit` bytes; a pipe is read to its end.
Result<std::string> read_some(int fd, std::size_t limit, const std::string& path) {
  std::string out(limit, '\0');
  std::size_t got = 0;
  while (got < limit) {
    const ssize_t n = ::read(fd, out.data() + got, limit - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::system, "cannot read the key file {}: {}", path, errno_text(errno));
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  out.resize(got);
  return out;
}

}  // namespace

Result<Key> read_key_file(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail(ErrorCode::invalid_argument, "cannot open the key file {}: {}", path, errno_text(errno));
  struct stat found {};
  if (fstat(fd.get(), &found) != 0) return fail(ErrorCode::system, "cannot look at the key file {}: {}", path, errno_text(errno));
  const bool is_pipe = S_ISFIFO(found.st_mode);
  if (!S_ISREG(found.st_mode) && !is_pipe) return fail(ErrorCode::invalid_argument, "the key file {} is neither a file nor a pipe", path);
  if (!is_pipe && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return fail(ErrorCode::refused, "the key file {} can be read or written by others (mode {:o}): type `chmod 600 {}`", path,
                found.st_mode & 0777u, path);
  if (!is_pipe && found.st_uid != geteuid() && found.st_uid != 0)
    return fail(ErrorCode::refused, "the key file {} belongs to user {}, this process to user {}: use a key file of your own", path,
                found.st_uid, geteuid());
  Key key;
  PEAL_ASSIGN(const std::string text, read_some(fd.get(), 2 * key.bytes.size() + 8, path));
  if (text.size() == key.bytes.size()) {
    for (std::size_t i = 0; i < text.size(); ++i) key.bytes[i] = static_cast<std::uint8_t>(text[i]);
    return key;
  }
  if (parse_digits(text, key)) return key;
  return fail(ErrorCode::corrupt,
              "the key file {} holds no key: it must have 64 hexadecimal digits; make one with `openssl rand -hex 32 > {}`", path, path);
}

Status write_key_file(const std::string& path, const Key& key) {
  const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(ErrorCode::system, "cannot create the key file {}: {}", path, errno_text(errno));
  std::string text;
  for (const std::uint8_t byte : key.bytes) text += fmt::format("{:02x}", byte);
  text += '\n';
  return write_all(fd.get(), text.data(), text.size(), "the key file " + path);
}

}  // namespace peal::net
