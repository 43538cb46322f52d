#include <unistd.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cstring>
#include <net/handshake.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>

#include "star.hpp"

namespace peal::bootstrap {
namespace {

constexpr std::int64_t kHandshakeNs = 10'000'000'000;
constexpr std::int64_t kPauseNs = 50'000'000;

tl::unexpected<Failure> root_is_missing(const Job& job, const Failure& why) {
  Failure out =
      fail(why.code == ErrorCode::timeout ? ErrorCode::unreachable : why.code, "rank {} could not reach rank {} of {} within {:g} s: {}",
           job.rank, job.hub, job.size, job.start_timeout_s, why.message)
          .value();
  out.rank = job.hub;
  out.peer = job.rank;
  return pass_on(std::move(out));
}

Result<FileDescriptor> try_root(const Job& job, std::int64_t deadline_ns) {
  PEAL_ASSIGN(FileDescriptor fd, net::connect_to(job.root, deadline_ns));
  if (job.root.is_unix()) PEAL_TRY(net::check_same_user(fd.get()));
  const net::Party mine{net::Role::member, static_cast<std::uint32_t>(job.rank), static_cast<std::uint32_t>(job.size), job.job_id,
                        job.wire_version};
  PEAL_TRY(net::connector_handshake(fd.get(), job.key.value_or(net::Key{}), mine, job.root.text(),
                                    std::min(deadline_ns, now_ns() + kHandshakeNs)));
  return fd;
}

/// A connection that is closed or starved before the verdict (the root sheds load when strangers flood it) is worth another try.
Result<FileDescriptor> reach_root(const Job& job) {
  const std::int64_t deadline_ns = net::deadline_in(job.start_timeout_s);
  for (;;) {
    auto fd = try_root(job, deadline_ns);
    if (fd) return fd;
    const bool is_passing = fd.error().code == ErrorCode::timeout || fd.error().code == ErrorCode::unreachable;
    if (!is_passing) return fd;
    // connect_to has used up the time itself, unless the host cannot be reached at all.
    if (now_ns() + kPauseNs >= deadline_ns || fd.error().message.starts_with("host unreachable")) return root_is_missing(job, fd.error());
    const timespec pause{0, kPauseNs};
    nanosleep(&pause, nullptr);
  }
}

Status take_table(Star& star, const net::Frame& frame) {
  net::WireReader in(frame.payload);
  star.session_id = in.u64();
  const std::string_view key = in.raw(sizeof(net::Key::bytes));
  const std::string_view contacts = in.text(frame.payload.size());
  if (!in.is_finished()) return fail(ErrorCode::corrupt, "the table of ranks from rank {} does not parse", star.job.hub);
  PEAL_ASSIGN(star.contacts, parse_contacts(contacts, star.job.size));
  if (star.job.key) {
    star.data_key = net::derive_key(*star.job.key, shared_key_purpose(star.session_id));
  } else {
    std::memcpy(star.data_key.bytes.data(), key.data(), key.size());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Star>> open_member(const Job& job, Contact mine) {
  auto star = std::make_unique<Star>();
  star->job = job;
  star->owner_pid = getpid();
  PEAL_ASSIGN(FileDescriptor fd, reach_root(job));
  star->links.resize(1);
  Link& link = star->links.front();
  link.rank = job.hub;
  link.fd = std::move(fd);
  link.from = job.root.text();
  link.reader.set_limit(frame_limit(job.size, false));
  if (job.root.is_ip()) PEAL_TRY(net::set_keepalive(link.fd.get(), 5, 5, 6));
  const std::int64_t deadline_ns = net::deadline_in(job.start_timeout_s + kGraceS);
  // When the root ends the start it may close before it has read this; its reason is then still there to be read.
  const Status sent = net::send_frame(link.fd.get(), static_cast<std::uint32_t>(Message::contact), encode(mine), deadline_ns);
  auto frame = link.reader.wait(link.fd.get(), deadline_ns);
  if (!frame) {
    Failure lost = fail(frame.error().code == ErrorCode::timeout ? ErrorCode::timeout : ErrorCode::rank_dead,
                        "rank {0} reached rank {1} at {2}, which then {3}: look at the output of rank {1}", job.rank, job.hub, link.from,
                        frame.error().code == ErrorCode::timeout ? "was silent (is it stopped?)" : "ended while the ranks were starting")
                       .value();
    lost.rank = job.hub;
    return pass_on(std::move(lost));
  }
  if (frame->type == static_cast<std::uint32_t>(Message::failure)) return pass_on(parse_failure(frame->payload, job.hub));
  PEAL_TRY(sent);
  if (frame->type != static_cast<std::uint32_t>(Message::table))
    return fail(ErrorCode::corrupt, "rank {} sent a message of type {} instead of the table of ranks", job.hub, frame->type);
  PEAL_TRY(take_table(*star, *frame));
  return star;
}

}  // namespace peal::bootstrap
