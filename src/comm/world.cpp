#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <base/clock.hpp>
#include <base/settings.hpp>
#include <comm/world.hpp>
#include <cstring>
#include <map>
#include <net/interfaces.hpp>

namespace peal::comm {

namespace {

constexpr std::int64_t kLookEveryNs = 1'000'000'000;
constexpr int kSuspectEveryMs = 20;
constexpr std::int64_t kSuspectNs = 200'000'000;
constexpr int kStoppedLooks = 2;          // so a rank that a debugger touches for a moment is not given up
constexpr std::size_t kMostWatched = 16;  // neighbours that one rank watches on its host: the fault board tells the others

// The news of a fault as it crosses the control stars.
struct FaultNews {
  std::uint64_t communicator;  // 0: a rank of the world ended or stopped
  executor::FaultRecord fault;
};

// What a rank that waits long is in, as it crosses them: told from the other by its length.
struct CallNews {
  std::uint64_t communicator;
  transport::Tag tag;
};
static_assert(sizeof(CallNews) != sizeof(FaultNews));

// 'R', 'S', 'T', ... or 0 when there is no such process.
char process_state(int pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  char text[512];
  const ssize_t got = ::read(file.get(), text, sizeof text - 1);
  if (got <= 0) return 0;
  text[got] = 0;
  const char* end = std::strrchr(text, ')');  // the name may hold anything
  return end != nullptr && end[1] == ' ' ? end[2] : '\0';
}

}  // namespace

bool World::is_local(int world_rank) const {
  return contacts_[static_cast<std::size_t>(world_rank)].host_identity == contacts_[static_cast<std::size_t>(rank_)].host_identity;
}

int World::ranks_on_host() const {
  int ranks = 0;
  for (int r = 0; r < size(); ++r) ranks += is_local(r) ? 1 : 0;
  return ranks;
}

bool World::shares_cores() const {
  std::map<std::uint64_t, int> ranks_on;
  for (int r = 0; r < size(); ++r)
    if (const bootstrap::Contact& c = contacts_[static_cast<std::size_t>(r)]; is_on_my_machine(r) && ++ranks_on[c.core_set] > c.cores)
      return true;
  return false;
}

bool World::is_on_my_machine(int world_rank) const {
  return contacts_[static_cast<std::size_t>(world_rank)].machine == contacts_[static_cast<std::size_t>(rank_)].machine;
}

bool World::is_on_my_core(int world_rank) const {
  const bootstrap::Contact& mine = contacts_[static_cast<std::size_t>(rank_)];
  const bootstrap::Contact& other = contacts_[static_cast<std::size_t>(world_rank)];
  return mine.cores == 1 && is_on_my_machine(world_rank) && other.core_set == mine.core_set;
}

std::string World::describe(int world_rank) const {
  const bootstrap::Contact& contact = contacts_[static_cast<std::size_t>(world_rank)];
  return fmt::format("rank {} (pid {} on {})", world_rank, contact.pid, contact.host_name);
}

namespace {

constexpr rlim_t kDescriptors = 1024;

// While a process has one thread its table of descriptors grows at once; afterwards whoever opens the one that is too many waits until no
// CPU can be looking at the old table, 10 to 20 ms. A communicator of one rank holds a descriptor, and there may be hundreds.
void reserve_descriptors(int any) {
  struct stat threads {};
  rlimit limit{};
  constexpr nlink_t kNoThreads = 2;
  if (::stat("/proc/self/task", &threads) != 0 || threads.st_nlink != kNoThreads + 1 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const FileDescriptor highest(::fcntl(any, F_DUPFD_CLOEXEC, static_cast<int>(std::min(limit.rlim_cur, kDescriptors)) - 1));
}

}  // namespace

Status World::start_watch() {
  if (size() == 1) return {};
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail(ErrorCode::system, "no eventfd for the watch thread: {}", errno_text(errno));
  reserve_descriptors(wake_.get());
  for (bootstrap::Rendezvous* star : stars())
    for (const bootstrap::ControlLink& end : star->control_links()) links_.push_back({star, end});
  watch_ranks();
  thread_ = std::thread([this] { watch(); });
  return {};
}

// The next ranks on this host, counted around: every rank has watchers as long as not all of its neighbours end at once.
void World::watch_ranks() {
  const int own_pid = contacts_[static_cast<std::size_t>(rank_)].pid;
  for (int step = 1; step < size() && watched_.size() < kMostWatched; ++step) {
    const int other = (rank_ + step) % size();
    const bootstrap::Contact& contact = contacts_[static_cast<std::size_t>(other)];
    if (!is_local(other) || contact.pid == own_pid) continue;  // a thread of this process cannot die alone
    Watched watched;
    watched.world_rank = other;
    watched.pidfd = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, contact.pid, 0)));
    if (watched.pidfd && bootstrap::process_start_time(contact.pid) != contact.pid_start_time) watched.pidfd.reset();
    watched_.push_back(std::move(watched));
  }
}

