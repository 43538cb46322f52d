#include "read_fabric.hpp"

#include <algorithm>
#include <base/names.hpp>
#include <charconv>
#include <filesystem>
#include <topology/machine.hpp>

#include "most_figures.hpp"

namespace peal::topology {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRadix = 65'536;
constexpr int kMostNodes = 1'000'000;
constexpr double kMostRatio = 1000;
constexpr double kDefaultSwitchNs = 200;
constexpr std::string_view kDefaultSwitchSource = "assumed: 200 ns a switch";
constexpr std::string_view kNvlinkNetwork = "nvlink-network";
constexpr std::string_view kSwitchFile = "switches";

std::string path_of(std::string_view name) { return (fs::path(data_directory()) / "fabrics" / fmt::format("{}.yaml", name)).string(); }

std::vector<std::string> published() {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(fs::path(data_directory()) / "fabrics", error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".yaml" && it->path().stem() != kSwitchFile) names.push_back(it->path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

tl::unexpected<Failure> unknown_fabric(const std::string& where, std::string_view word) {
  std::vector<std::string> names = published();
  for (int k = 0; k <= static_cast<int>(FabricKind::full_mesh); ++k) names.emplace_back(name_of(static_cast<FabricKind>(k)));
  names.emplace_back(kNvlinkNetwork);
  const std::vector<std::string_view> choices(names.begin(), names.end());
  const std::string_view near = nearest(word, choices.data(), choices.size());
  const std::string mend = near.empty() ? fmt::format("known are {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", near);
  return fail(ErrorCode::corrupt, "{}: fabric '{}' is not known; {}", where, word, mend);
}

bool is_kind(std::string_view word) { return fabric_kind_of(word) || word == kNvlinkNetwork; }

YamlNode scalar(std::string_view text, int line) {
  YamlNode node;
  node.line = line;
  node.text = text;
  return node;
}

struct PublishedFabric {
  std::string title;
  YamlNode fabric;
};

Result<PublishedFabric> load_published(std::string_view name) {
  const std::string path = path_of(name);
  PEAL_ASSIGN(const std::string text, read_small_file(path));
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, path));
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(root, path, "published fabric"));
  PublishedFabric found;
  PEAL_ASSIGN(found.title, fields.text("title"));
  const YamlNode* fabric = fields.find("fabric");
  PEAL_TRY(fields.finish());
  if (fabric == nullptr || fabric->kind != YamlNode::Kind::map)
    return fail(ErrorCode::corrupt, "{}: a published fabric has `fabric: {{kind: ...}}`", fields.where());
  found.fabric = *fabric;
  return found;
}

/// One word becomes a mapping; `of: NAME` is replaced by what the published fabric says, where the mapping itself does not.
Result<YamlNode> spelled_out(const YamlNode& node, const std::string& file) {
  YamlNode map = node;
  if (node.kind == YamlNode::Kind::scalar) {
    map = YamlNode{};
    map.kind = YamlNode::Kind::map;
    map.line = node.line;
    map.fields.push_back({is_kind(node.text) ? "kind" : "of", scalar(node.text, node.line)});
  }
  const auto of = std::find_if(map.fields.begin(), map.fields.end(), [](const YamlField& f) { return f.first == "of"; });
  if (of == map.fields.end()) return map;
  const YamlNode word = of->second;
  map.fields.erase(of);
  const std::vector<std::string> names = published();
  const std::string where = word.line > 0 ? fmt::format("{}:{}", file, word.line) : file;
  if (!std::binary_search(names.begin(), names.end(), word.text)) return unknown_fabric(where, word.text);
  PEAL_ASSIGN(PublishedFabric base, load_published(word.text));
  for (YamlField& field : base.fabric.fields) {
    const bool is_said = std::any_of(map.fields.begin(), map.fields.end(), [&](const YamlField& f) { return f.first == field.first; });
    if (is_said) continue;
    field.second.line = word.line;
    map.fields.push_back(std::move(field));
  }
  return map;
}

