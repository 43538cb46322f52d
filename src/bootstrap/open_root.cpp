#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <base/clock.hpp>
#include <net/acceptor.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>
#include <optional>

#include "star.hpp"

namespace peal::bootstrap {
namespace {

constexpr std::int64_t kContactTimeoutNs = 10'000'000'000;
constexpr std::int64_t kLingerNs = 2'000'000'000;
constexpr std::size_t kMaxNotes = 16;
/// Descriptors of the process that are not ours.
constexpr rlim_t kOtherDescriptors = 64 + net::kMaxHalfOpen;

/// One who has passed the handshake and has not said its contact yet.
struct Newcomer {
  Link link;
  std::int64_t deadline_ns = 0;
};

Status check_descriptor_limit(const Job& job) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t needed = static_cast<rlim_t>(job.size) + kOtherDescriptors;
  if (limit.rlim_cur >= needed) return {};
  return fail(ErrorCode::system, "rank {} needs about {} descriptors for {} ranks and may have {}: type `ulimit -n {}` before the start",
              job.hub, needed, job.size, limit.rlim_cur, needed);
}

std::string describe(const Contact& c) { return fmt::format("pid {} on {}", c.pid, c.host_name); }

class Gathering {
 public:
  Gathering(Star& star, FileDescriptor listener, const Contact& mine)
      : star_(star),
        deadline_ns_(net::deadline_in(star.job.start_timeout_s)),
        acceptor_(std::move(listener), star.job.key.value_or(net::Key{}),
                  net::Party{net::Role::root, static_cast<std::uint32_t>(star.job.hub), static_cast<std::uint32_t>(star.job.size),
                             star.job.job_id, star.job.wire_version}) {
    came_.resize(static_cast<std::size_t>(star.job.size));
    came_[static_cast<std::size_t>(star.job.hub)] = mine;
    star_.links.resize(came_.size() - 1);
  }

  Status run() {
    auto status = collect();
    if (!status) {
      spread(star_.links, status.error());
      tell_latecomers(status.error());
      return status;
    }
    for (const auto& contact : came_) star_.contacts.push_back(*contact);
    return {};
  }

 private:
  Status collect() {
    while (count_ < star_.job.size) {
      for (auto& admitted : acceptor_.advance()) welcome(std::move(admitted));
      PEAL_TRY(judge_refusals());
      PEAL_TRY(hear_newcomers());
      PEAL_TRY(watch_members());
      if (count_ == star_.job.size) break;
      if (now_ns() >= deadline_ns_) return name_missing();
      sleep();
    }
    return {};
  }

  /// Those who are on their way hear the reason too, instead of finding nobody.
  void tell_latecomers(const Failure& failure) {
    const std::int64_t until_ns = std::min(deadline_ns_, now_ns() + kLingerNs);
    int told = count_ - 1;
    for (;;) {
      std::erase_if(newcomers_, [](const Newcomer& one) { return !one.link.fd; });
      for (Newcomer& one : newcomers_) {
        one.link.out = net::frame_bytes(static_cast<std::uint32_t>(Message::failure), encode_failure(failure));
        (void)flush_now(one.link);
        ++told;
      }
      told_.insert(told_.end(), std::make_move_iterator(newcomers_.begin()), std::make_move_iterator(newcomers_.end()));
      newcomers_.clear();
      (void)judge_refusals();
      if (told + refused_ours_ >= star_.job.size - 1 || now_ns() >= until_ns) return;
      for (auto& admitted : acceptor_.wait(until_ns)) welcome(std::move(admitted));
    }
  }

  void welcome(net::Admitted admitted) {
    Newcomer one;
    one.link.rank = static_cast<int>(admitted.peer.rank);
    one.link.fd = std::move(admitted.fd);
    one.link.from = std::move(admitted.from);
    one.link.reader.set_limit(frame_limit(star_.job.size, true));
    one.deadline_ns = now_ns() + kContactTimeoutNs;
    newcomers_.push_back(std::move(one));
  }

  void note(std::string text) {
    if (star_.notes.size() < kMaxNotes) star_.notes.push_back(std::move(text));
  }

  /// Strangers are noted; one of ours who is wrong ends the start, because the job can never become whole.
  Status judge_refusals() {
    Status out;
    for (const net::Refusal& one : acceptor_.take_refusals()) {
      note(one.failure.message);
      // On a Unix socket the kernel vouches for the user, so another version there is a rank of ours.
      const bool is_ours = one.is_proven || (one.verdict == net::Verdict::wrong_version && star_.job.root.is_unix());
      if (!is_ours || one.verdict == net::Verdict::no_verdict) continue;
      ++refused_ours_;
      if (out) out = pass_on(one.failure);
    }
    return out;
  }

  Status hear_newcomers() {
    for (Newcomer& one : newcomers_) {
      auto frame = one.link.reader.next(one.link.fd.get());
      if (frame && *frame) {
        PEAL_TRY(take_contact(one, **frame));
      } else if (!frame || one.link.reader.is_closed() || now_ns() >= one.deadline_ns) {
        note(fmt::format("the connection of rank {} from {} ended before it said who it is", one.link.rank, one.link.from));
        one.link.fd.reset();
      }
    }
    std::erase_if(newcomers_, [](const Newcomer& one) { return !one.link.fd; });
    return {};
  }

