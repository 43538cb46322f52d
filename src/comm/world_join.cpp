// Joining a job: rendezvous, who sits on this host, a door for TCP where one is needed, and a second star for news where there are
// several hosts.
#include <algorithm>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <comm/world.hpp>
#include <map>
#include <net/interfaces.hpp>
#include <net/socket.hpp>

namespace peal::comm {

namespace {

constexpr double kSecondStarS = 10;

// One host: loopback. Several: the interface that the user names, or the one by which rank 0 is reached.
Result<net::Address> data_address(const bootstrap::Job& job, bool spans_hosts) {
  if (!spans_hosts) return net::Address::loopback_v4(0);
  PEAL_ASSIGN(const net::InterfaceChoice choice, net::choose_interface(setting("PEAL_INTERFACE"), job.root));
  log(LogLevel::info, "data goes by {}", choice.why);
  return choice.interface.address.with_port(0);
}

Result<std::unique_ptr<transport::TcpListener>> open_door(const bootstrap::Job& job, const bootstrap::Rendezvous& rendezvous,
                                                          bool spans_hosts) {
  transport::TcpListenerOptions options;
  PEAL_ASSIGN(options.address, data_address(job, spans_hosts));
  options.key = rendezvous.data_key();
  options.job = rendezvous.session_id();
  options.rank = static_cast<std::uint32_t>(rendezvous.rank());
  options.size = static_cast<std::uint32_t>(rendezvous.size());
  return transport::TcpListener::start(options);
}

// The job of the second star: its hub is the deputy, the lowest rank that is not on rank 0's host. It is given up well before the ranks
// stop waiting for each other on the first star, because not all give it up at the same moment.
bootstrap::Job second_job(const bootstrap::Job& job, const bootstrap::Rendezvous& first) {
  const auto& all = first.contacts();
  bootstrap::Job out;
  out.rank = first.rank();
  out.size = first.size();
  out.hub = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.host_identity != all.front().host_identity; })->rank;
  out.key = first.data_key();
  out.job_id = first.session_id();
  out.start_timeout_s = std::min(kSecondStarS, job.start_timeout_s / 2);
  out.wire_version = job.wire_version;
  return out;
}

// The deputy listens before anybody is told where: `job` gets the address with the port that the kernel chose.
Result<FileDescriptor> listen_as_deputy(bootstrap::Job& job, const net::Address& data) {
  job.root = data.with_port(0);
  PEAL_ASSIGN(FileDescriptor listener, bootstrap::Rendezvous::listen(job));
  PEAL_ASSIGN(job.root, net::local_address(listener.get()));
  return listener;
}

Result<std::unique_ptr<bootstrap::Rendezvous>> join_second_star(bootstrap::Job job, const bootstrap::Contact& mine,
                                                                Result<FileDescriptor> listener, const std::string& address) {
  if (!listener) return pass_on(std::move(listener).error());
  if (address.empty()) return fail(ErrorCode::unreachable, "rank {} does not listen for it", job.hub);
  PEAL_ASSIGN(job.root, net::Address::parse(address));
  return bootstrap::Rendezvous::join(job, mine, std::move(*listener));
}

// "rank 2 sits with ranks 3 on node1; ranks 0, 1 are on node0".
void log_hosts(const World& world) {
  if (!is_logged(LogLevel::info)) return;
  std::map<std::string, std::string> by_host;
  for (int r = 0; r < world.size(); ++r) {
    const bootstrap::Contact& contact = world.contacts()[static_cast<std::size_t>(r)];
    std::string& ranks = by_host[contact.host_identity];
    ranks += ranks.empty() ? fmt::format("{}: ranks {}", contact.host_name, r) : fmt::format(", {}", r);
  }
  std::string text;
  for (const auto& [identity, ranks] : by_host) text += (text.empty() ? "" : "; ") + ranks;
  log(LogLevel::info, "{} on {} host{}: {}", world.describe(world.rank()), by_host.size(), by_host.size() == 1 ? "" : "s", text);
}

}  // namespace