Status read_dims(YamlFields& fields, FabricSpec& spec) {
  PEAL_ASSIGN(const std::string text, fields.text("dims", ""));
  std::string_view rest = text;
  for (std::size_t d = 0; !rest.empty(); ++d) {
    const std::size_t cross = rest.find('x');
    const std::string_view word = rest.substr(0, cross);
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (d >= kMostDimensions || error != std::errc{} || end != word.data() + word.size() || value < 1 || value > kMostNodes ||
        cross == rest.size() - 1) {
      return fail(ErrorCode::corrupt, "{}: dims is '{}': write it as 4x4x4, with at most {} numbers", fields.where(*fields.find("dims")),
                  text, kMostDimensions);
    }
    spec.dims[d] = value;
    rest.remove_prefix(cross == std::string_view::npos ? rest.size() : cross + 1);
  }
  return {};
}

Status read_tree(YamlFields& fields, FabricSpec& spec) {
  PEAL_ASSIGN(spec.levels, fields.integer("levels", 1, 3, 0));
  PEAL_ASSIGN(spec.oversubscription, fields.number("oversubscription", 1.0 / kMostRatio, kMostRatio, 1));
  PEAL_ASSIGN(spec.core_oversubscription, fields.number("core_oversubscription", 1.0 / kMostRatio, kMostRatio, 1));
  PEAL_ASSIGN(spec.spine_radix, fields.integer("spine_radix", 1, kMostRadix, 0));
  PEAL_ASSIGN(spec.core_radix, fields.integer("core_radix", 1, kMostRadix, 0));
  PEAL_ASSIGN(spec.up, fields.integer("up", 1, kMostRadix, 0));
  PEAL_ASSIGN(spec.pod, fields.integer("pod", 1, kMostRadix, 0));
  if (spec.kind == FabricKind::rail_optimised) {
    PEAL_ASSIGN(spec.unit, fields.integer("unit", 1, kMostNodes, 0));
  }
  return {};
}

Status read_direct(YamlFields& fields, FabricSpec& spec) {
  PEAL_TRY(read_dims(fields, spec));
  PEAL_ASSIGN(const std::string joins, fields.text("joins", "nodes"));
  if (joins != "nodes" && joins != "switches")
    return fail(ErrorCode::corrupt, "{}: joins is '{}': write nodes or switches", fields.where(*fields.find("joins")), joins);
  spec.of_switches = joins == "switches";
  return {};
}

/// Keys of one kind only, so that others are refused.
Status read_shape(YamlFields& fields, FabricSpec& spec) {
  PEAL_ASSIGN(spec.down, fields.integer("down", 1, kMostRadix, 0));
  switch (spec.kind) {
    case FabricKind::fat_tree:
    case FabricKind::rail_optimised: return read_tree(fields, spec);
    case FabricKind::dragonfly_plus: {
      PEAL_ASSIGN(spec.routers, fields.integer("leaves", 1, kMostRadix, 0));
      PEAL_ASSIGN(spec.spines, fields.integer("spines", 1, kMostRadix, 0));
      PEAL_ASSIGN(spec.global_links, fields.integer("global_links", 1, kMostRadix, 0));
      return {};
    }
    case FabricKind::dragonfly: {
      PEAL_ASSIGN(spec.routers, fields.integer("routers", 1, kMostRadix, 0));
      PEAL_ASSIGN(spec.global_links, fields.integer("global_links", 1, kMostRadix, 0));
      break;
    }
    default: PEAL_TRY(read_direct(fields, spec)); break;
  }
  PEAL_ASSIGN(spec.wires, fields.integer("wires", 1, kMostRadix, 0));
  return {};
}

Status read_storage(YamlFields& fields, FabricSpec& spec) {
  PEAL_ASSIGN(spec.storage_nodes, fields.integer("storage_nodes", 0, kMostNodes, 0));
  PEAL_ASSIGN(spec.storage_ports, fields.integer("storage_ports", 1, 64, 1));
  PEAL_ASSIGN(spec.storage_GBps, fields.number("storage_GBps", 1e-6, kMostGBps, 0));
  return {};
}

