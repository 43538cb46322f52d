#include <sim/library.hpp>

#include <base/names.hpp>

#include "way.hpp"

namespace peal::sim {

namespace {
constexpr std::string_view kLibraries[] = {"peal", "nccl", "rccl", "hccl"};
}

std::string_view name_of(Library library) noexcept {
  const auto index = static_cast<std::size_t>(library);
  return index < std::size(kLibraries) ? kLibraries[index] : std::string_view{};
}

std::optional<Library> library_of(std::string_view text) noexcept {
  for (std::size_t i = 0; i < std::size(kLibraries); ++i)
    if (kLibraries[i] == text) return static_cast<Library>(i);
  return {};
}

Library library_of(const topology::Cluster& cluster) {
  for (const topology::Link& link : cluster.machine().links()) {
    if (link.kind == topology::LinkKind::hccs) return Library::hccl;
    if (link.kind == topology::LinkKind::xgmi && cluster.machine().device(link.a).kind == topology::DeviceKind::gpu) return Library::rccl;
  }
  return Library::nccl;
}

struct LibraryModel::State {
  topology::LibraryConstants constants;
  JobShape shape;
  NcclPlan plan;
  WayMaker maker;
};

LibraryModel::LibraryModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LibraryModel::LibraryModel(LibraryModel&&) noexcept = default;
LibraryModel& LibraryModel::operator=(LibraryModel&&) noexcept = default;
LibraryModel::~LibraryModel() = default;

Result<LibraryModel> LibraryModel::make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options,
                                        topology::LibraryConstants constants) {
  if (options.library == Library::peal)
    return fail(ErrorCode::invalid_argument, "Peal's own schedules are simulated, not modelled: leave --library out, or ask for nccl, rccl or hccl");
  PEAL_ASSIGN(const JobShape shape, shape_of(cluster, device_of_rank, options, constants));
  PEAL_ASSIGN(NcclPlan plan, NcclPlan::make(shape, options, constants));
  PEAL_ASSIGN(WayMaker maker, WayMaker::make(shape, options, constants));
  return LibraryModel(std::make_unique<State>(State{std::move(constants), shape, std::move(plan), std::move(maker)}));
}

Result<LibraryModel> LibraryModel::make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options) {
  PEAL_ASSIGN(topology::LibraryConstants constants, topology::LibraryConstants::from_data());
  return make(cluster, std::move(device_of_rank), std::move(options), std::move(constants));
}

Result<LibraryWay> LibraryModel::way(const LibraryCall& call) const {
  if (call.collective == Collective::barrier)
    return fail(ErrorCode::unsupported, "{} has no barrier: an all_reduce of 4 bytes is what is used instead", "NCCL");
  PEAL_ASSIGN(const NcclChoice choice, state_->plan.choose(call));
  return state_->maker.way(call, choice);
}

Result<LibraryAnswer> LibraryModel::predict(const LibraryCall& call) const {
  PEAL_ASSIGN(const LibraryWay way, this->way(call));
  return LibraryAnswer{time_of(way, state_->constants), std::string(way.algorithm), std::string(way.protocol), state_->shape.channels,
                       constants_of(way, state_->constants)};
}

int LibraryModel::ranks() const { return state_->shape.ranks; }

std::string LibraryModel::evidence(const LibraryCall& call, const LibraryAnswer& answer) const {
  const bool is_between = state_->shape.nodes > 1;
  const auto bytes = static_cast<double>(call.bytes.value);
  std::string text = "no measured case is like this";
  for (const topology::LibraryAccuracy& a : state_->constants.accuracy()) {
    if (a.is_between_nodes != is_between || bytes < a.from || bytes >= a.to || a.cases == 0) continue;
    text = fmt::format("±{:.0f} %, from {} cases {}", 100 * a.median, a.cases, is_between ? "of several nodes" : "inside a node");
    if (a.kept_out > 0) text += fmt::format(" (±{:.0f} % on machines that were kept out)", 100 * a.kept_out);
  }
  std::string without, alone;
  for (const int i : answer.constants) {
    const topology::LibraryConstant& c = state_->constants.all()[static_cast<std::size_t>(i)];
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
