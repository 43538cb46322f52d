#include "import_rates.hpp"

#include <algorithm>
#include <cmath>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>
#include "most_figures.hpp"
#include "read_wire_figures.hpp"
#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr int kMostLinksOfGpu = 1000;
/// The driver prints three digits behind the point.
constexpr double kDriverDigits = 0.002;

}  // namespace

Status ImportRates::read_file(const std::string& path) {
  PEAL_ASSIGN(const std::string text, read_small_file(path));
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, path));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, path, "file of assumptions"));
  PEAL_TRY(each_row(top, "assumed", path, "assumption", [&](YamlFields& fields) -> Status {
    Assumed& one = assumed_.emplace_back();
    PEAL_ASSIGN(one.link, fields.text("link"));
    PEAL_ASSIGN(one.links, fields.integer("links", 0, kMostLinksOfGpu, 0));
    PEAL_ASSIGN(one.rate, read_wire_figures(fields));
    return {};
  }));
  PEAL_TRY(each_row(top, "driver_rates", path, "driver rate", [&](YamlFields& fields) -> Status {
    Driver& one = driver_.emplace_back();
    PEAL_ASSIGN(one.reported, fields.number("reported", 1e-6, kMostGBps));
    PEAL_ASSIGN(one.rate, read_wire_figures(fields));
    return {};
  }));
  PEAL_TRY(each_row(top, "lanes", path, "lane", [&](YamlFields& fields) -> Status {
    Lane& one = lanes_.emplace_back();
    PEAL_ASSIGN(one.speed, fields.text("speed"));
    PEAL_ASSIGN(const LinkGeneration* of, read_generation(fields));
    if (of != nullptr && of->lanes > 0) {
      one.rate.value = of->bandwidth.value / of->lanes;
      one.source = of->of_width(1).origin();
    } else {
      PEAL_ASSIGN(const double gigabits, fields.number("Gbps", 1e-6, kMostGBps));
      PEAL_ASSIGN(one.source, fields.text("source"));
      one.rate = Bandwidth::gigabytes(gigabits / 8);
    }
    return {};
  }));
  const YamlNode* nvlinks = top.find("nvlinks");
  PEAL_TRY(top.finish());
  if (nvlinks == nullptr) return {};
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(*nvlinks, path, "list of NVLink counts"));
  PEAL_ASSIGN(const YamlNode* whole, fields.list("whole"));
  PEAL_ASSIGN(most_nvlinks_, fields.integer("most", 1, kMostLinksOfGpu, kMostLinksOfGpu));
  PEAL_TRY(fields.text("source"));
  for (std::size_t i = 0; whole != nullptr && i < whole->items.size(); ++i)
    whole_.push_back(whole_number(whole->items[i].text, kMostLinksOfGpu).value_or(0));
  return fields.finish();
}

Result<ImportRates> ImportRates::read() {
  ImportRates rates;
  for (const char* file : {"smi.yaml", "network.yaml"}) PEAL_TRY(rates.read_file(data_directory() + "/import/" + file));
  return rates;
}

Result<const ImportRates*> ImportRates::load() {
  // The files do not change while a process runs, so they are read once.
  static const Result<ImportRates> rates = read();
  if (!rates) return pass_on(rates.error());
  return &*rates;
}

Result<WireFigures> ImportRates::assumed(std::string_view link, int nvlinks) const {
  const Assumed* found = nullptr;
  for (const Assumed& a : assumed_) {
    if (a.link != link || (a.links != 0 && a.links != nvlinks)) continue;
    if (found == nullptr || a.links != 0) found = &a;
  }
  if (found == nullptr)
    return fail(ErrorCode::corrupt, "{}/import has no assumption for links of kind '{}': add one", data_directory(), link);
  return found->rate;
}

const WireFigures* ImportRates::of_driver(double reported) const noexcept {
  for (const Driver& d : driver_)
    if (std::abs(d.reported - reported) < kDriverDigits) return &d.rate;
  return nullptr;
}

const ImportRates::Lane* ImportRates::lane(std::string_view speed) const noexcept {
  for (const Lane& l : lanes_)
    if (l.speed == speed) return &l;
  return nullptr;
}

bool ImportRates::is_whole_gpu(int nvlinks) const noexcept { return std::find(whole_.begin(), whole_.end(), nvlinks) != whole_.end(); }

}  // namespace peal::topology
