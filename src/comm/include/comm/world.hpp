// The world: one rank's hold on its job. Contacts of all ranks, the control stars, the data listener, and the watch thread that learns
// of deaths, stops and faults elsewhere. All communicators of the rank share it.
#pragma once

#include <atomic>
#include <base/result.hpp>
#include <bootstrap/job.hpp>
#include <bootstrap/rendezvous.hpp>
#include <cstdint>
#include <executor/fault_board.hpp>
#include <executor/ways_found.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <transport/tcp.hpp>
#include <transport/user_segments.hpp>
#include <vector>

namespace peal::comm {

/// What the watch tells the communicators. Called on the watch thread; must not wait for other ranks (but 100 ms for one that ended while
/// it wrote on the fault board).
class FaultListener {
 public:
  virtual ~FaultListener() = default;
  virtual std::uint64_t id() const = 0;
  /// A rank of the world ended or stopped.
  virtual void on_rank_fault(int world_rank, ErrorCode code, const std::string& cause) = 0;
  /// A fault that a rank on another host recorded in this communicator.
  virtual void on_remote_fault(const executor::FaultRecord& fault) = 0;
  /// What a rank on another host, which has waited long for this one, is in.
  virtual void on_remote_call(int world_rank, const executor::CallSignature& call) = 0;
  /// True when this communicator needs to know about `world_rank` no more (it has left in order).
  virtual bool has_left(int world_rank) const = 0;
};

enum class TransportChoice : std::uint8_t { automatic, shm, tcp };

class World {
 public:
  /// Collective over the job. Opens a data listener when ranks are on several hosts or `choice` is tcp.
  static Result<std::shared_ptr<World>> join(const bootstrap::Job& job, TransportChoice choice);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(contacts_.size()); }
  const std::vector<bootstrap::Contact>& contacts() const { return contacts_; }
  bool is_local(int world_rank) const;
  bool is_on_my_machine(int world_rank) const;  ///< of one kernel, also in another container of it, which is a host of its own
  int ranks_on_host() const;                    ///< of the whole job, whatever groups they are in
  /// True where more ranks run on this machine than it has cores for them, also where containers of it are hosts of their own. The same on
  /// all ranks of the machine.
  bool shares_cores() const;
  /// This rank and that one are each bound to one core, and it is the same. (tuning::Environment::core_of guesses where they are not
  /// bound.)
  bool is_on_my_core(int world_rank) const;
  bool spans_hosts() const { return spans_hosts_; }
  TransportChoice choice() const { return choice_; }
  /// Null where no TCP is needed.
  transport::TcpListener* listener() const { return listener_.get(); }
  /// For blobs while the world is being made, before the watch starts.
  bootstrap::Rendezvous& rendezvous() { return *rendezvous_; }
  /// Differs from job to job and start to start.
  std::uint64_t session() const { return rendezvous_->session_id(); }
  /// "rank 3 (pid 4711 on node7)".
  std::string describe(int world_rank) const;

  /// Memory of the user's that ranks of this host share.
  const std::shared_ptr<transport::UserSegments>& user_segments() const { return user_segments_; }

  /// How slots to other ranks are best filled, as far as communicators of this process have found out.
  executor::WaysFound& ways_found() { return ways_found_; }

  /// Starts the watch; no rendezvous call after it.
  Status start_watch();
  void add(FaultListener* listener);
  void remove(FaultListener* listener);
  /// The first rank of the world that ended or stopped while somebody needed it; `rank` is its world rank. Any thread.
  std::optional<Failure> first_rank_fault() const;
  /// Tells the ranks on other hosts of a fault in communicator `id`.
  void tell(std::uint64_t id, const executor::FaultRecord& fault);
  /// Tells one rank on another host what this one is in, in communicator `id`. May get lost.
  void tell_call(int world_rank, std::uint64_t id, const executor::CallSignature& call);

 private:
  struct Watched {
    int world_rank = -1;
    FileDescriptor pidfd;
    int stopped_looks = 0;
    bool reported = false;
  };

  /// The way to a neighbour in one of the stars.
  struct NewsLink {
    bootstrap::Rendezvous* star = nullptr;
    bootstrap::ControlLink end;
  };

  /// A rank on another host whose control link has closed.
  struct Suspect {
    int world_rank = -1;
    std::int64_t since_ns = 0;
  };

  World() = default;
  Status open_doors(const bootstrap::Job& job);
  Status agree_on_second_star(int hub, Result<std::unique_ptr<bootstrap::Rendezvous>> star);
  void watch();
  void watch_ranks();
  void look_for_stopped();
  void judge_suspects();
  void read_control(const NewsLink& link);
  void take_news(int from, std::string_view bytes);
  /// Those that there are: one, or two on several hosts.
  std::vector<bootstrap::Rendezvous*> stars() const;
  void broadcast(std::uint64_t communicator, const executor::FaultRecord& fault);
  void report(int world_rank, ErrorCode code, const std::string& cause);

  int rank_ = 0;
  std::vector<bootstrap::Contact> contacts_;
  bool spans_hosts_ = false;
  TransportChoice choice_ = TransportChoice::automatic;
  std::unique_ptr<bootstrap::Rendezvous> rendezvous_;
  /// Carries news only, around a rank that is not on rank 0's host: so that a stopped rank 0 does not keep news from crossing hosts.
  /// Null on one host, and where it could not be opened.
  std::unique_ptr<bootstrap::Rendezvous> second_star_;
  std::unique_ptr<transport::TcpListener> listener_;
  std::shared_ptr<transport::UserSegments> user_segments_ = std::make_shared<transport::UserSegments>();
  executor::WaysFound ways_found_;
  mutable std::mutex mutex_;  // guards listeners_ and first_fault_
  std::optional<Failure> first_fault_;
  std::vector<FaultListener*> listeners_;
  std::vector<Watched> watched_;
  std::vector<NewsLink> links_;
  std::vector<Suspect> suspects_;
  std::int64_t next_look_ns_ = 0;
  FileDescriptor wake_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace peal::comm
