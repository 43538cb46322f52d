#include <algorithm>
#include <base/clock.hpp>
#include <cli/bench.hpp>
#include <cli/measure_ranks.hpp>
#include <comm/core.hpp>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace peal::cli {
namespace {

constexpr std::uint64_t kSmall = 8, kLarge = 1 << 20;
constexpr int kSmallTrips = 20, kLargeExchanges = 4;
constexpr std::uint64_t kMostPairRounds = 24, kFewestPairRounds = 5;
constexpr double kRoundsNs = 150e6;  // where a round takes long, fewer of them have to do

class Pairs {
 public:
  explicit Pairs(comm::Core& core) : core_(core), outgoing_(kLarge), incoming_(kLarge) {
    const auto n = static_cast<std::size_t>(core.size());
    rows_.assign(2 * n, 0);
  }

  /// By peer, in nanoseconds: half a round trip of a small message, and an exchange of large ones.
  Result<std::vector<double>> measure() {
    comm::Call barrier{Collective::barrier};
    for (int a = 0; a < core_.size(); ++a) {
      for (int b = a + 1; b < core_.size(); ++b) {
        PEAL_TRY(core_.run(barrier));
        if (core_.rank() != a && core_.rank() != b) continue;
        const int peer = core_.rank() == a ? b : a;
        const bool begins = core_.rank() == a;
        const std::vector<comm::PairTransfer> send{transfer(peer, true, kSmall)}, receive{transfer(peer, false, kSmall)};
        PEAL_ASSIGN(const double small, fastest_round(kSmallTrips, begins ? send : receive, [&]() -> Status {
                      PEAL_TRY(core_.run_group(begins ? send : receive));
                      return core_.run_group(begins ? receive : send);
                    }));
        // Both ways at once, as collectives and `peal bench send_recv` do. A rank that only waits for a long message gives its core away
        // meanwhile, and where others work on the machine it gets it back after their time slice.
        const std::vector<comm::PairTransfer> both{transfer(peer, true, kLarge), transfer(peer, false, kLarge)};
        PEAL_ASSIGN(const double large, fastest_round(kLargeExchanges, begins ? send : receive, [&] { return core_.run_group(both); }));
        rows_[static_cast<std::size_t>(2 * peer)] = small / 2;
        rows_[static_cast<std::size_t>(2 * peer + 1)] = large;
      }
    }
    PEAL_TRY(core_.run(barrier));
    return rows_;
  }

 private:
  comm::PairTransfer transfer(int peer, bool is_send, std::uint64_t bytes) {
    comm::PairTransfer transfer;
    transfer.is_send = is_send;
    transfer.send = is_send ? outgoing_.data() : nullptr;
    transfer.receive = is_send ? nullptr : incoming_.data();
    transfer.count = bytes;
    transfer.type = DataType::u8;
    transfer.peer = peer;
    return transfer;
  }

  /// Time of one call, from the fastest of the rounds of `calls`: others' work only ever makes a round longer. A first one warms up, and by
  /// `news`, a small message, one rank tells the other how many there will be.
  template <class Call>
  Result<double> fastest_round(int calls, const std::vector<comm::PairTransfer>& news, Call&& call) {
    const auto round = [&]() -> Result<double> {
      const std::int64_t begin = now_ns();
      for (int i = 0; i < calls; ++i) PEAL_TRY(call());
      return static_cast<double>(now_ns() - begin) / calls;
    };
    PEAL_ASSIGN(double fastest, round());
    auto rounds = static_cast<std::uint64_t>(
        std::clamp(kRoundsNs / (fastest * calls), static_cast<double>(kFewestPairRounds), static_cast<double>(kMostPairRounds)));
    std::memcpy(outgoing_.data(), &rounds, sizeof rounds);
    PEAL_TRY(core_.run_group(news));
    if (!news.front().is_send) std::memcpy(&rounds, incoming_.data(), sizeof rounds);
    for (; rounds > 0; --rounds) {
      PEAL_ASSIGN(const double taken, round());
      fastest = std::min(fastest, taken);
    }
    return fastest;
  }

  comm::Core& core_;
  std::vector<char> outgoing_, incoming_;
  std::vector<double> rows_;
};

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  char text[16] = "";
  std::tm broken{};
  if (::gmtime_r(&now, &broken) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &broken);
  return text;
}

RankMeasurements arrange(comm::Core& core, const std::vector<double>& all) {
  const auto n = static_cast<std::size_t>(core.size());
  RankMeasurements found;
  found.source = fmt::format("measured {}, pairs of ranks one after the other", now_text());
  found.latency_us.assign(n, std::vector<double>(n, 0));
  found.GBps = found.latency_us;
  std::map<std::string, int> index;
  std::map<std::string, int> called;  // containers and cloned machines share a name: "vm", "vm (2)"
  for (std::size_t a = 0; a < n; ++a) {
    const bootstrap::Contact& contact = core.contact(static_cast<int>(a));
    const auto [it, is_new] = index.emplace(contact.host_identity, static_cast<int>(index.size()));
    if (is_new) {
      const int count = ++called[contact.host_name];
      found.hosts.push_back(count == 1 ? contact.host_name : fmt::format("{} ({})", contact.host_name, count));
    }
    found.host_index.push_back(it->second);
    found.host_of.push_back(found.hosts[static_cast<std::size_t>(it->second)]);
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      // A rank that begins late finds its message there: the longer time of the two is that of the call.
      const auto longer = [&](std::size_t row) { return std::max(all[2 * (a * n + b) + row], all[2 * (b * n + a) + row]); };
      found.latency_us[a][b] = longer(0) * 1e-3;
      found.GBps[a][b] = static_cast<double>(kLarge) / std::max(1.0, longer(1));
    }
  }
  if (found.hosts.size() > 1) {
    std::vector<std::vector<double>> latency_ns = host_latencies(found);
    for (std::vector<double>& row : latency_ns)
      for (double& ns : row) ns *= 1e3;
    found.racks = discovery::find_racks(latency_ns);
  }
  return found;
}

