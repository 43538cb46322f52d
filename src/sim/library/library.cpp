#include <sim/library.hpp>

#include <algorithm>
#include <sim/simulate.hpp>

#include "hccl_plan.hpp"
#include "way.hpp"

namespace peal::sim {

namespace {
constexpr std::string_view kLibraries[] = {"peal", "nccl", "rccl", "hccl"};

/// As people write it.
std::string_view title_of(Library library) {
  constexpr std::string_view kTitles[] = {"Peal", "NCCL", "RCCL", "HCCL"};
  return kTitles[static_cast<std::size_t>(library)];
}
}  // namespace

std::string_view name_of(Library library) noexcept {
  const auto index = static_cast<std::size_t>(library);
  return index < std::size(kLibraries) ? kLibraries[index] : std::string_view{};
}

Result<Library> parse_library(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kLibraries); ++i)
    if (kLibraries[i] == text) return static_cast<Library>(i);
  return fail(ErrorCode::invalid_argument, "there is no library '{}' here; type {}", text, fmt::join(kLibraries, ", "));
}

Library library_of(const topology::Cluster& cluster, int device) {
  if (!cluster.device(device).attribute("gfx").empty()) return Library::rccl;
  const topology::Graph& machine = cluster.machine();
  for (const int link : machine.links_of(cluster.local_of(device)))
    if (machine.link(link).kind == topology::LinkKind::hccs) return Library::hccl;
  return Library::nccl;
}

struct LibraryModel::State {
  topology::LibraryConstants constants;
  int ranks = 0;
  int nodes = 0;
  std::optional<Scene> scene;  // of Peal's own schedules; then nothing below
  JobShape shape;
  std::optional<HcclPlan> hccl;  // then neither of these
  NcclPlan plan;
  WayMaker maker;
};

namespace {

Result<LibraryAnswer> simulated(const Scene& scene, const LibraryCall& call) {
  tuning::Question question;
  question.call.collective = call.collective;
  question.call.bytes = call.bytes;
  question.call.type = call.type;
  question.call.root = call.root;
  question.call.is_in_place = call.is_in_place && works_in_place(call.collective);
  PEAL_ASSIGN(const Row row, simulate_call(scene, question));
  const std::optional<Timing>& timing = question.call.is_in_place ? row.in_place : row.out_of_place;
  LibraryAnswer answer{Nanoseconds{timing->time_us * 1e3}, row.algorithm, std::string(row.protocol), 1, {}};
  for (const tuning::Level& level : scene.environment.level)
    if (level.is_used) answer.constants.push_back(fmt::format("{}/{}", level.scope, row.protocol));
  return answer;
}

Status check_maker(const topology::Cluster& cluster, const std::vector<int>& device_of_rank, Library whose) {
  const Library own = device_of_rank.empty() ? whose : library_of(cluster, device_of_rank.front());
  if (own == whose) return {};
  return fail(ErrorCode::unsupported, "{} does not run on {}: type --library {}", title_of(whose),
              cluster.device(device_of_rank.front()).name, name_of(own));
}

}  // namespace

LibraryModel::LibraryModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LibraryModel::LibraryModel(LibraryModel&&) noexcept = default;
LibraryModel& LibraryModel::operator=(LibraryModel&&) noexcept = default;
LibraryModel::~LibraryModel() = default;

Result<LibraryModel> LibraryModel::make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options,
                                        topology::LibraryConstants constants) {
  auto state = std::make_unique<State>();
  if (options.whose == Library::peal) {
    PEAL_ASSIGN(state->scene, make_scene(topology::Cluster(cluster), std::move(device_of_rank)));
    state->ranks = state->scene->environment.ranks;
    state->nodes = state->scene->environment.nodes;
    return LibraryModel(std::move(state));
  }
  PEAL_TRY(check_maker(cluster, device_of_rank, options.whose));
  PEAL_ASSIGN(state->shape, shape_of(cluster, device_of_rank, options, constants));
  if (options.whose == Library::hccl) {
    PEAL_ASSIGN(state->hccl, HcclPlan::make(state->shape, cluster.device(device_of_rank.front()).name, options, constants));
  } else {
    if (options.was_published && options.version.empty()) {
      PEAL_ASSIGN(options.version, version_of_its_time(state->shape, constants));
    }
    PEAL_ASSIGN(state->plan, NcclPlan::make(state->shape, options, constants));
    PEAL_ASSIGN(state->maker, WayMaker::make(state->shape, options, constants));
  }
  state->ranks = state->shape.ranks;
  state->nodes = state->shape.nodes;
  state->constants = std::move(constants);
  return LibraryModel(std::move(state));
}

