#include <base/names.hpp>
#include <sim/library.hpp>
#include <sim/simulate.hpp>

namespace peal::sim {

struct LibraryModel::State {
  Scene scene;
  mutable std::optional<std::pair<std::string, Row>>
      last;  ///< a row is simulated in and out of place at once, and both are asked for in turn
};

LibraryModel::LibraryModel(std::unique_ptr<const State> state) : state_(std::move(state)) {}
LibraryModel::~LibraryModel() = default;
LibraryModel::LibraryModel(LibraryModel&&) noexcept = default;
LibraryModel& LibraryModel::operator=(LibraryModel&&) noexcept = default;

Result<LibraryModel> LibraryModel::make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options) {
  if (options.library != Library::peal) return fail(ErrorCode::unsupported, "only Peal's own choice is simulated: type --library peal");
  auto state = std::make_unique<State>();
  Scene& scene = state->scene;
  scene.device_of_rank = std::move(device_of_rank);
  scene.resources = std::make_unique<topology::Resources>(topology::Cluster(cluster));
  PEAL_ASSIGN(scene.environment, tuning::environment_of(*scene.resources, scene.device_of_rank, scene.options));
  return LibraryModel(std::move(state));
}

Result<LibraryAnswer> LibraryModel::predict(const LibraryCall& call) const {
  tuning::Question question;
  question.call.collective = call.collective;
  question.call.bytes = call.bytes;
  question.call.type = call.type;
  question.call.root = call.root;
  std::string key = fmt::format("{} {} {} {}", name_of(call.collective), call.bytes.value, name_of(call.type), call.root);
  if (!state_->last || state_->last->first != key) {
    PEAL_ASSIGN(Row simulated, simulate(state_->scene, question));
    state_->last.emplace(std::move(key), std::move(simulated));
  }
  const Row& row = state_->last->second;
  const std::optional<Timing>& timing = call.is_in_place && row.in_place ? row.in_place : row.out_of_place;
  LibraryAnswer answer{Nanoseconds{timing->time_us * 1e3}, row.algorithm, std::string(row.protocol), 1, {}};
  for (const tuning::Level& level : state_->scene.environment.level)
    if (level.is_used) answer.constants.push_back(fmt::format("{}/{}", level.scope, row.protocol));
  return answer;
}

}  // namespace peal::sim
