// data/links/*.yaml: the form is described in topology/link_catalogue.hpp.
#include <algorithm>
#include <base/names.hpp>
#include <charconv>
#include <filesystem>
#include <set>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>

#include "most_figures.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostLinkRecords = 10'000;
constexpr int kMostLanes = 4096;
/// Tools print speeds with few digits.
constexpr double kPrintedShare = 0.02;
constexpr double kMostRate = 1e6;
constexpr double kLeastRate = 1e-6;

/// Letters, digits, dots and dashes: a name is typed behind `of:` and printed in tables.
Result<std::string> read_name(YamlFields& fields) {
  PEAL_ASSIGN(std::string name, fields.text("name"));
  const bool fits = name.size() <= 64 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
                    });
  if (!fits)
    return fail(ErrorCode::corrupt, "{}: '{}' is no name: use up to 64 of a-z, 0-9, - and .", fields.where(*fields.find("name")), name);
  return name;
}

/// "128/130" -> 0.9846; "256/257 x 514/544" -> the product. Nothing where it is no such thing or more than one.
std::optional<double> read_share(std::string_view text) {
  double share = 1;
  while (true) {
    double parts[2] = {};
    for (int i = 0; i < 2; ++i) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts[i]);
      if (error != std::errc{} || !(parts[i] >= 1 && parts[i] <= 1e6)) return std::nullopt;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      if (i == 0 && !text.starts_with('/')) return std::nullopt;
      if (i == 0) text.remove_prefix(1);
    }
    share *= parts[0] / parts[1];
    if (text.empty()) return share <= 1 && share > 1e-3 ? std::optional(share) : std::nullopt;
    if (!text.starts_with(" x ")) return std::nullopt;
    text.remove_prefix(3);
  }
}

/// The parts of the line rate. With lanes the rate follows from them; a published `GBps` beside them must be the same within a hundredth.
Status read_line(const YamlNode& node, const std::string& file, bool has_widths, LinkGeneration& link) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "line"));
  PEAL_ASSIGN(link.lane_gbps, fields.number("lane_Gbps", kLeastRate, kMostRate, 0));
  PEAL_ASSIGN(link.lanes, fields.integer("lanes", 1, kMostLanes, 0));
  PEAL_ASSIGN(link.modulation, fields.text("modulation", ""));
  PEAL_ASSIGN(link.coding, fields.text("coding", ""));
  PEAL_ASSIGN(const double published, fields.number("GBps", kLeastRate, kMostRate, 0));
  PEAL_ASSIGN(link.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  if (!link.coding.empty()) {
    const auto share = read_share(link.coding);
    if (!share) {
      return fail(ErrorCode::corrupt, "{}: coding is '{}': write the share of bits left for data, such as 128/130",
                  fields.where(*fields.find("coding")), link.coding);
    }
    link.coding_share = *share;
  }
  if (has_widths) link.lanes = 1;
  const bool has_lanes = link.lane_gbps > 0 && link.lanes > 0;
  if (!has_lanes && !(published > 0))
    return fail(ErrorCode::corrupt, "{}: a line needs lane_Gbps and lanes, or GBps where no lanes are published", fields.where());
  const double computed = link.lane_gbps * link.lanes * link.coding_share / 8;
  if (has_lanes && published > 0 && std::abs(computed - published) > 0.01 * published) {
    return fail(ErrorCode::corrupt, "{}: {} is {:.6g} GB/s, the line says {:.6g}: correct the parts or drop GBps", fields.where(),
                link.arithmetic(), computed, published);
  }
  link.bandwidth = Bandwidth::gigabytes(has_lanes ? computed : published);
  return {};
}

/// A rate or a time with its own source: {GBps: 20, source: "..."}.
struct Sourced {
  double value = 0;
  std::string source;
};

Result<Sourced> read_sourced(YamlFields& outer, std::string_view what, std::string_view key, double most, const std::string& file) {
  Sourced read;
  const YamlNode* node = outer.find(what);
  if (node == nullptr) return read;
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(*node, file, what));
  PEAL_ASSIGN(read.value, fields.number(key, 0, most));
  PEAL_ASSIGN(read.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  return read;
}