std::string matrix_text(const std::vector<std::vector<double>>& matrix) {
  std::string out = "      ";
  for (std::size_t b = 0; b < matrix.size(); ++b) out += fmt::format(" {:>7}", b);
  out += '\n';
  for (std::size_t a = 0; a < matrix.size(); ++a) {
    out += fmt::format("{:>6}", a);
    for (std::size_t b = 0; b < matrix.size(); ++b) out += a == b ? "       -" : fmt::format(" {:>7.3g}", matrix[a][b]);
    out += '\n';
  }
  return out;
}

std::string racks_text(const RankMeasurements& found) {
  if (found.hosts.size() < 2) return fmt::format("All ranks run on one host ({}): there is no rack to be found.\n", found.hosts.front());
  if (found.racks.count == 1)
    return fmt::format("{} hosts at one distance: they share a rack, or none shares one; latency alone cannot tell.\n", found.hosts.size());
  std::string out =
      fmt::format("{} groups of hosts, taken for racks: at most {:.3g} us to the next host within, at least {:.3g} us between them\n",
                  found.racks.count, found.racks.within_ns * 1e-3, found.racks.between_ns * 1e-3);
  for (int rack = 0; rack < found.racks.count; ++rack) {
    out += fmt::format("  rack {}:", rack);
    for (std::size_t h = 0; h < found.hosts.size(); ++h)
      if (found.racks.rack_of[h] == rack) out += " " + found.hosts[h];
    out += '\n';
  }
  return out;
}

}  // namespace

std::vector<std::vector<double>> host_latencies(const RankMeasurements& found) {
  const std::size_t hosts = found.hosts.size();
  std::vector<std::vector<double>> least(hosts, std::vector<double>(hosts, std::numeric_limits<double>::infinity()));
  for (std::size_t a = 0; a < found.latency_us.size(); ++a) {
    for (std::size_t b = 0; b < found.latency_us.size(); ++b) {
      double& known = least[static_cast<std::size_t>(found.host_index[a])][static_cast<std::size_t>(found.host_index[b])];
      if (a != b) known = std::min(known, found.latency_us[a][b]);
    }
  }
  for (std::size_t h = 0; h < hosts; ++h) least[h][h] = 0;
  return least;
}

Result<std::optional<RankMeasurements>> measure_ranks(const bootstrap::Job& job) {
  if (job.size > kMostMeasuredRanks)
    return fail(ErrorCode::invalid_argument, "{} ranks make too many pairs to be measured in turn; start one rank a host, at most {}",
                job.size, kMostMeasuredRanks);
  comm::CoreOptions options;
  PEAL_ASSIGN(options.transport, transport_of({}));
  PEAL_ASSIGN(const std::shared_ptr<comm::Core> core, comm::Core::world(job, options));
  PEAL_ASSIGN(const std::vector<double> mine, Pairs(*core).measure());
  std::vector<double> all(mine.size() * static_cast<std::size_t>(core->size()));
  comm::Call gather{Collective::all_gather};
  gather.send = mine.data();
  gather.receive = all.data();
  gather.count = mine.size();
  gather.type = DataType::f64;
  PEAL_TRY(core->run(gather));
  std::optional<RankMeasurements> found;
  if (core->rank() == 0) found = arrange(*core, all);
  comm::Call barrier{Collective::barrier};
  PEAL_TRY(core->run(barrier));
  return found;
}

std::string rank_measurements_text(const RankMeasurements& found) {
  std::string out = fmt::format("{} ranks on {}, {}\n\n", found.host_of.size(),
                                found.hosts.size() == 1 ? "1 host" : fmt::format("{} hosts", found.hosts.size()), found.source);
  out += "Latency one way, 8 bytes, us\n" + matrix_text(found.latency_us);
  out += "\nBandwidth each way, 1 MiB both ways at once, GB/s\n" + matrix_text(found.GBps);
  out += "\nHosts of the ranks\n";
  for (std::size_t h = 0; h < found.hosts.size(); ++h) {
    out += fmt::format("  {}:", found.hosts[h]);
    for (std::size_t r = 0; r < found.host_index.size(); ++r)
      if (found.host_index[r] == static_cast<int>(h)) out += fmt::format(" {}", r);
    out += '\n';
  }
  return out + "\n" + racks_text(found);
}

std::string rank_measurements_json(const RankMeasurements& found) {
  nlohmann::ordered_json root;
  root["schema"] = "peal.pairs/1";
  root["source"] = found.source;
  root["ranks"] = found.host_of.size();
  root["hosts"] = found.hosts;
  root["host_of_rank"] = found.host_index;
  root["latency_us"] = found.latency_us;
  root["GBps"] = found.GBps;
  if (found.hosts.size() > 1)
    root["racks"] = {{"count", found.racks.count},
                     {"rack_of_host", found.racks.rack_of},
                     {"within_us", found.racks.within_ns * 1e-3},
                     {"between_us", found.racks.between_ns * 1e-3}};
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace peal::cli