void World::watch() {
  for (const NewsLink& link : std::vector(links_)) read_control(link);  // what came before there was a watch
  while (!ending_.load(std::memory_order_acquire)) {
    std::vector<pollfd> polls{{wake_.get(), POLLIN, 0}};
    for (const Watched& w : watched_) polls.push_back({w.reported ? -1 : w.pidfd.get(), POLLIN, 0});
    for (const auto& link : links_) polls.push_back({link.end.fd, POLLIN, 0});
    // A rank that was gone before it could be watched has no descriptor: that is a death, too.
    for (Watched& w : watched_) {
      if (w.pidfd || w.reported) continue;
      w.reported = true;
      report(w.world_rank, ErrorCode::rank_dead, "ended");
    }
    ::poll(polls.data(), polls.size(), suspects_.empty() ? static_cast<int>(kLookEveryNs / 1'000'000) : kSuspectEveryMs);
    if (ending_.load(std::memory_order_acquire)) return;
    std::size_t at = 1;
    for (Watched& w : watched_) {
      if ((polls[at++].revents & POLLIN) == 0 || w.reported) continue;
      w.reported = true;
      report(w.world_rank, ErrorCode::rank_dead, "ended");
    }
    const auto links = links_;
    for (const auto& link : links)
      if ((polls[at++].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_control(link);
    look_for_stopped();
    judge_suspects();
  }
}

// A hub on another host whose link has closed: those who sit beside it know more, and their news comes by the other star.
void World::judge_suspects() {
  const std::int64_t now = now_ns();
  std::erase_if(suspects_, [&](const Suspect& suspect) {
    if (now - suspect.since_ns < kSuspectNs) return false;
    report(suspect.world_rank, ErrorCode::rank_dead, "ended or cannot be reached any more (its control connection closed)");
    return true;
  });
}

void World::look_for_stopped() {
  const std::int64_t now = now_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + kLookEveryNs - kLookEveryNs / 100;  // poll may be a moment early or late
  for (Watched& w : watched_) {
    if (w.reported) continue;
    const char state = process_state(contacts_[static_cast<std::size_t>(w.world_rank)].pid);
    if (state == 'Z' || state == 'X') {
      w.reported = true;
      report(w.world_rank, ErrorCode::rank_dead, "ended");
      continue;
    }
    w.stopped_looks = state == 'T' || state == 't' ? w.stopped_looks + 1 : 0;
    if (w.stopped_looks < kStoppedLooks) continue;
    w.reported = true;
    report(w.world_rank, ErrorCode::rank_stopped, "is stopped (SIGSTOP or a debugger; `kill -CONT` lets it go on, but its job is over)");
  }
}

// Tells every communicator that the rank belongs to, unless it has left that one in order; and the other hosts.
void World::report(int world_rank, ErrorCode code, const std::string& cause) {
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    for (FaultListener* listener : listeners_) {
      if (listener->has_left(world_rank)) continue;
      if (!is_news && !first_fault_) first_fault_ = Failure{code, fmt::format("{} {}", describe(world_rank), cause), world_rank, -1, {}};
      listener->on_rank_fault(world_rank, code, cause);
      is_news = true;
    }
  }
  if (!is_news || !spans_hosts_) return;
  broadcast(0, executor::to_record({code, cause, world_rank, -1, {}}, rank_));
}

std::vector<bootstrap::Rendezvous*> World::stars() const {
  std::vector<bootstrap::Rendezvous*> out;
  for (bootstrap::Rendezvous* star : {rendezvous_.get(), second_star_.get()})
    if (star != nullptr) out.push_back(star);
  return out;
}

// On both stars: whoever hears it twice has recorded it already.
void World::broadcast(std::uint64_t communicator, const executor::FaultRecord& fault) {
  const FaultNews news{communicator, fault};
  for (bootstrap::Rendezvous* star : stars()) (void)star->broadcast_control({reinterpret_cast<const char*>(&news), sizeof news});
}

void World::read_control(const NewsLink& link) {
  const auto [neighbour, fd] = link.end;
  for (;;) {
    auto event = link.star->receive_control(fd);
    const bool is_over =
        !event || event->kind == bootstrap::ControlEvent::Kind::closed || event->kind == bootstrap::ControlEvent::Kind::goodbye;
    if (is_over) {
      std::erase_if(links_, [&](const NewsLink& one) { return one.end.fd == link.end.fd; });
      if (event && event->kind == bootstrap::ControlEvent::Kind::goodbye) return;
      // On this host the process itself is watched; the link adds what happens elsewhere.
      if (!is_local(neighbour)) suspects_.push_back({neighbour, now_ns()});
      return;
    }
    if (event->kind == bootstrap::ControlEvent::Kind::none) return;
    take_news(event->from, event->bytes);
  }
}

void World::take_news(int from, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes.size() == sizeof(CallNews)) {
    CallNews news;
    std::memcpy(&news, bytes.data(), sizeof news);
    for (FaultListener* listener : listeners_)
      if (news.communicator == listener->id()) listener->on_remote_call(from, executor::from_tag(news.tag));
  }
  if (bytes.size() != sizeof(FaultNews)) return;
  FaultNews news;
  std::memcpy(&news, bytes.data(), sizeof news);
  for (FaultListener* listener : listeners_) {
    if (news.communicator == listener->id()) listener->on_remote_fault(news.fault);
    if (news.communicator != 0) continue;
    const Failure failure = executor::to_failure(news.fault);
    if (failure.rank < 0 || failure.rank >= size()) continue;
    if (!first_fault_)
      first_fault_ = Failure{failure.code, fmt::format("{} {}", describe(failure.rank), failure.message), failure.rank, -1, {}};
    listener->on_rank_fault(failure.rank, failure.code, failure.message);
  }
}

std::optional<Failure> World::first_rank_fault() const {
  const std::lock_guard lock(mutex_);
  return first_fault_;
}

void World::tell(std::uint64_t id, const executor::FaultRecord& fault) {
  if (spans_hosts_) broadcast(id, fault);
}

void World::tell_call(int world_rank, std::uint64_t id, const executor::CallSignature& call) {
  const CallNews news{id, executor::to_tag(call)};
  for (bootstrap::Rendezvous* star : stars()) (void)star->send_control(world_rank, {reinterpret_cast<const char*>(&news), sizeof news});
}

void World::add(FaultListener* listener) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back(listener);
}

void World::remove(FaultListener* listener) {
  const std::lock_guard lock(mutex_);
  std::erase(listeners_, listener);
}

World::~World() {
  if (thread_.joinable()) {
    ending_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }
  for (bootstrap::Rendezvous* star : stars()) star->goodbye();
}

}  // namespace peal::comm