Result<LinkUse> read_use(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "use"));
  LinkUse use;
  PEAL_ASSIGN(use.device, fields.text("device"));
  PEAL_ASSIGN(use.links, fields.integer("links", 1, 100'000, 1));
  PEAL_ASSIGN(const double both, fields.number("both_GBps", kLeastRate, kMostRate, 0));
  use.both = Bandwidth::gigabytes(both);
  PEAL_ASSIGN(use.note, fields.text("note", ""));
  PEAL_ASSIGN(use.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  return use;
}

Result<std::vector<int>> read_widths(YamlFields& fields) {
  PEAL_ASSIGN(const YamlNode* list, fields.list("widths"));
  std::vector<int> widths;
  if (list == nullptr) return widths;
  for (const YamlNode& item : list->items) {
    int width = 0;
    const char* end = item.text.data() + item.text.size();
    const auto [stop, error] = std::from_chars(item.text.data(), end, width);
    if (error != std::errc{} || stop != end || width < 1 || width > 64 || widths.size() >= 16)
      return fail(ErrorCode::corrupt, "{}: widths are up to 16 numbers of lanes from 1 to 64", fields.where(item));
    widths.push_back(width);
  }
  return widths;
}

/// One record; with `widths` one generation a width, whose rates are the lane's times the width.
Status read_link(const YamlNode& node, const std::string& file, const std::string& family, LinkCatalogue& into) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "link generation"));
  LinkGeneration link{.family = family};
  PEAL_ASSIGN(link.name, read_name(fields));
  link.generation = link.name;
  PEAL_ASSIGN(link.title, fields.text("title"));
  PEAL_ASSIGN(const std::string kind, fields.text("kind"));
  if (!link_kind_of(kind)) return fail(ErrorCode::corrupt, "{}: '{}' is no kind of link", fields.where(*fields.find("kind")), kind);
  link.kind = *link_kind_of(kind);
  PEAL_ASSIGN(const std::vector<int> widths, read_widths(fields));
  const YamlNode* line = fields.find("line");
  if (line == nullptr)
    return fail(ErrorCode::corrupt, "{}: '{}' has no line: add `line: {{GBps: ..., source: ...}}`", fields.where(), link.name);
  PEAL_TRY(read_line(*line, file, !widths.empty(), link));
  PEAL_ASSIGN(const Sourced usable, read_sourced(fields, "usable", widths.empty() ? "GBps" : "GBps_a_lane", kMostRate, file));
  PEAL_ASSIGN(const Sourced latency, read_sourced(fields, "latency", "ns", kMostNanoseconds, file));
  PEAL_ASSIGN(link.scope, fields.text("scope", ""));
  PEAL_ASSIGN(const YamlNode* uses, fields.list("uses"));
  PEAL_TRY(fields.finish());
  link.usable = usable.source.empty() ? link.bandwidth : Bandwidth::gigabytes(usable.value);
  if (link.usable.value <= 0 || link.usable > link.bandwidth)
    return fail(ErrorCode::corrupt, "{}: usable of '{}' is {:.6g} GB/s, the line rate {:.6g}", fields.where(), link.name,
                link.usable.gigabytes(), link.bandwidth.gigabytes());
  link.usable_source = usable.source;
  link.latency = {latency.value};
  link.latency_source = latency.source;
  if (uses != nullptr) {
    for (const YamlNode& item : uses->items) {
      PEAL_ASSIGN(LinkUse use, read_use(item, file));
      link.uses.push_back(std::move(use));
    }
  }
  if (widths.empty()) into.links.push_back(std::move(link));
  for (const int width : widths) into.links.push_back(link.of_width(width));
  return {};
}