Status read_nvlink(YamlFields& fields, const std::string& file, FabricText& text) {
  NvlinkNetworkSpec nvlink;
  PEAL_ASSIGN(nvlink.switches, fields.integer("switches", 1, kMostRadix, 0));
  PEAL_ASSIGN(nvlink.radix, fields.integer("radix", 1, kMostRadix, 0));
  PEAL_ASSIGN(nvlink.links, fields.integer("links", 1, kMostRadix, 0));
  PEAL_ASSIGN(const int pod, fields.integer("pod", 1, kMostNodes, 0));
  PEAL_ASSIGN(nvlink.source, fields.text("source", fmt::format("declared in {}", fields.where())));
  const YamlNode* between = fields.find("between");
  if (nvlink.switches == 0 || nvlink.radix == 0 || nvlink.links == 0) {
    return fail(
        ErrorCode::corrupt,
        "{}: an NVLink network needs `switches:` (above the nodes), their `radix:` and the `links:` that leave a node; or write `of: "
        "dgx-h100-nvlink-superpod`",
        fields.where());
  }
  if (between != nullptr) {
    PEAL_ASSIGN(text, read_fabric(*between, file));
    if (text.nvlink) return fail(ErrorCode::corrupt, "{}: between NVLink networks there is another kind of fabric", fields.where(*between));
  }
  text.nvlink = nvlink;
  text.pod = pod;
  text.where = fields.where();
  return fields.finish();
}

struct SwitchModel {
  std::string name;
  LinkKind kind = LinkKind::infiniband;
  int radix = 0;
  double GBps = 0;
  double latency_ns = -1;
  bool reduces = false;
  int trees_a_switch = 0;
  int most_trees = 0;
  std::string source;
};

Result<std::vector<SwitchModel>> switch_models() {
  const std::string path = path_of(kSwitchFile);
  PEAL_ASSIGN(const std::string text, read_small_file(path));
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, path));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, path, "list of switches"));
  std::vector<SwitchModel> models;
  PEAL_TRY(each_row(top, "switches", path, "switch", [&](YamlFields& fields) -> Status {
    SwitchModel& model = models.emplace_back();
    PEAL_ASSIGN(model.name, fields.text("name"));
    PEAL_ASSIGN(const std::string kind, fields.text("kind"));
    const auto known = link_kind_of(kind);
    if (!known) return fail(ErrorCode::corrupt, "{}: '{}' is no kind of link", fields.where(), kind);
    model.kind = *known;
    PEAL_ASSIGN(model.radix, fields.integer("radix", 1, kMostRadix, 1));
    PEAL_ASSIGN(model.GBps, fields.number("GBps", 1e-6, kMostGBps));
    PEAL_ASSIGN(model.latency_ns, fields.number("latency_ns", 0, kMostNanoseconds, -1));
    PEAL_ASSIGN(model.reduces, fields.flag("reduces", false));
    PEAL_ASSIGN(model.trees_a_switch, fields.integer("trees_a_switch", 0, kMostNodes, 0));
    PEAL_ASSIGN(model.most_trees, fields.integer("most_trees", 0, kMostNodes, 0));
    PEAL_ASSIGN(model.source, fields.text("source"));
    PEAL_ASSIGN(const std::string latency_source, fields.text("latency_source", ""));
    PEAL_ASSIGN(const std::string reduces_source, fields.text("reduces_source", ""));
    if (model.reduces && reduces_source.empty())
      return fail(ErrorCode::corrupt, "{}: a switch that reduces needs `reduces_source:`", fields.where());
    if (!latency_source.empty()) model.source += "; latency: " + latency_source;
    return {};
  }));
  PEAL_TRY(top.finish());
  return models;
}