Result<LibraryModel> LibraryModel::make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options) {
  PEAL_ASSIGN(topology::LibraryConstants constants, topology::LibraryConstants::from_data());
  return make(cluster, std::move(device_of_rank), std::move(options), std::move(constants));
}

Result<LibraryWay> LibraryModel::way(const LibraryCall& call) const {
  if (state_->scene) return fail(ErrorCode::unsupported, "Peal's schedules have no formula: they are simulated");
  if (call.collective == Collective::barrier)
    return fail(ErrorCode::unsupported, "{} has no barrier: an all_reduce of 4 bytes is what is used instead",
                title_of(state_->hccl ? Library::hccl : Library::nccl));
  if (state_->hccl) return state_->hccl->way(call);
  PEAL_ASSIGN(const NcclChoice choice, state_->plan.choose(call));
  return state_->maker.way(call, choice);
}

Result<LibraryAnswer> LibraryModel::predict(const LibraryCall& call) const {
  if (state_->scene) return simulated(*state_->scene, call);
  PEAL_ASSIGN(const LibraryWay way, this->way(call));
  LibraryAnswer answer{
      time_of(way, state_->constants), way.algorithm, std::string(way.protocol), state_->hccl ? 0 : state_->shape.channels, {}};
  for (const int i : constants_of(way, state_->constants))
    answer.constants.push_back(state_->constants.all()[static_cast<std::size_t>(i)].name);
  return answer;
}

int LibraryModel::ranks() const { return state_->ranks; }

std::string LibraryModel::evidence(const LibraryCall& call, const LibraryAnswer& answer) const {
  if (state_->hccl) return "no measured case is of HCCL: its own choice of algorithms, and what it takes a step to last";
  const bool is_between = state_->nodes > 1;
  const auto bytes = static_cast<double>(call.bytes.value);
  std::string text = "no measured case is like this";
  for (const std::string_view never : {"PAT", "CollNetDirect", "CollNetChain"})
    if (answer.algorithm == never) return fmt::format("no measured case went by {}", never);
  if (answer.algorithm == "NVLS" && is_between) return "no measured case went by NVLS over switches that sum";
  for (const topology::LibraryAccuracy& a : state_->constants.accuracy()) {
    if (a.is_between_nodes != is_between || bytes < a.from || bytes >= a.to || a.cases == 0) continue;
    text = fmt::format("±{:.0f} %, from {} cases {}", 100 * a.median, a.cases, is_between ? "of several nodes" : "inside a node");
    if (state_->nodes > a.most_nodes) text += fmt::format(", none of more than {}", a.most_nodes);
    if (a.kept_out > 0) text += fmt::format(" (±{:.0f} % on machines that were kept out)", 100 * a.kept_out);
  }
  std::string without, alone;
  for (const topology::LibraryConstant& c : state_->constants.all()) {
    if (std::find(answer.constants.begin(), answer.constants.end(), c.name) == answer.constants.end()) continue;
    if (c.machines.size() > 1) continue;
    std::string& list = c.machines.empty() ? without : alone;
    list += (list.empty() ? "" : ", ") + c.name;
  }
  if (!without.empty()) text += "; nothing was measured for " + without;
  if (!alone.empty()) text += "; one machine alone for " + alone;
  return text;
}

const topology::LibraryConstants& LibraryModel::constants() const { return state_->constants; }

}  // namespace peal::sim