Result<SwitchGeneration> read_switch(const YamlNode& node, const std::string& file, const std::string& family) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "switch generation"));
  SwitchGeneration chip{.family = family};
  PEAL_ASSIGN(chip.name, read_name(fields));
  PEAL_ASSIGN(chip.title, fields.text("title"));
  PEAL_ASSIGN(chip.ports, fields.integer("ports", 1, 100'000, 0));
  PEAL_ASSIGN(const double port, fields.number("port_GBps", kLeastRate, kMostRate));
  chip.port = Bandwidth::gigabytes(port);
  PEAL_ASSIGN(const double both, fields.number("both_GBps", kLeastRate, kMostRate, 0));
  chip.both = Bandwidth::gigabytes(both);
  PEAL_ASSIGN(chip.reduction, fields.text("reduction", ""));
  PEAL_ASSIGN(chip.multicast, fields.text("multicast", ""));
  PEAL_ASSIGN(chip.in_box, fields.text("in_box", ""));
  PEAL_ASSIGN(chip.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  return chip;
}

Result<MemoryGeneration> read_memory(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "memory generation"));
  MemoryGeneration memory;
  PEAL_ASSIGN(memory.name, read_name(fields));
  PEAL_ASSIGN(memory.title, fields.text("title"));
  PEAL_ASSIGN(memory.device, fields.text("device"));
  PEAL_ASSIGN(memory.pin_gbps, fields.number("pin_Gbps", kLeastRate, kMostRate, 0));
  PEAL_ASSIGN(memory.bits, fields.integer("bits", 1, 1 << 20, 0));
  PEAL_ASSIGN(const double published, fields.number("GBps", kLeastRate, kMostRate, 0));
  memory.published = Bandwidth::gigabytes(published);
  PEAL_ASSIGN(memory.capacity_gb, fields.number("capacity_GB", kLeastRate, kMostRate, 0));
  PEAL_ASSIGN(memory.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  const bool has_parts = memory.pin_gbps > 0 && memory.bits > 0;
  if (!has_parts && !(published > 0)) return fail(ErrorCode::corrupt, "{}: a memory needs pin_Gbps and bits, or GBps", fields.where());
  memory.bandwidth = has_parts ? Bandwidth::gigabytes(memory.pin_gbps * memory.bits / 8) : memory.published;
  return memory;
}

Result<int> read_bytes(const YamlNode& node, const std::string& where) {
  int bytes = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, bytes);
  if (error != std::errc{} || stop != end || bytes < 1 || bytes > 1 << 24)
    return fail(ErrorCode::corrupt, "{}: '{}' is no number of bytes from 1 to 16777216", where, node.text);
  return bytes;
}

Result<FrameOverhead> read_frame(const YamlNode& node, const std::string& file, const std::string& family) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "frame"));
  FrameOverhead frame{.family = family};
  PEAL_ASSIGN(frame.name, read_name(fields));
  PEAL_ASSIGN(frame.title, fields.text("title"));
  const YamlNode* parts = fields.find("parts");
  PEAL_ASSIGN(const YamlNode* payloads, fields.list("payloads"));
  PEAL_ASSIGN(frame.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  if (parts == nullptr || parts->kind != YamlNode::Kind::map || parts->fields.empty() || parts->fields.size() > 32)
    return fail(ErrorCode::corrupt, "{}: a frame needs its parts, such as `parts: {{header: 16, check: 4}}`", fields.where());
  for (const auto& [part, value] : parts->fields) {
    PEAL_ASSIGN(const int bytes, read_bytes(value, fields.where(value)));
    frame.parts.emplace_back(part, bytes);
  }
  for (std::size_t i = 0; payloads != nullptr && i < payloads->items.size() && i < 32; ++i) {
    PEAL_ASSIGN(const int bytes, read_bytes(payloads->items[i], fields.where(payloads->items[i])));
    frame.payloads.push_back(bytes);
  }
  return frame;
}

/// `value: 12`, or `value: [9.6, 13.2]` for a range.
Status read_value(const YamlNode& node, const std::string& where, LinkFact& fact) {
  const bool is_range = node.kind == YamlNode::Kind::list && node.items.size() == 2;
  if (node.kind != YamlNode::Kind::scalar && !is_range)
    return fail(ErrorCode::corrupt, "{}: a value is a number, or a range of two such as [9.6, 13.2]", where);
  double* const into[2] = {&fact.low, &fact.high};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string& word = is_range ? node.items[i].text : node.text;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *into[i]);
    if (error != std::errc{} || end != word.data() + word.size() || !(std::abs(*into[i]) <= 1e15))
      return fail(ErrorCode::corrupt, "{}: '{}' is no number", where, word);
  }
  if (fact.high < fact.low) return fail(ErrorCode::corrupt, "{}: the range ends below its start", where);
  fact.has_value = true;
  return {};
}

