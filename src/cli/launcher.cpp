#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <base/clock.hpp>
#include <base/file_descriptor.hpp>
#include <cli/launcher.hpp>
#include <cli/rank_places.hpp>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>

namespace peal::cli {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kGraceNs = 3 * kSecond;        // for the other ranks to report what they saw
constexpr std::int64_t kCauseNs = kSecond / 5;        // that a rank may take to die longer than others of its death
constexpr std::int64_t kTermNs = 2 * kSecond;         // from SIGTERM to SIGKILL
constexpr std::int64_t kPartialLineNs = kSecond / 5;  // a prompt or progress without newline is shown after this

// What one rank writes to one stream, passed on line by line.
struct Stream {
  FileDescriptor from;
  FILE* to = nullptr;
  std::string label;
  std::string held;
  std::int64_t held_since = 0;
  std::set<std::string, std::less<>>* said = nullptr;  // lines are written once
  bool is_mute = false;

  void write_line(std::string_view line, bool newline) {
    if (is_mute) return;
    if (said != nullptr && !said->emplace(line).second) return;
    std::fwrite(label.data(), 1, label.size(), to);
    std::fwrite(line.data(), 1, line.size(), to);
    if (newline) std::fputc('\n', to);
    std::fflush(to);
  }
  // False at the end of the stream.
  bool pump() {
    char buffer[65536];
    const ssize_t got = ::read(from.get(), buffer, sizeof buffer);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    held.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    for (std::size_t end; (end = held.find('\n')) != std::string::npos;) {
      write_line({held.data(), end}, true);
      held.erase(0, end + 1);
    }
    held_since = held.empty() ? 0 : held_since == 0 ? now_ns() : held_since;
    if (got > 0) return true;
    flush();
    return false;
  }
  void flush() {
    if (held.empty()) return;
    write_line(held, !label.empty());
    held.clear();
    held_since = 0;
  }
};

struct Child {
  pid_t pid = -1;
  int rank = 0;
  bool running = false;
  Stream out, err;
};

class Launch {
 public:
  explicit Launch(const LaunchSpec& spec) : spec_(spec) {}
  ~Launch();
  Result<LaunchOutcome> run();

 private:
  Status block_signals();
  Status start(int index);
  [[noreturn]] void become_rank(int index, int out, int err, int report);
  void pump_output(int timeout_ms);
  void take_signals();
  void reap();
  void note_end(const Child& child, int status);
  void advance_ending();
  void signal_all(int signal);
  bool any_running() const {
    return std::any_of(children_.begin(), children_.end(), [](const Child& c) { return c.running; });
  }