  Status take_contact(Newcomer& one, const net::Frame& frame) {
    if (frame.type != static_cast<std::uint32_t>(Message::contact))
      return fail(ErrorCode::corrupt, "rank {} at {} sent a message of type {} instead of its contact", one.link.rank, one.link.from,
                  frame.type);
    PEAL_ASSIGN(Contact contact, parse_contact(frame.payload));
    if (contact.rank != one.link.rank)
      return fail(ErrorCode::corrupt, "rank {} at {} handed in the contact of rank {}", one.link.rank, one.link.from, contact.rank);
    const auto at = static_cast<std::size_t>(contact.rank);
    if (came_[at]) {
      Failure twice = fail(ErrorCode::mismatch, "two processes say that they are rank {} of {}: {} and {}; give every process its own rank",
                           contact.rank, star_.job.size, describe(*came_[at]), describe(contact))
                          .value();
      twice.rank = contact.rank;
      return pass_on(std::move(twice));
    }
    came_[at] = std::move(contact);
    star_.links[one.link.rank < star_.job.hub ? at : at - 1] = std::move(one.link);
    one.link.fd.reset();
    ++count_;
    return {};
  }

  /// One who came and went will not come again.
  Status watch_members() {
    for (Link& link : star_.links) {
      if (!link.fd) continue;
      auto frame = link.reader.next(link.fd.get());
      if (frame && !*frame && !link.reader.is_closed()) continue;
      link.is_gone = true;
      const Contact& who = *came_[static_cast<std::size_t>(link.rank)];
      Failure gone =
          fail(ErrorCode::rank_dead, "rank {} ({}) came and ended again while the other ranks were starting: look at its own output",
               link.rank, describe(who))
              .value();
      gone.rank = link.rank;
      return pass_on(std::move(gone));
    }
    return {};
  }

  Status name_missing() {
    std::vector<int> missing;
    for (std::size_t rank = 0; rank < came_.size(); ++rank)
      if (!came_[rank]) missing.push_back(static_cast<int>(rank));
    std::string turned_away;
    if (!star_.notes.empty())
      turned_away =
          fmt::format("; {} connections were turned away, one of them because: {}", acceptor_.refused_count(), star_.notes.front());
    Failure absent = fail(ErrorCode::unreachable,
                          "{} of {} did not come within {:g} s: never started, ended, or without a way to {}; look at {} output, or raise "
                          "PEAL_START_TIMEOUT{}",
                          name_ranks(missing), star_.job.size, star_.job.start_timeout_s, star_.job.root.text(),
                          missing.size() == 1 ? "its" : "their", turned_away)
                         .value();
    absent.rank = missing.front();
    return pass_on(std::move(absent));
  }

  void sleep() {
    std::vector<pollfd> set;
    acceptor_.add_poll(set);
    std::int64_t wake = std::min(deadline_ns_, acceptor_.wake_ns());
    for (const Newcomer& one : newcomers_) {
      set.push_back({one.link.fd.get(), POLLIN, 0});
      wake = std::min(wake, one.deadline_ns);
    }
    for (const Link& link : star_.links)
      if (link.fd) set.push_back({link.fd.get(), POLLIN, 0});
    (void)::poll(set.data(), set.size(), net::poll_milliseconds(wake));
  }

  Star& star_;
  std::int64_t deadline_ns_;
  net::Acceptor acceptor_;
  std::vector<std::optional<Contact>> came_;
  std::vector<Newcomer> newcomers_;
  std::vector<Newcomer> told_;  ///< kept open until the end, so that what they were told is not cut off
  int count_ = 1;
  int refused_ours_ = 0;  ///< they have heard why from the handshake
};

Status hand_out_table(Star& star) {
  net::Key sent;
  if (star.job.key) {
    star.data_key = net::derive_key(*star.job.key, shared_key_purpose(star.session_id));
  } else {
    // Only on a Unix socket (check() holds that), so the key does not leave this host.
    star.data_key = sent = net::make_key();
  }
  const std::string table =
      net::WireWriter().u64(star.session_id).raw(sent.bytes.data(), sent.bytes.size()).text(encode(star.contacts)).bytes();
  const std::int64_t deadline_ns = net::deadline_in(star.job.start_timeout_s);
  for (Link& link : star.links) {
    if (auto sent_table = net::send_frame(link.fd.get(), static_cast<std::uint32_t>(Message::table), table, deadline_ns); !sent_table) {
      Failure lost = fail(ErrorCode::rank_dead, "rank {} ({}) was lost while the ranks were starting: {}", link.rank, link.from,
                          sent_table.error().message)
                         .value();
      lost.rank = link.rank;
      link.is_gone = true;
      spread(star.links, lost);
      return pass_on(std::move(lost));
    }
  }
  return {};
}

}  // namespace

Result<FileDescriptor> Rendezvous::listen(const Job& job) {
  PEAL_TRY(check_descriptor_limit(job));
  return net::listen_on(job.root);
}

Result<std::unique_ptr<Star>> open_root(const Job& job, Contact mine, FileDescriptor listener) {
  auto star = std::make_unique<Star>();
  star->job = job;
  star->owner_pid = getpid();
  std::array<std::uint8_t, 8> word{};
  net::fill_random(word);
  star->session_id = net::WireReader(std::span<const std::uint8_t>(word)).u64();
  if (job.size == 1) {
    star->contacts = {std::move(mine)};
    star->data_key = job.key.value_or(net::make_key());
    return star;
  }
  if (!listener) {
    PEAL_ASSIGN(listener, Rendezvous::listen(job));
  }
  {
    Gathering gathering(*star, std::move(listener), mine);
    PEAL_TRY(gathering.run());
  }
  if (job.root.is_ip())
    for (Link& link : star->links) PEAL_TRY(net::set_keepalive(link.fd.get(), 5, 5, 6));
  PEAL_TRY(hand_out_table(*star));
  return star;
}

}  // namespace peal::bootstrap
