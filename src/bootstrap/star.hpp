// The connections of a rendezvous: from the hub to everybody. Private to the room.
#pragma once

#include <base/file_descriptor.hpp>
#include <bootstrap/rendezvous.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <net/frame.hpp>
#include <string>
#include <vector>

namespace peal::bootstrap {

/// The root names who is missing when its time is up; those who came wait a little longer than it does, to hear it.
inline constexpr double kGraceS = 5;

/// Types of the frames on the star. Part of the wire version.
enum class Message : std::uint32_t {
  contact = 1,  ///< member to root: a Contact
  table = 2,    ///< root to member: session id, data key, all Contacts
  failure = 3,  ///< code, culprit, sentence: the start-up or the gathering has failed
  blob = 4,     ///< member to root: sequence, bytes
  blobs = 5,    ///< root to member: sequence, everybody's bytes
  control = 6,  ///< from, to, bytes
  goodbye = 7
};

struct Link {
  int rank = -1;
  FileDescriptor fd;
  net::FrameReader reader;
  std::string from;                 ///< address or pid, for messages
  std::string out;                  ///< what the kernel has not taken yet
  std::deque<std::string> pending;  ///< payloads of control messages that came while something else was awaited
  bool has_said_goodbye = false;
  bool is_gone = false;
};

class Star {
 public:
  ~Star();

  Job job;
  std::vector<Contact> contacts;
  net::Key data_key;
  std::uint64_t session_id = 0;
  std::vector<std::string> notes;
  std::vector<Link> links;  ///< root: everybody else in rank order; member: the root
  std::uint32_t gathers = 0;
  std::mutex control;
  int owner_pid = 0;  ///< a forked child must not shut its parent's connections

  bool is_root() const { return job.rank == job.hub; }
  Link* find(int rank);
};

// open_root.cpp, open_member.cpp
/// `listener` may be empty: then it listens at job.root itself.
Result<std::unique_ptr<Star>> open_root(const Job& job, Contact mine, FileDescriptor listener);
Result<std::unique_ptr<Star>> open_member(const Job& job, Contact mine);
/// "rank 3", "ranks 3 and 5", "ranks 1, 2, ... (40 ranks)".
std::string name_ranks(const std::vector<int>& ranks);
std::size_t frame_limit(int size, bool is_root);
std::string shared_key_purpose(std::uint64_t session_id);

std::string encode_failure(const Failure& failure);
Failure parse_failure(std::string_view payload, int from);
/// Lets everybody on the star know why it ends; never waits.
void spread(std::vector<Link>& links, const Failure& failure);

// gather.cpp
Result<std::vector<std::string>> gather(Star& star, std::string blob);

// control.cpp
/// Gives the kernel what it takes of `link.out`; `unreachable` when the other end is gone.
Status flush_now(Link& link);
Status flush_before(Link& link, std::int64_t deadline_ns);

}  // namespace peal::bootstrap