Result<LinkFact> read_fact(const YamlNode& node, const std::string& file, const std::string& family) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "fact"));
  LinkFact fact;
  PEAL_ASSIGN(fact.topic, fields.text("topic", family));
  PEAL_ASSIGN(fact.about, fields.text("about"));
  PEAL_ASSIGN(fact.what, fields.text("what"));
  if (const YamlNode* value = fields.find("value")) PEAL_TRY(read_value(*value, fields.where(*value), fact));
  PEAL_ASSIGN(fact.unit, fields.text("unit", ""));
  PEAL_ASSIGN(fact.text, fields.text("text", ""));
  PEAL_ASSIGN(fact.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  if (!fact.has_value && fact.text.empty()) return fail(ErrorCode::corrupt, "{}: a fact needs a value or a text", fields.where());
  return fact;
}

/// Calls `read` for the records of a list that may be absent.
template <class Read>
Status each_of(const YamlNode* list, const std::string& name, Read read) {
  if (list == nullptr) return {};
  if (list->items.size() > kMostLinkRecords)
    return fail(ErrorCode::corrupt, "{}:{}: more than {} records: split the file", name, list->line, kMostLinkRecords);
  for (const YamlNode& node : list->items) PEAL_TRY(read(node));
  return {};
}

/// Refuses a name that is there already: `of:` must mean one thing.
Status refuse_doubles(const LinkCatalogue& all, const std::string& name) {
  std::set<std::string_view> seen;
  for (const LinkGeneration& link : all.links)
    if (!seen.insert(link.name).second) return fail(ErrorCode::corrupt, "{}: '{}' is there twice: keep one", name, link.name);
  return {};
}

Status append(LinkCatalogue& all, LinkCatalogue&& more, const std::string& name) {
  const auto move = [](auto& from, auto& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move(more.links, all.links);
  move(more.switches, all.switches);
  move(more.memories, all.memories);
  move(more.frames, all.frames);
  move(more.facts, all.facts);
  all.both_ways_through_cpu = std::max(all.both_ways_through_cpu, more.both_ways_through_cpu);
  return refuse_doubles(all, name);
}

Result<LinkCatalogue> read_links() {
  PEAL_ASSIGN(const std::vector<DataFile> files, read_data_folder("links"));
  LinkCatalogue all;
  for (const DataFile& file : files) {
    PEAL_ASSIGN(LinkCatalogue read, read_links_text(file.text, file.path));
    PEAL_TRY(append(all, std::move(read), file.path));
  }
  return all;
}

/// The files do not change while a process runs, so they are read once.
const Result<LinkCatalogue>& whole_catalogue() {
  static const Result<LinkCatalogue> catalogue = read_links();
  return catalogue;
}

}  // namespace

std::string LinkGeneration::arithmetic() const {
  if (lane_gbps <= 0 || lanes <= 0) return {};
  return fmt::format("{:.9g} Gb/s x {}{} / 8", lane_gbps, lanes, coding.empty() ? std::string() : " x " + coding);
}

std::string LinkGeneration::origin() const {
  const std::string parts = arithmetic();
  return parts.empty() ? fmt::format("{} ({})", title, source) : fmt::format("{}: {} ({})", title, parts, source);
}

LinkGeneration LinkGeneration::of_width(int width) const {
  LinkGeneration wide = *this;
  const std::string suffix = fmt::format(" x{}", lanes);
  if (wide.title.ends_with(suffix)) wide.title.resize(wide.title.size() - suffix.size());
  wide.name = fmt::format("{}-x{}", generation, width);
  wide.title += fmt::format(" x{}", width);
  wide.lanes = width;
  wide.bandwidth.value *= static_cast<double>(width) / lanes;
  wide.usable.value *= static_cast<double>(width) / lanes;
  return wide;
}

int FrameOverhead::bytes() const {
  int sum = 0;
  for (const auto& [part, bytes] : parts) sum += bytes;
  return sum;
}

