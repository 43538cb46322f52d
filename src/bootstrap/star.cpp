#include "star.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <net/socket.hpp>
#include <net/wire.hpp>

namespace peal::bootstrap {
namespace {

constexpr std::size_t kMaxSentence = 8192;
constexpr std::size_t kContactBytes = 4 + 4 + 8 + 4 + 4 * (4 + kMaxContactText);

}  // namespace

Star::~Star() {
  if (getpid() != owner_pid) return;
  for (Link& link : links)
    if (link.fd) ::shutdown(link.fd.get(), SHUT_RDWR);
}

Link* Star::find(int rank) {
  const auto found = std::find_if(links.begin(), links.end(), [rank](const Link& link) { return link.rank == rank; });
  return found == links.end() ? nullptr : &*found;
}

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    if (i != 0) out += i + 1 == ranks.size() ? " and " : ", ";
    out += std::to_string(ranks[i]);
  }
  if (ranks.size() > kShown) out += fmt::format(" and {} more", ranks.size() - kShown);
  return out;
}

std::size_t frame_limit(int size, bool is_root) {
  const std::size_t one = std::max(kMaxBlobBytes + 16, kContactBytes);
  return is_root ? one : static_cast<std::size_t>(size) * one + 128;
}

std::string shared_key_purpose(std::uint64_t session_id) { return fmt::format("data connections of session {:016x}", session_id); }

std::string encode_failure(const Failure& failure) {
  return net::WireWriter()
      .u32(static_cast<std::uint32_t>(failure.code))
      .u32(static_cast<std::uint32_t>(failure.rank))
      .text(std::string_view(failure.message).substr(0, kMaxSentence))
      .bytes();
}

Failure parse_failure(std::string_view payload, int from) {
  net::WireReader in(payload);
  Failure out;
  const std::uint32_t code = in.u32();
  out.rank = static_cast<int>(in.u32());
  out.message = in.text(kMaxSentence);
  const bool is_known = code > static_cast<std::uint32_t>(ErrorCode::ok) && code <= static_cast<std::uint32_t>(ErrorCode::internal);
  out.code = is_known ? static_cast<ErrorCode>(code) : ErrorCode::internal;
  if (!in.is_finished()) return {ErrorCode::corrupt, fmt::format("rank {} reports a failure that does not parse", from), from, -1, {}};
  return out;
}

void spread(std::vector<Link>& links, const Failure& failure) {
  const std::string bytes = net::frame_bytes(static_cast<std::uint32_t>(Message::failure), encode_failure(failure));
  for (Link& link : links) {
    if (!link.fd || link.is_gone) continue;
    link.out += bytes;
    (void)flush_now(link);
  }
}

}  // namespace peal::bootstrap