/// What SHARP may do on the switch that was found.
Status set_reduction(const SwitchModel& found, const std::vector<SwitchModel>& models, LinkKind nics, FabricSpec& spec) {
  if (!spec.reduces) return {};
  spec.reduction = {found.name, found.trees_a_switch, found.most_trees};
  if (found.reduces && found.kind == nics) return {};
  std::string known;
  for (const SwitchModel& model : models)
    if (model.reduces) known += (known.empty() ? "" : ", ") + model.name;
  return fail(ErrorCode::invalid_argument,
              "`sharp: true`, but {} does not sum what {} NICs send; on InfiniBand write `switch:` with one of {}, else `sharp: false`",
              found.name, name_of(nics), known);
}

/// Radix and latency of a switch that was named, or that has ports for the NICs, where they were not said.
Status fill_in_switch(FabricText& text, const std::vector<FabricPlug>& plugs) {
  FabricSpec& spec = text.spec;
  const auto set_latency = [&](double latency_ns, const std::string& source) {
    if (text.has_latency) return;
    spec.switch_latency = {latency_ns};
    text.has_latency = true;
    spec.source += (spec.source.empty() ? "" : "; ") + source;
  };
  if (spec.kind != FabricKind::ideal && (spec.radix == 0 || spec.reduces || !text.switch_name.empty())) {
    PEAL_ASSIGN(const std::vector<SwitchModel> models, switch_models());
    Bandwidth fastest;
    LinkKind kind = LinkKind::infiniband;
    for (const FabricPlug& plug : plugs) {
      if (!(fastest < plug.port.bandwidth)) continue;
      fastest = plug.port.bandwidth;
      kind = plug.port.kind;
    }
    const SwitchModel* found = nullptr;
    for (const SwitchModel& model : models) {
      const bool fits = text.switch_name.empty()
                            ? model.kind == kind && model.GBps >= fastest.gigabytes() && (found == nullptr || model.GBps < found->GBps)
                            : model.name == text.switch_name;
      if (fits) found = &model;
    }
    if (found == nullptr) {
      std::vector<std::string_view> names;
      for (const SwitchModel& model : models) names.push_back(model.name);
      return fail(ErrorCode::invalid_argument, "{} in {}; write `radix:`, or `switch:` with one of {}",
                  text.switch_name.empty() ? fmt::format("no switch for {} NICs of {:g} GB/s", name_of(kind), fastest.gigabytes())
                                           : fmt::format("no switch '{}'", text.switch_name),
                  path_of(kSwitchFile), fmt::join(names, ", "));
    }
    if (spec.radix == 0) {
      spec.radix = found->radix;
      spec.source += fmt::format("{}{}: {}", spec.source.empty() ? "" : "; ", found->name, found->source);
    }
    PEAL_TRY(set_reduction(*found, models, kind, spec));
    if (found->latency_ns >= 0) set_latency(found->latency_ns, found->source);
  }
  set_latency(kDefaultSwitchNs, std::string(kDefaultSwitchSource));
  return {};
}

}  // namespace

Result<std::vector<FabricEntry>> list_fabrics() {
  std::vector<FabricEntry> entries;
  for (const std::string& name : published()) {
    PEAL_ASSIGN(const PublishedFabric fabric, load_published(name));
    entries.push_back({name, fabric.title});
  }
  return entries;
}

