#include <poll.h>

#include <base/clock.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>
#include <optional>

#include "star.hpp"

namespace peal::bootstrap {
namespace {

Failure lost_rank(const Star& star, int rank, const char* what) {
  const Contact& who = star.contacts[static_cast<std::size_t>(rank)];
  Failure out =
      fail(ErrorCode::rank_dead, "rank {} (pid {} on {}) {} while the ranks were exchanging addresses", rank, who.pid, who.host_name, what)
          .value();
  out.rank = rank;
  return out;
}

Failure wrong_frame(int rank, std::uint32_t type) {
  Failure out =
      fail(ErrorCode::mismatch,
           "rank {} sent a message of type {} while the ranks were exchanging addresses: do all ranks make the same calls?", rank, type)
          .value();
  out.rank = rank;
  return out;
}

/// News of faults and farewells may come at any time: news is kept for receive_control, a farewell ends the exchange.
Status keep_or_refuse(const Star& star, Link& link, const net::Frame& frame) {
  if (frame.type == static_cast<std::uint32_t>(Message::failure)) return pass_on(parse_failure(frame.payload, link.rank));
  if (frame.type == static_cast<std::uint32_t>(Message::goodbye)) {
    link.has_said_goodbye = true;
    return pass_on(lost_rank(star, link.rank, "left"));
  }
  if (frame.type != static_cast<std::uint32_t>(Message::control)) return pass_on(wrong_frame(link.rank, frame.type));
  link.pending.push_back(frame.payload);
  return {};
}

class RootGather {
 public:
  RootGather(Star& star, std::string mine) : star_(star), blobs_(static_cast<std::size_t>(star.job.size)) {
    blobs_[static_cast<std::size_t>(star.job.rank)] = std::move(mine);
    deadline_ns_ = net::deadline_in(star.job.start_timeout_s);
  }

  Result<std::vector<std::string>> run() {
    auto status = collect();
    if (status) status = hand_out();
    if (!status) {
      spread(star_.links, status.error());
      return pass_on(std::move(status).error());
    }
    std::vector<std::string> out;
    for (auto& blob : blobs_) out.push_back(std::move(*blob));
    return out;
  }

 private:
  Status collect() {
    for (;;) {
      std::vector<pollfd> set;
      for (Link& link : star_.links) {
        if (blobs_[static_cast<std::size_t>(link.rank)]) continue;
        PEAL_TRY(hear(link));
        if (!blobs_[static_cast<std::size_t>(link.rank)]) set.push_back({link.fd.get(), POLLIN, 0});
      }
      if (set.empty()) return {};
      if (now_ns() >= deadline_ns_) return name_missing();
      (void)::poll(set.data(), set.size(), net::poll_milliseconds(deadline_ns_));
    }
  }

  Status hear(Link& link) {
    auto& mine = blobs_[static_cast<std::size_t>(link.rank)];
    while (!mine) {
      PEAL_ASSIGN(auto frame, link.reader.next(link.fd.get()));
      if (!frame && link.reader.is_closed()) {
        link.is_gone = true;
        return pass_on(lost_rank(star_, link.rank, "ended"));
      }
      if (!frame) return {};
      if (frame->type != static_cast<std::uint32_t>(Message::blob)) {
        PEAL_TRY(keep_or_refuse(star_, link, *frame));
        continue;
      }
      net::WireReader in(frame->payload);
      const std::uint32_t sequence = in.u32();
      const std::string_view bytes = in.text(kMaxBlobBytes);
      if (!in.is_finished() || sequence != star_.gathers) return pass_on(wrong_frame(link.rank, frame->type));
      mine = std::string(bytes);
    }
    return {};
  }

  Status name_missing() {
    std::vector<int> missing;
    for (std::size_t rank = 0; rank < blobs_.size(); ++rank)
      if (!blobs_[rank]) missing.push_back(static_cast<int>(rank));
    Failure late = fail(ErrorCode::timeout, "{} of {} did not take part in the exchange of addresses within {:g} s: look at their output",
                        name_ranks(missing), star_.job.size, star_.job.start_timeout_s)
                       .value();
    late.rank = missing.front();
    return pass_on(std::move(late));
  }

  Status hand_out() {
    net::WireWriter all;
    all.u32(star_.gathers);
    for (const auto& blob : blobs_) all.text(*blob);
    for (Link& link : star_.links) {
      link.out += net::frame_bytes(static_cast<std::uint32_t>(Message::blobs), all.bytes());
      if (!flush_before(link, deadline_ns_)) {
        link.is_gone = true;
        return pass_on(lost_rank(star_, link.rank, "was lost"));
      }
    }
    return {};
  }

  Star& star_;
  std::vector<std::optional<std::string>> blobs_;
  std::int64_t deadline_ns_;
};

Result<std::vector<std::string>> parse_blobs(const Star& star, std::string_view payload) {
  net::WireReader in(payload);
  const std::uint32_t sequence = in.u32();
  std::vector<std::string> out;
  for (int rank = 0; rank < star.job.size; ++rank) out.emplace_back(in.text(kMaxBlobBytes));
  if (!in.is_finished() || sequence != star.gathers)
    return fail(ErrorCode::corrupt, "an exchange of addresses from rank {} does not parse", star.job.hub);
  return out;
}

Result<std::vector<std::string>> member_gather(Star& star, const std::string& blob) {
  Link& root = star.links.front();
  const std::int64_t deadline_ns = net::deadline_in(star.job.start_timeout_s + kGraceS);
  root.out += net::frame_bytes(static_cast<std::uint32_t>(Message::blob), net::WireWriter().u32(star.gathers).text(blob).bytes());
  // The root may have ended the exchange with a reason that is still to be read.
  const Status sent = flush_before(root, deadline_ns);
  for (;;) {
    auto frame = root.reader.wait(root.fd.get(), deadline_ns);
    if (!frame && frame.error().code == ErrorCode::timeout)
      return fail(ErrorCode::timeout, "rank {} did not answer in the exchange of addresses within {:g} s: is it stopped?", root.rank,
                  star.job.start_timeout_s);
    if (!frame && frame.error().code == ErrorCode::unreachable) {
      root.is_gone = true;
      return pass_on(lost_rank(star, root.rank, "ended"));
    }
    if (!frame) return pass_on(std::move(frame).error());
    if (frame->type == static_cast<std::uint32_t>(Message::blobs)) {
      PEAL_TRY(sent);
      return parse_blobs(star, frame->payload);
    }
    PEAL_TRY(keep_or_refuse(star, root, *frame));
  }
}

}  // namespace

Result<std::vector<std::string>> gather(Star& star, std::string blob) {
  if (blob.size() > kMaxBlobBytes)
    return fail(ErrorCode::invalid_argument, "a blob of {} bytes for an exchange of addresses: the limit is {}", blob.size(),
                kMaxBlobBytes);
  ++star.gathers;
  if (star.is_root()) return RootGather(star, std::move(blob)).run();
  return member_gather(star, blob);
}

}  // namespace peal::bootstrap