Result<std::shared_ptr<World>> World::join(const bootstrap::Job& job, TransportChoice choice) {
  log(LogLevel::info, "rank {} of {}: {}", job.rank, job.size, job.explanation);
  std::shared_ptr<World> world(new World());
  world->choice_ = choice;
  PEAL_ASSIGN(world->rendezvous_, bootstrap::Rendezvous::join(job, bootstrap::local_contact(job.rank)));
  bootstrap::Rendezvous& rendezvous = *world->rendezvous_;
  world->rank_ = rendezvous.rank();
  world->contacts_ = rendezvous.contacts();
  log_hosts(*world);
  const std::string& here = world->contacts_[static_cast<std::size_t>(world->rank_)].host_identity;
  world->spans_hosts_ =
      std::any_of(world->contacts_.begin(), world->contacts_.end(), [&](const auto& c) { return c.host_identity != here; });
  if (choice == TransportChoice::shm && world->spans_hosts_)
    return fail(ErrorCode::unsupported, "shared memory was asked for, but the ranks are on several hosts; use PEAL_TRANSPORT=auto");
  // Whether TCP is needed is the same for all ranks; whether each could open its door is told to all.
  if (world->size() == 1 || (!world->spans_hosts_ && choice != TransportChoice::tcp)) return world;
  PEAL_TRY(world->open_doors(job));
  return world;
}

// Every rank tells where data comes in, the deputy also where the second star meets: "DATA NEWS", or "!" and why there is no door.
Status World::open_doors(const bootstrap::Job& job) {
  auto door = open_door(job, *rendezvous_, spans_hosts_);
  std::string mine = door ? (*door)->address().text() + " " : "!" + door.error().message;
  bootstrap::Job second;
  Result<FileDescriptor> listener;
  if (spans_hosts_) second = second_job(job, *rendezvous_);
  if (spans_hosts_ && door && rank_ == second.hub) {
    listener = listen_as_deputy(second, (*door)->address());
    if (listener) mine += second.root.text();
  }
  PEAL_ASSIGN(const auto said, rendezvous_->all_gather(mine));
  for (std::size_t r = 0; r < said.size(); ++r)
    if (said[r].empty() || said[r][0] == '!')
      return fail(ErrorCode::unreachable, "{} cannot listen for data: {}", describe(static_cast<int>(r)),
                  said[r].empty() ? said[r] : said[r].substr(1));
  for (std::size_t r = 0; r < said.size(); ++r) contacts_[r].data_address = said[r].substr(0, said[r].find(' '));
  listener_ = std::move(*door);
  if (!spans_hosts_) return {};
  const std::string& deputy = said[static_cast<std::size_t>(second.hub)];
  return agree_on_second_star(second.hub, join_second_star(second, contacts_[static_cast<std::size_t>(rank_)], std::move(listener),
                                                           deputy.substr(deputy.find(' ') + 1)));
}

// All ranks use the second star or none does: if only some had it, its end would look like a death to them.
Status World::agree_on_second_star(int hub, Result<std::unique_ptr<bootstrap::Rendezvous>> star) {
  PEAL_ASSIGN(const auto said, rendezvous_->all_gather(star ? std::string() : star.error().message));
  std::string why = said[static_cast<std::size_t>(hub)];  // the deputy knows best
  for (const std::string& one : said)
    if (why.empty()) why = one;
  if (why.empty()) {
    log(LogLevel::info, "news of faults crosses hosts through {} and through {}", describe(0), describe(hub));
    second_star_ = std::move(*star);
  } else if (rank_ == 0) {
    log(LogLevel::warn,
        "{} could not become the second hub for the news of faults ({}): should rank 0 be stopped, other hosts will not hear of it before "
        "connections close, and then without the cause",
        describe(hub), why);
  }
  return {};
}

}  // namespace peal::comm
