#include <base/partial_sums.hpp>
#include <CLI/CLI.hpp>
#include <cli/question_words.hpp>
#include <comm/host_environment.hpp>
#include <discovery/discover.hpp>
#include <schedule/registry.hpp>
#include <sim/fault_words.hpp>
#include <sim/pictures.hpp>
#include <topology/degrade.hpp>

namespace peal::cli {

void add_question_options(CLI::App& command, QuestionWords& words) {
  command.add_option("collective", words.collective, "all_reduce, all_gather, broadcast, ...")->required();
  add_cluster_options(command, words.cluster);
  command.add_option("--ranks,-n", words.ranks, "Ranks (default: one on every device; on this host: one a core)");
  command.add_option("--places", words.places,
                     "Where on the cluster the ranks sit, counted through its devices: 0-31,40 (default: from the first on)");
  command.add_option("--dtype", words.type, "Element type")->capture_default_str();
  command.add_option("--root", words.root, "Root rank")->capture_default_str();
  command.add_option("--algorithm", words.algorithm, "Force an algorithm");
  command.add_option("--protocol", words.protocol, "Force a protocol");
  command.add_option("--transport", words.transport, "Wires on a host: auto, shm or tcp")->capture_default_str();
  command.add_option("--groups", words.groups,
                     "Groups of K neighbouring ranks that make the call at the same time; the slowest is answered for");
  command.add_option("--partial-sums", words.partial_sums, "How sums of f16, bf16 and f8 travel until they are finished: element or f32")
      ->capture_default_str();
  command
      .add_option("--dead-link", words.dead_links,
                  "A link or port, by the name that `peal sim --utilisation` prints, that is gone in both directions")
      ->allow_extra_args(false);
  command.add_option("--cores", words.cores,
                     "On this host: the distance of the cores that the table of `peal tune` is asked for: siblings, near or far "
                     "(default: the one that most was measured at)");
  command.add_flag("--deterministic", words.deterministic, "Only canonical summation");
}

namespace {

/// Of ranks that sit where the words say.
Result<sim::Scene> scene_at(topology::Cluster cluster, const QuestionWords& words, const tuning::EnvironmentOptions& options) {
  if (words.cluster.machine.empty() && words.cluster.file.empty())
    return fail(ErrorCode::invalid_argument, "--places are of a cluster; give --machine or --file, or leave it out");
  PEAL_ASSIGN(std::vector<int> devices, devices_of_places(words, cluster));
  return sim::make_scene(std::move(cluster), std::move(devices), options, words.groups);
}

}  // namespace

Result<std::vector<int>> devices_of_places(const QuestionWords& words, const topology::Cluster& cluster) {
  if (words.ranks > 0) return fail(ErrorCode::invalid_argument, "--places says how many ranks there are; leave --ranks out");
  PEAL_ASSIGN(const std::vector<int> places, sim::parse_places(words.places));
  return sim::devices_at(cluster, places);
}

Result<sim::Scene> scene_of(const QuestionWords& words) {
  if (!words.nccl_version.empty() || words.processes != "each")
    return fail(ErrorCode::invalid_argument, "--library-version and --processes are of --library nccl; give it, or leave them out");
  PEAL_ASSIGN(topology::Cluster cluster, cluster_of(words.cluster));
  for (const std::string& name : words.dead_links) {
    const topology::Resources resources{std::move(cluster)};
    PEAL_ASSIGN(const topology::ResourceId id, topology::find_resource(resources, name));
    PEAL_ASSIGN(cluster, topology::without_link(resources, id));
  }
  tuning::EnvironmentOptions options;
  if (words.transport == "shm")
    options.wires = tuning::Wires::shared_memory;
  else if (words.transport == "tcp")
    options.wires = tuning::Wires::socket;
  else if (words.transport != "auto")
    return fail(ErrorCode::invalid_argument, "there is no transport \"{}\" here; type auto, shm or tcp", words.transport);
  const bool is_this_host = words.cluster.machine.empty() && words.cluster.file.empty();
  if (is_this_host) {
    PEAL_ASSIGN(options.protocols, comm::host_protocols());
  }
  if (words.ranks < 0) return fail(ErrorCode::invalid_argument, "--ranks {} is no number of ranks; give 1 or more", words.ranks);
  PEAL_ASSIGN(sim::Scene scene, words.places.empty() ? sim::make_scene(std::move(cluster), words.ranks, options, words.groups)
                                                     : scene_at(std::move(cluster), words, options));
  if (!is_this_host && !words.cores.empty())
    return fail(ErrorCode::invalid_argument, "--cores asks what was measured on this host; leave it out for other machines");
  if (!is_this_host) return scene;
  std::optional<tuning::CoreDistance> cores;
  if (!words.cores.empty()) {
    PEAL_ASSIGN(cores, tuning::parse_core_distance(words.cores));
  }
  std::vector<tuning::Environment*> environments{&scene.environment};
  for (sim::Group& group : scene.further) environments.push_back(&group.environment);
  for (tuning::Environment* environment : environments) {
    PEAL_TRY(tuning::add_measurements(*environment, [] { return discovery::host_fingerprint(); }));
    if (cores) environment->stay_at(*cores);
  }
  return scene;
}

std::string timeline_of(const QuestionWords& words, const sim::Scene& scene, const sim::Study& study) {
  const sim::Row& row = study.row;
  const std::string lines[] = {fmt::format("{} ranks{}, {} ({}), {:.2f} us, simulated", scene.environment.ranks,
                                           scene.groups() > 1 ? fmt::format(" in each of {} groups", scene.groups()) : "",
                                           scene.resources->cluster().machine().title, sim::table_of(scene, {}).wires,
                                           study.outcome.time.microseconds())};
  return sim::timeline_svg(fmt::format("{} of {}: {}, {}", words.collective, to_text(Bytes{row.bytes}), row.algorithm, row.protocol), lines,
                           study.outcome.trace.events(), static_cast<int>(study.outcome.rank_done.size()));
}

Result<tuning::Question> question_of(const QuestionWords& words, int ranks) {
  tuning::Question question;
  PEAL_ASSIGN(question.call.collective, parse_collective(words.collective));
  PEAL_ASSIGN(question.call.type, parse_data_type(words.type));
  if (words.root < 0 || words.root >= ranks)
    return fail(ErrorCode::invalid_argument, "--root {} is not a rank of {}; give 0 to {}", words.root, ranks, ranks - 1);
  question.call.root = words.root;
  if (ranks > 1 && question.call.collective == Collective::send_recv) question.call.peer = (words.root + 1) % ranks;
  if (!words.algorithm.empty()) PEAL_TRY(schedule::find_algorithm(question.call.collective, words.algorithm));
  if (!words.protocol.empty()) PEAL_TRY(schedule::parse_protocol(words.protocol));
  PEAL_ASSIGN(question.call.wide_partials, parse_partial_sums(words.partial_sums));
  question.algorithm = words.algorithm;
  question.protocol = words.protocol;
  question.is_deterministic = words.deterministic;
  return question;
}

}  // namespace peal::cli