Result<FabricText> read_fabric(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(const YamlNode map, spelled_out(node, file));
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(map, file, "fabric"));
  PEAL_ASSIGN(const std::string kind, fields.text("kind", "ideal"));
  if (!is_kind(kind)) return unknown_fabric(fields.where(*fields.find("kind")), kind);
  FabricText text;
  text.where = fields.where();
  if (kind == kNvlinkNetwork) {
    PEAL_TRY(read_nvlink(fields, file, text));
    return text;
  }
  FabricSpec& spec = text.spec;
  spec.kind = *fabric_kind_of(kind);
  PEAL_ASSIGN(const double latency, fields.number("switch_latency_ns", 0, kMostNanoseconds, 0));
  spec.switch_latency = {latency};
  text.has_latency = fields.has("switch_latency_ns");
  PEAL_ASSIGN(spec.source, fields.text("source", fmt::format("declared in {}", text.where)));
  if (spec.kind != FabricKind::ideal) {
    PEAL_ASSIGN(text.switch_name, fields.text("switch", ""));
    PEAL_ASSIGN(spec.radix, fields.integer("radix", 1, kMostRadix, 0));
    PEAL_ASSIGN(spec.link_GBps, fields.number("link_GBps", 1e-6, kMostGBps, 0));
    PEAL_ASSIGN(spec.is_adaptive, fields.flag("adaptive", false));
    PEAL_ASSIGN(const int seed, fields.integer("seed", 0, 2'000'000'000, 0));
    spec.seed = static_cast<std::uint64_t>(seed);
    PEAL_TRY(read_shape(fields, spec));
    PEAL_TRY(read_storage(fields, spec));
  }
  PEAL_ASSIGN(spec.reduces, fields.flag("sharp", false));
  if (spec.reduces && spec.kind != FabricKind::fat_tree && spec.kind != FabricKind::rail_optimised)
    return fail(ErrorCode::corrupt,
                "{}: SHARP sums up a tree of switches, and a fabric of kind {} is none: write `kind: rail-optimised` or `kind: fat-tree`",
                fields.where(*fields.find("sharp")), kind);
  PEAL_TRY(fields.finish());
  return text;
}

Result<FabricText> fabric_of_words(std::string_view words) {
  const std::string file = "--fabric";
  YamlNode map;
  map.kind = YamlNode::Kind::map;
  for (std::string_view rest = words; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos && map.fields.empty() && !word.empty()) {
      map.fields.push_back({is_kind(word) ? "kind" : "of", scalar(word, 0)});
      continue;
    }
    const std::string_view key = word.substr(0, equals);
    const bool is_twice = std::any_of(map.fields.begin(), map.fields.end(), [&](const YamlField& f) { return f.first == key; });
    if (equals == std::string_view::npos || key.empty() || is_twice) {
      return fail(ErrorCode::invalid_argument, "{}: '{}' {}: write it as fat-tree,levels=2,oversubscription=2", file, word,
                  is_twice ? "is there twice" : "is no key=value");
    }
    map.fields.push_back({std::string(key), scalar(word.substr(equals + 1), 0)});
  }
  return read_fabric(map, file);
}

Result<Cluster> join_nodes(Graph machine, int nodes, FabricText text, const std::string& where) {
  const std::string& place = text.where.empty() ? where : text.where;
  const auto said_where = [&](const Failure& failure) { return fail(failure.code, "{}: {}", place, failure.message); };
  if (text.nvlink) {
    const int per_switch = std::max(1, text.nvlink->links / text.nvlink->switches);
    const int pod = std::min(nodes, text.pod > 0 ? text.pod : std::max(1, text.nvlink->radix / per_switch));
    if (nodes % pod != 0) {
      return fail(ErrorCode::invalid_argument,
                  "{}: {} nodes are no whole number of NVLink networks of {}: write `nodes: {}`, or another `pod:`", place, nodes, pod,
                  (nodes / pod + 1) * pod);
    }
    auto joined = join_by_nvlink(machine, pod, *text.nvlink);
    if (!joined) return said_where(joined.error());
    machine = *std::move(joined);
    nodes /= pod;
  }
  if (nodes == 1 && text.spec.storage_nodes == 0) return Cluster(std::move(machine));
  std::vector<FabricPlug> plugs = plugs_of(machine);
  if (auto filled = fill_in_switch(text, plugs); !filled) return said_where(filled.error());
  auto fabric = make_fabric(text.spec, std::move(plugs), nodes);
  if (!fabric) return said_where(fabric.error());
  return Cluster(std::move(machine), nodes, *std::move(fabric));
}

}  // namespace peal::topology
