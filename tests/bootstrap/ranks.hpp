// Ranks of a test: threads of this process, or forked processes that end by themselves when something hangs.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.hpp>
#include <bootstrap/rendezvous.hpp>
#include <functional>
#include <net/socket.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace peal::bootstrap::test {

using Joined = Result<std::unique_ptr<Rendezvous>>;

/// A port of the loopback interface that was free a moment ago.
inline net::Address free_root(std::string_view kind) {
  if (kind == "unix") {
    static int count = 0;
    return *net::Address::unix_name(fmt::format("peal-test-{}-{}-{}", getpid(), now_ns(), ++count));
  }
  const auto start = kind == "v6" ? net::Address::loopback_v6(0) : net::Address::loopback_v4(0);
  auto listener = net::listen_on(start);
  return *net::local_address(listener->get());
}

inline Job job_at(const net::Address& root, int rank, int size, const net::Key& key, double timeout_s = 20) {
  Job job;
  job.rank = rank;
  job.size = size;
  job.root = root;
  job.key = key;
  job.job_id = 77;
  job.launcher = "test";
  job.start_timeout_s = timeout_s;
  return job;
}

/// Every job joins in a thread of its own; the results come back in the order of `jobs`.
inline std::vector<Joined> join_all(const std::vector<Job>& jobs) {
  std::vector<Joined> out(jobs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    threads.emplace_back([&, i] { out[i] = Rendezvous::join(jobs[i], local_contact(jobs[i].rank)); });
  for (auto& one : threads) one.join();
  return out;
}

/// Runs `body(rank)` in n forked processes; each exit code, or -signal. A process that hangs is ended after 60 s.
inline std::vector<int> run_forked(int n, const std::function<int(int)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < n; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(body(rank));
    }
    children.push_back(child);
  }
  std::vector<int> out;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    out.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return out;
}

/// The next event of a link, waiting at most `seconds`.
inline ControlEvent next_event(Rendezvous& star, int fd, double seconds = 5) {
  const std::int64_t deadline = net::deadline_in(seconds);
  for (;;) {
    auto event = star.receive_control(fd);
    if (!event || event->kind != ControlEvent::Kind::none) return event.value_or(ControlEvent{});
    // A stream that has ended stays readable.
    if (!net::wait_readable(fd, deadline) || now_ns() >= deadline) return {};
  }
}

}  // namespace peal::bootstrap::test
