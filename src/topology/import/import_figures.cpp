#include "import_figures.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>
#include "most_figures.hpp"
#include "read_wire_figures.hpp"

namespace peal::topology {
namespace {

/// What NCCL takes a speed for that it does not know: GT/s of PCIe 3.
constexpr double kAssumedTransfers = 8;

/// Of a list that must be there.
template <class Row>
Status read_rows(YamlFields& top, std::string_view key, const std::string& file, Row row) {
  PEAL_ASSIGN(const YamlNode* list, top.list(key));
  if (list == nullptr || list->items.empty()) return fail(ErrorCode::corrupt, "{}: no '{}': add the list", top.where(), key);
  return each_row(top, key, file, "row", row);
}

/// A word that may be empty.
std::string word_of(YamlFields& fields, std::string_view key) {
  const YamlNode* node = fields.find(key);
  return node == nullptr ? std::string() : node->text;
}

}  // namespace

Status ImportFigures::read_defaults(YamlFields& top, const std::string& name) {
  const YamlNode* defaults = top.find("defaults");
  if (defaults == nullptr) return fail(ErrorCode::corrupt, "{}: no 'defaults': add them", top.where());
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(*defaults, name, "row"));
  PEAL_ASSIGN(local_gbps_, fields.number("local_GBps", 1, kMostGBps));
  PEAL_ASSIGN(net_mbps_, fields.number("net_Mbps", 1, 1e9));
  PEAL_ASSIGN(pcie_width_, fields.integer("pcie_width", 1, 32, 16));
  PEAL_ASSIGN(default_source_, fields.text("source"));
  PEAL_TRY(fields.finish());
  return {};
}

Result<ImportFigures> ImportFigures::read(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, name));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, name, "file of figures"));
  ImportFigures all;
  PEAL_TRY(read_rows(top, "pcie_plan", name, [&](YamlFields& fields) -> Status {
    PlanRow row{word_of(fields, "text"), 0, {}};
    PEAL_ASSIGN(row.lane, fields.number("lane", 1, 1e6));
    PEAL_ASSIGN(row.source, fields.text("source"));
    all.plan_.push_back(std::move(row));
    return {};
  }));
  PEAL_TRY(read_rows(top, "nvlink", name, [&](YamlFields& fields) -> Status {
    NvlinkRow row;
    PEAL_ASSIGN(row.from, fields.integer("from", 0, 9999, 0));
    PEAL_ASSIGN(row.to, fields.integer("to", row.from, 9999, 9999));
    PEAL_ASSIGN(row.wire, read_wire_figures(fields));
    all.nvlink_.push_back(std::move(row));
    return {};
  }));
  PEAL_TRY(read_rows(top, "xgmi", name, [&](YamlFields& fields) -> Status {
    XgmiRow row{word_of(fields, "gfx"), {}};
    PEAL_ASSIGN(row.wire, read_wire_figures(fields));
    all.xgmi_.push_back(std::move(row));
    return {};
  }));
  PEAL_TRY(read_rows(top, "between_cpus", name, [&](YamlFields& fields) -> Status {
    CpuRow row;
    PEAL_ASSIGN(row.arch, fields.text("arch"));
    PEAL_ASSIGN(row.vendor, fields.text("vendor", ""));
    PEAL_ASSIGN(row.family, fields.integer("family", 0, 9999, -1));
    PEAL_ASSIGN(row.model_from, fields.integer("model_from", 0, 9999, -1));
    PEAL_ASSIGN(row.wire, read_wire_figures(fields));
    all.cpus_.push_back(std::move(row));
    return {};
  }));
  PEAL_TRY(read_rows(top, "names", name, [&](YamlFields& fields) -> Status {
    if (const auto source = fields.text("source"); !source) return pass_on(source.error());
    const YamlNode* ids = fields.find("ids");
    if (ids != nullptr)
      for (const auto& [id, value] : ids->fields) all.names_.emplace(id, value.text);
    return {};
  }));
  PEAL_TRY(all.read_defaults(top, name));
  PEAL_TRY(top.finish());
  return all;
}