Result<LinkCatalogue> read_links_text(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, name));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, name, "file of links"));
  PEAL_ASSIGN(const std::string family, top.text("family"));
  PEAL_ASSIGN(const YamlNode* links, top.list("links"));
  PEAL_ASSIGN(const YamlNode* switches, top.list("switches"));
  PEAL_ASSIGN(const YamlNode* memories, top.list("memories"));
  PEAL_ASSIGN(const YamlNode* frames, top.list("frames"));
  PEAL_ASSIGN(const YamlNode* facts, top.list("facts"));
  LinkCatalogue read;
  PEAL_ASSIGN(const Sourced both_ways, read_sourced(top, "through_cpu", "both_ways", 1, name));
  read.both_ways_through_cpu = both_ways.value;
  PEAL_TRY(top.finish());
  PEAL_TRY(each_of(links, name, [&](const YamlNode& node) { return read_link(node, name, family, read); }));
  PEAL_TRY(each_of(switches, name, [&](const YamlNode& node) -> Status {
    PEAL_ASSIGN(SwitchGeneration chip, read_switch(node, name, family));
    read.switches.push_back(std::move(chip));
    return {};
  }));
  PEAL_TRY(each_of(memories, name, [&](const YamlNode& node) -> Status {
    PEAL_ASSIGN(MemoryGeneration memory, read_memory(node, name));
    read.memories.push_back(std::move(memory));
    return {};
  }));
  PEAL_TRY(each_of(frames, name, [&](const YamlNode& node) -> Status {
    PEAL_ASSIGN(FrameOverhead frame, read_frame(node, name, family));
    read.frames.push_back(std::move(frame));
    return {};
  }));
  PEAL_TRY(each_of(facts, name, [&](const YamlNode& node) -> Status {
    PEAL_ASSIGN(LinkFact fact, read_fact(node, name, family));
    read.facts.push_back(std::move(fact));
    return {};
  }));
  PEAL_TRY(refuse_doubles(read, name));
  return read;
}

Result<const LinkCatalogue*> link_catalogue() {
  const Result<LinkCatalogue>& catalogue = whole_catalogue();
  if (!catalogue) return pass_on(catalogue.error());
  return &*catalogue;
}

Result<const LinkGeneration*> link_generation(std::string_view name) {
  PEAL_ASSIGN(const LinkCatalogue* catalogue, link_catalogue());
  std::vector<std::string_view> names;
  for (const LinkGeneration& link : catalogue->links) {
    if (link.name == name) return &link;
    names.push_back(link.name);
  }
  const std::string_view near = nearest(name, names.data(), names.size());
  return fail(ErrorCode::invalid_argument, "no generation of links is called '{}'{}; `peal machines --links` lists them", name,
              near.empty() ? std::string() : fmt::format(", did you mean '{}'?", near));
}

namespace {

const Result<LinkCatalogue>& pcie_catalogue() {
  static const Result<LinkCatalogue> pcie = []() -> Result<LinkCatalogue> {
    const std::string path = (std::filesystem::path(data_directory()) / "links" / "pcie.yaml").string();
    PEAL_ASSIGN(const std::string text, read_small_file(path));
    return read_links_text(text, path);
  }();
  return pcie;
}

}  // namespace

const std::vector<const LinkGeneration*>& pcie_generations() {
  static const std::vector<const LinkGeneration*> lanes = [] {
    const Result<LinkCatalogue>& pcie = pcie_catalogue();
    std::vector<const LinkGeneration*> found;
    for (std::size_t i = 0; pcie && i < pcie->links.size(); ++i)
      if (pcie->links[i].lanes == 1) found.push_back(&pcie->links[i]);
    std::sort(found.begin(), found.end(), [](const auto* a, const auto* b) { return a->lane_gbps < b->lane_gbps; });
    return found;
  }();
  return lanes;
}

double pcie_both_ways_through_cpu() {
  const Result<LinkCatalogue>& pcie = pcie_catalogue();
  return pcie && pcie->both_ways_through_cpu > 0 ? pcie->both_ways_through_cpu : 1;
}

const LinkGeneration* pcie_generation(double gtps) {
  for (const LinkGeneration* lane : pcie_generations())
    if (std::abs(lane->lane_gbps - gtps) <= kPrintedShare * lane->lane_gbps) return lane;
  return nullptr;
}

}  // namespace peal::topology