  const LaunchSpec& spec_;
  RankBinding binding_;
  std::vector<Child> children_;
  sigset_t watched_{}, before_{};
  bool is_blocked_ = false;
  FileDescriptor signals_;
  LaunchOutcome outcome_;
  bool is_ending_ = false;
  std::int64_t noted_at_ = 0;  // the first failure
  std::int64_t term_at_ = 0;
  std::int64_t kill_at_ = 0;
  int interrupts_ = 0;
  std::set<std::string, std::less<>> said_;
  bool ended_by_itself_ = false;
};

Status Launch::block_signals() {
  sigemptyset(&watched_);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&watched_, s);
  if (::sigprocmask(SIG_BLOCK, &watched_, &before_) != 0) return fail(ErrorCode::system, "cannot block signals: {}", errno_text(errno));
  is_blocked_ = true;
  signals_ = FileDescriptor(::signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail(ErrorCode::system, "no signalfd: {}", errno_text(errno));
  return {};
}

Launch::~Launch() {
  signal_all(SIGKILL);
  for (Child& child : children_)
    if (child.running) ::waitpid(child.pid, nullptr, 0);
  if (is_blocked_) ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

Status Launch::start(int index) {
  int out[2], err[2], report[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0 || ::pipe2(report, O_CLOEXEC) != 0)
    return fail(ErrorCode::system, "no pipe for the output of rank {}: {}; raise `ulimit -n`", spec_.first_rank + index, errno_text(errno));
  FileDescriptor out_read(out[0]), out_write(out[1]), err_read(err[0]), err_write(err[1]), report_read(report[0]), report_write(report[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail(ErrorCode::system, "cannot start rank {}: {}", spec_.first_rank + index, errno_text(errno));
  if (pid == 0) become_rank(index, out_write.get(), err_write.get(), report_write.get());
  ::setpgid(pid, pid);
  Child child;
  child.pid = pid;
  child.rank = spec_.first_rank + index;
  child.running = true;
  const std::string label = spec_.label_output ? fmt::format("[{}] ", child.rank) : std::string();
  ::fcntl(out_read.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(err_read.get(), F_SETFL, O_NONBLOCK);
  child.out = {std::move(out_read), stdout, label, {}, 0, nullptr};
  child.err = {std::move(err_read), stderr, label, {}, 0, spec_.say_errors_once ? &said_ : nullptr};
  children_.push_back(std::move(child));
  report_write.reset();
  int error = 0;  // the pipe closes without a word when exec succeeded
  if (::read(report_read.get(), &error, sizeof error) == sizeof error)
    return fail(ErrorCode::invalid_argument, "cannot run {}: {}; check the path, and that it may be executed", spec_.command[0],
                errno_text(error));
  return {};
}

void Launch::become_rank(int index, int out, int err, int report) {
  const pid_t launcher = ::getppid();
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  const int rank = spec_.first_rank + index;
  binding_.bind(index);
  for (const auto& [name, value] : spec_.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("PEAL_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("PEAL_SIZE", std::to_string(spec_.total_ranks).c_str(), 1);
  ::setenv("PEAL_LOCAL_RANK", std::to_string(index).c_str(), 1);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  std::vector<char*> arguments;
  for (const std::string& word : spec_.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  (void)!::write(report, &error, sizeof error);
  ::_exit(127);
}

void Launch::pump_output(int timeout_ms) {
  std::vector<pollfd> polls{{signals_.get(), POLLIN, 0}};
  for (Child& child : children_)
    for (Stream* s : {&child.out, &child.err}) polls.push_back({s->from ? s->from.get() : -1, POLLIN, 0});
  ::poll(polls.data(), polls.size(), timeout_ms);
  std::size_t at = 1;
  const std::int64_t now = now_ns();
  for (Child& child : children_) {
    for (Stream* s : {&child.out, &child.err}) {
      if ((polls[at++].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !s->pump()) s->from.reset();
      if (s->held_since != 0 && now - s->held_since > kPartialLineNs) s->flush();
    }
  }
}

void Launch::signal_all(int signal) {
  for (const Child& child : children_)
    if (child.running) ::kill(-child.pid, signal);
}

void Launch::take_signals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    ++interrupts_;
    if (outcome_.exit_code == 0) outcome_ = {128 + signal, fmt::format("stopped by signal {} ({})", signal, ::strsignal(signal)), false};
    is_ending_ = true;
    const std::int64_t now = now_ns();
    if (interrupts_ > 1) {
      signal_all(SIGKILL);
      continue;
    }
    // Ranks of the tool's own have nothing to say of it, but one that dies a little later than another may report that one lost.
    for (Child& child : children_) child.err.is_mute = spec_.say_errors_once;
    signal_all(signal);
    const auto patience = static_cast<std::int64_t>(spec_.patience_s * 1e9);
    term_at_ = now + patience;
    kill_at_ = term_at_ + patience;
  }
}

void Launch::note_end(const Child& child, int status) {
  ::kill(-child.pid, SIGKILL);  // what the rank may have left behind
  const bool killed = WIFSIGNALED(status);
  const int code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  // Of a rank that dies the connections close before its end can be seen: what the others died of may come a little after them.
  const bool is_cause = killed && ended_by_itself_ && interrupts_ == 0 && now_ns() < noted_at_ + kCauseNs;
  if (code == 0 || (is_ending_ && !is_cause)) return;
  outcome_.exit_code = code;
  outcome_.why = killed ? fmt::format("rank {} (pid {}) was killed by {}", child.rank, child.pid, ::strsignal(WTERMSIG(status)))
                        : fmt::format("rank {} (pid {}) ended with exit code {}", child.rank, child.pid, code);
  ended_by_itself_ = !killed;
  is_ending_ = true;
  noted_at_ = now_ns();
  term_at_ = noted_at_ + kGraceNs;
  kill_at_ = term_at_ + kTermNs;
}

// A rank that was killed is what the others die of, but they may be seen to have ended before it: their numbers may be lower, and it may
// end while its turn to be looked at is just over. So all are looked at once more, and who was killed is noted first.
void Launch::reap() {
  std::vector<std::pair<Child*, int>> ended;
  const auto look = [&] {
    for (Child& child : children_) {
      int status = 0;
      if (!child.running || ::waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.running = false;
      ended.emplace_back(&child, status);
    }
  };
  look();
  if (ended.empty()) return;
  look();
  std::stable_partition(ended.begin(), ended.end(), [](const auto& end) { return WIFSIGNALED(end.second); });
  for (const auto& [child, status] : ended) note_end(*child, status);
}

void Launch::advance_ending() {
  if (!is_ending_) return;
  const std::int64_t now = now_ns();
  if (term_at_ != 0 && now > term_at_) {
    signal_all(SIGTERM);
    signal_all(SIGCONT);  // a stopped rank must wake up to end
    term_at_ = 0;
  }
  if (kill_at_ != 0 && now > kill_at_) {
    signal_all(SIGKILL);
    kill_at_ = 0;
  }
}

Result<LaunchOutcome> Launch::run() {
  if (spec_.bind) {
    PEAL_ASSIGN(binding_, RankBinding::find(spec_.ranks));
  }
  PEAL_TRY(block_signals());
  children_.reserve(static_cast<std::size_t>(spec_.ranks));
  for (int i = 0; i < spec_.ranks; ++i) PEAL_TRY(start(i));
  const std::int64_t deadline = spec_.timeout_s > 0 ? now_ns() + static_cast<std::int64_t>(spec_.timeout_s * 1e9) : 0;
  while (any_running()) {
    pump_output(100);
    take_signals();
    reap();
    if (deadline != 0 && !is_ending_ && now_ns() > deadline) {
      outcome_ = {124, fmt::format("the job did not end within {} s and was stopped; give more with --timeout", spec_.timeout_s), false};
      is_ending_ = true;
      term_at_ = now_ns();
      kill_at_ = term_at_ + kTermNs;
    }
    advance_ending();
  }
  for (int rounds = 0; rounds < 50; ++rounds) {  // what is still in the pipes
    const bool open = std::any_of(children_.begin(), children_.end(), [](const Child& c) { return c.out.from || c.err.from; });
    if (!open) break;
    pump_output(20);
  }
  outcome_.has_said_why = ended_by_itself_ && !said_.empty();
  return outcome_;
}

}  // namespace

Result<LaunchOutcome> launch(const LaunchSpec& spec) {
  if (spec.command.empty())
    return fail(ErrorCode::invalid_argument, "no program to run; type it behind --, as in `peal run -n 2 -- ./a.out`");
  std::fflush(nullptr);
  return Launch(spec).run();
}

LaunchSpec spec_of_this_tool(int ranks, const std::vector<std::string>& arguments) {
  LaunchSpec spec;
  spec.ranks = spec.total_ranks = ranks;
  spec.command = {"/proc/self/exe"};
  char path[4096];
  if (const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path); n > 0) spec.command[0].assign(path, static_cast<std::size_t>(n));
  spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
  spec.environment = one_host_environment();
  spec.label_output = false;
  spec.say_errors_once = true;
  return spec;
}

std::vector<std::pair<std::string, std::string>> one_host_environment() {
  std::random_device random;
  const std::uint64_t number = static_cast<std::uint64_t>(random()) << 32 | random();
  return {{"PEAL_ROOT", fmt::format("unix:peal-run-{}-{:016x}", ::getpid(), number)}, {"PEAL_JOB", fmt::format("{:x}", number >> 1)}};
}

}  // namespace peal::cli
