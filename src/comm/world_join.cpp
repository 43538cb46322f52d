// Joining a job: rendezvous, who sits on this host, and a door for TCP where one is needed.
#include <algorithm>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <comm/world.hpp>
#include <map>
#include <net/interfaces.hpp>

namespace peal::comm {

namespace {

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
  auto door = open_door(job, rendezvous, world->spans_hosts_);
  PEAL_ASSIGN(const auto said, rendezvous.all_gather(door ? (*door)->address().text() : "!" + door.error().message));
  for (std::size_t r = 0; r < said.size(); ++r)
    if (said[r].empty() || said[r][0] == '!')
      return fail(ErrorCode::unreachable, "{} cannot listen for data: {}", world->describe(static_cast<int>(r)),
                  said[r].empty() ? said[r] : said[r].substr(1));
  for (std::size_t r = 0; r < said.size(); ++r) world->contacts_[r].data_address = said[r];
  world->listener_ = std::move(*door);
  return world;
}

}  // namespace peal::comm