const Result<ImportFigures>& ImportFigures::all() {
  static const Result<ImportFigures> figures = []() -> Result<ImportFigures> {
    const std::string path = (std::filesystem::path(data_directory()) / "import" / "nccl.yaml").string();
    PEAL_ASSIGN(const std::string text, read_small_file(path));
    return read(text, path);
  }();
  return figures;
}

const ImportFigures::PlanRow& ImportFigures::plan_of(std::string_view speed) const {
  const auto it =
      std::find_if(plan_.begin(), plan_.end(), [&](const PlanRow& row) { return !row.text.empty() && speed.starts_with(row.text); });
  return it == plan_.end() ? plan_.back() : *it;
}

ImportFigures::Pcie ImportFigures::pcie(std::string_view speed, int width) const {
  Pcie pcie;
  const PlanRow& plan = plan_of(speed);
  double gtps = 0;
  std::from_chars(speed.data(), speed.data() + speed.size(), gtps);
  const LinkGeneration* lane = pcie_generation(gtps);
  pcie.is_assumed = width < 1 || lane == nullptr;
  if (width < 1) width = pcie_width_;
  if (lane == nullptr) lane = pcie_generation(kAssumedTransfers);
  pcie.wire.usable = Bandwidth::gigabytes(width * plan.lane / 80);
  pcie.wire.usable_source = plan.source;
  pcie.wire.line = lane == nullptr ? pcie.wire.usable : Bandwidth{lane->bandwidth.value * width};
  const std::string assumed = pcie.is_assumed ? "not in the file, assumed " : "";
  pcie.wire.source = lane == nullptr ? fmt::format("{}{}", assumed, plan.source) : assumed + lane->of_width(width).origin();
  return pcie;
}

WireFigures ImportFigures::pcie_of_rate(double gbps) const {
  WireFigures wire;
  wire.line = wire.usable = Bandwidth::gigabytes(gbps);
  // A power of two of lanes fits several generations; what NCCL plans with is the same share of all of them but the first two.
  for (const LinkGeneration* lane : pcie_generations()) {
    for (int width = 1; width <= 32; width *= 2) {
      const double rate = lane->bandwidth.gigabytes() * width;
      if (std::abs(rate - gbps) > 0.005 * rate) continue;
      const auto plan = std::find_if(plan_.begin(), plan_.end(), [&](const PlanRow& row) {
        double gtps = 0;
        std::from_chars(row.text.data(), row.text.data() + row.text.size(), gtps);
        return gtps == lane->lane_gbps;
      });
      if (plan == plan_.end()) continue;
      wire.usable = Bandwidth::gigabytes(width * plan->lane / 80);
      wire.usable_source = plan->source;
      return wire;
    }
  }
  return wire;
}

WireFigures ImportFigures::nvlink(int sm) const {
  for (const NvlinkRow& row : nvlink_)
    if (sm >= row.from && sm <= row.to) return row.wire;
  return nvlink_.back().wire;
}

WireFigures ImportFigures::xgmi(std::string_view gfx) const {
  for (const XgmiRow& row : xgmi_)
    if (gfx.starts_with(row.gfx)) return row.wire;
  return xgmi_.back().wire;
}

WireFigures ImportFigures::between_cpus(std::string_view arch, std::string_view vendor, int family, int model) const {
  for (const CpuRow& row : cpus_) {
    if (row.arch != arch || (!row.vendor.empty() && row.vendor != vendor)) continue;
    if (row.family >= 0 && (row.family != family || model < row.model_from)) continue;
    return row.wire;
  }
  return local();
}

WireFigures ImportFigures::local() const {
  WireFigures wire;
  wire.line = wire.usable = Bandwidth::gigabytes(local_gbps_);
  wire.source = wire.usable_source = fmt::format("no figure known; {}: no limit", default_source_);
  return wire;
}

std::string_view ImportFigures::name_of(std::string_view pci_id) const {
  const auto it = names_.find(std::string(pci_id));
  return it == names_.end() ? std::string_view() : std::string_view(it->second);
}

}  // namespace peal::topology
