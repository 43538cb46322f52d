#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <training/trace_times.hpp>
#include <tuple>

namespace peal::training {
namespace {

/// Models by group and times by call, made once.
struct Times {
  std::map<std::vector<int>, sim::LibraryModel> models;
  std::map<std::tuple<std::vector<int>, Collective, double>, double> known_ns;
};

Result<double> time_of_call(const topology::Cluster& cluster, sim::Library library, Times& times, Collective collective, double bytes,
                            const std::vector<int>& group) {
  if (group.back() >= cluster.ranks())
    return fail(ErrorCode::invalid_argument, "the traces name rank {}, and the cluster has {} devices; give more with --nodes",
                group.back(), cluster.ranks());
  auto model = times.models.find(group);
  if (model == times.models.end()) {
    std::vector<int> devices;
    for (const int rank : group) devices.push_back(cluster.device_of_rank(rank));
    sim::LibraryOptions options;
    options.whose = library;
    PEAL_ASSIGN(sim::LibraryModel made, sim::LibraryModel::make(cluster, devices, options));
    model = times.models.emplace(group, std::move(made)).first;
  }
  const Bytes size{static_cast<std::uint64_t>(std::max(1.0, bytes))};
  PEAL_ASSIGN(const sim::LibraryAnswer answer, model->second.predict({.collective = collective, .bytes = size}));
  return answer.time.value;
}

}  // namespace

CommunicationTime library_times(const topology::Cluster& cluster, sim::Library library) {
  auto times = std::make_shared<Times>();
  return [&cluster, library, times](Collective collective, double bytes, const std::vector<int>& ranks) -> Result<Nanoseconds> {
    std::vector<int> group = ranks;
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
    if (group.size() < 2 || bytes <= 0) return Nanoseconds{0};
    const auto key = std::tuple(group, collective, bytes);
    const auto known = times->known_ns.find(key);
    if (known != times->known_ns.end()) return Nanoseconds{known->second};
    PEAL_ASSIGN(const double ns, time_of_call(cluster, library, *times, collective, bytes, group));
    times->known_ns.emplace(key, ns);
    return Nanoseconds{ns};
  };
}

std::string trace_study_text(const std::vector<RankTrace>& traces, const TraceStudy& study) {
  std::string text = fmt::format("{:>6} {:>8} {:>14} {:>14} {:>14}\n", "rank", "nodes", "end us", "compute us", "exposed us");
  for (std::size_t i = 0; i < traces.size(); ++i)
    text += fmt::format("{:6} {:8} {:14.6g} {:14.6g} {:14.6g}\n", traces[i].rank, traces[i].nodes.size(), study.ranks[i].end_us,
                        study.ranks[i].compute_us, study.ranks[i].exposed_us);
  return text + fmt::format("all ranks: {:.6g} us\n", study.time_us);
}

std::string trace_study_json(const std::vector<RankTrace>& traces, const TraceStudy& study) {
  nlohmann::ordered_json json{{"schema", "peal.trace_study/1"}, {"time_us", study.time_us}};
  for (std::size_t i = 0; i < traces.size(); ++i)
    json["ranks"].push_back({{"rank", traces[i].rank},
                             {"nodes", traces[i].nodes.size()},
                             {"end_us", study.ranks[i].end_us},
                             {"compute_us", study.ranks[i].compute_us},
                             {"exposed_us", study.ranks[i].exposed_us}});
  return json.dump(1);
}

}  // namespace peal::training
