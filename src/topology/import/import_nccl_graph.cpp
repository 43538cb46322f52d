#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <topology/import.hpp>
#include <topology/import_nccl_graph.hpp>

#include "xml_tree.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostMembers = 1'000'000;  // GPUs and nets of all channels
constexpr std::size_t kMostNotes = 8;            // graphs that are described at each GPU; NCCL writes five
constexpr std::array<std::string_view, 7> kPatterns = {"unknown pattern", "balanced tree", "split tree", "tree", "ring", "NVLS",
                                                       "collnet direct"};

class GraphReader {
 public:
  explicit GraphReader(XmlFile& file) : file_(file) {}
  Status read(NcclGraphs& into);

 private:
  NcclGraphEntry entry(const pugi::xml_node& node);
  void channel(const pugi::xml_node& node, NcclGraphEntry& entry);
  std::optional<std::pair<int, int>> dev_of(const pugi::xml_node& node);
  int number(const pugi::xml_node& node, const char* name, int low, int high, int otherwise);
  double rate(const pugi::xml_node& node, const char* name);

  XmlFile& file_;
  std::size_t members_ = 0;
};

Status GraphReader::read(NcclGraphs& into) {
  NcclGraphEntry loose;  // channels of a piece without a graph around them
  const auto visit = [&](const pugi::xml_node& parent) {
    for (const pugi::xml_node& node : parent.children()) {
      if (std::string_view(node.name()) == "graph") into.graphs.push_back(entry(node));
      if (std::string_view(node.name()) == "channel") channel(node, loose);
    }
  };
  visit(file_.top());
  for (const pugi::xml_node& root : file_.top().children("graphs")) visit(root);
  if (!loose.channels.empty()) {
    file_.warn(loose.channels.front().line, "channels without a graph around them: a piece of a file? Their speeds are not known");
    loose.channels_said = static_cast<int>(loose.channels.size());
    loose.line = loose.channels.front().line;
    into.graphs.push_back(std::move(loose));
  }
  if (into.graphs.empty())
    return fail(ErrorCode::corrupt, "{}:1: no graph element: is this what NCCL_GRAPH_DUMP_FILE wrote?", file_.name());
  Graph collected;
  file_.give_warnings(collected);
  into.warnings.assign(collected.warnings().begin(), collected.warnings().end());
  return {};
}

int GraphReader::number(const pugi::xml_node& node, const char* name, int low, int high, int otherwise) {
  if (!node.attribute(name)) return otherwise;
  const auto value = whole_of(node, name);
  if (value && *value >= low && *value <= high) return static_cast<int>(*value);
  file_.warn(node, fmt::format("{}=\"{}\" is no number from {} to {}; {} is taken", name, text_of(node, name), low, high, otherwise));
  return otherwise;
}

double GraphReader::rate(const pugi::xml_node& node, const char* name) {
  const auto value = number_of(text_of(node, name));
  if (value && *value >= 0 && *value < 1e6) return *value;
  if (node.attribute(name)) file_.warn(node, fmt::format("{}=\"{}\" is no rate in GB/s", name, text_of(node, name)));
  return 0;
}

NcclGraphEntry GraphReader::entry(const pugi::xml_node& node) {
  NcclGraphEntry entry;
  entry.line = file_.line_of(node);
  entry.id = number(node, "id", 0, 1000, 0);
  const int pattern = number(node, "pattern", 0, 1000, 0);
  if (pattern > 0 && pattern < static_cast<int>(kPatterns.size())) {
    entry.pattern = static_cast<NcclPattern>(pattern);
  } else {
    file_.warn(node, fmt::format("pattern {} is not known", pattern));
  }
  entry.crossnic = number(node, "crossnic", 0, 2, 0);
  entry.channels_said = number(node, "nchannels", 0, 100'000, 0);
  entry.intra_gbps = rate(node, "speedintra");
  entry.inter_gbps = rate(node, "speedinter");
  entry.inter_latency = rate(node, "latencyinter");
  entry.intra_type = text_of(node, "typeintra").substr(0, 16);
  entry.inter_type = text_of(node, "typeinter").substr(0, 16);
  entry.same_channels = number(node, "samechannels", 0, 1, 0) == 1;
  for (const pugi::xml_node& child : node.children("channel")) channel(child, entry);
  if (static_cast<int>(entry.channels.size()) != entry.channels_said) {
    file_.warn(node, fmt::format("graph {} says {} channels and holds {}", entry.id, entry.channels_said, entry.channels.size()));
  }
  return entry;
}

/// Hexadecimal with or without 0x; the highest byte is the host.
std::optional<std::pair<int, int>> GraphReader::dev_of(const pugi::xml_node& node) {
  const auto value = hex_of(text_of(node, "dev"));
  if (!value) return std::nullopt;
  const std::uint64_t local = *value & 0x00ff'ffff'ffff'ffff;
  if (local > 1'000'000) return std::nullopt;
  return std::pair{static_cast<int>(*value >> 56), static_cast<int>(local)};
}

void GraphReader::channel(const pugi::xml_node& node, NcclGraphEntry& entry) {
  NcclChannel channel;
  channel.line = file_.line_of(node);
  for (const pugi::xml_node& child : node.children()) {
    const std::string_view name = child.name();
    if (child.type() != pugi::node_element || ++members_ > kMostMembers) continue;
    const auto dev = dev_of(child);
    if (name == "gpu") {
      const auto rank = whole_of(child, "rank");
      const bool has_rank = rank && *rank >= 0 && *rank <= 1'000'000;
      if (!dev && !has_rank) {
        file_.warn(child, "a gpu without dev and rank; it is left out");
        continue;
      }
      channel.gpus.push_back(
          {.host = dev ? dev->first : 0, .dev = dev ? dev->second : -1, .rank = has_rank ? static_cast<int>(*rank) : -1});
    } else if (name == "net" && dev) {
      // The first net is the entry where it stands before all GPUs; the last is the exit.
      (channel.gpus.empty() ? channel.entry : channel.exit) = NcclGraphNet{dev->first, dev->second};
    } else {
      file_.warn(child, name == "net" ? std::string("a net without dev; it is left out")
                                      : fmt::format("<{}> is no member of a channel", name.substr(0, 40)));
    }
  }
  if (!channel.gpus.empty() || channel.entry) entry.channels.push_back(std::move(channel));
}

LinkKind kind_of_way(std::string_view type) {
  if (type == "NVL" || type == "NVB") return LinkKind::nvlink;
  if (type == "C2C") return LinkKind::c2c;
  return type == "SYS" ? LinkKind::sys : LinkKind::pcie;
}

/// Devices and links of the graph that is shown: the ring, or the first that can be used.
class GraphBuilder {
 public:
  GraphBuilder(const NcclGraphs& graphs, const std::string& name) : graphs_(graphs), name_(name) {}
  Result<Graph> build();

 private:
  using Key = std::tuple<int, int, int>;  // rank where known, else -1; host; dev
  static Key key_of(const NcclGraphGpu& gpu) { return gpu.rank >= 0 ? Key{gpu.rank, 0, 0} : Key{-1, gpu.host, gpu.dev}; }
  Status add_devices();
  Status add_links(const NcclGraphEntry& shown);
  std::string id_of(int host, std::string_view stem, int number) const;

  const NcclGraphs& graphs_;
  const std::string& name_;
  Graph graph_;
  std::map<Key, int> gpus_;
  std::map<std::pair<int, int>, int> nets_;
  bool has_hosts_ = false;
};

std::string GraphBuilder::id_of(int host, std::string_view stem, int number) const {
  return has_hosts_ ? fmt::format("n{}/{}{}", host, stem, number) : fmt::format("{}{}", stem, number);
}

Status GraphBuilder::add_devices() {
  std::map<Key, NcclGraphGpu> found;
  for (const NcclGraphEntry& entry : graphs_.graphs) {
    for (const NcclChannel& channel : entry.channels) {
      for (const NcclGraphGpu& gpu : channel.gpus) {
        found.emplace(key_of(gpu), gpu);
        has_hosts_ = has_hosts_ || gpu.host > 0;
      }
      for (const auto& net : {channel.entry, channel.exit})
        if (net) nets_.emplace(std::pair{net->host, net->dev}, -1);
    }
  }
  const std::string source = fmt::format("NCCL graph XML {}", std::filesystem::path(name_).filename().string());
  int several = 0;
  for (const auto& [key, gpu] : found) {
    std::string id = id_of(gpu.host, "gpu", gpu.dev >= 0 ? gpu.dev : gpu.rank);
    if (graph_.find(id) >= 0) {
      if (several++ == 0) {
        graph_.add_warning(fmt::format("{}: dev {} stands for several ranks; further ones are shown by their rank, as gpu-rank{}", name_,
                                       gpu.dev, gpu.rank));
      }
      id = id_of(gpu.host, "gpu-rank", gpu.rank);
    }
    Device device{.id = id, .kind = DeviceKind::gpu, .node = gpu.host, .source = source};
    if (gpu.dev >= 0) device.attributes.push_back({"dev", std::to_string(gpu.dev), source});
    if (gpu.rank >= 0) device.attributes.push_back({"rank", std::to_string(gpu.rank), source});
    for (std::size_t i = 0; i < std::min(graphs_.graphs.size(), kMostNotes); ++i) {
      const NcclGraphEntry& entry = graphs_.graphs[i];
      if (device.attribute(fmt::format("graph{}", entry.id)).empty())
        device.attributes.push_back(
            {fmt::format("graph{}", entry.id),
             fmt::format("{}, {} channels of {:g} GB/s ({}), between nodes {:g} GB/s ({})", name_of(entry.pattern), entry.channels.size(),
                         entry.intra_gbps, entry.intra_type, entry.inter_gbps, entry.inter_type),
             source});
    }
    PEAL_ASSIGN(gpus_[key], graph_.add_device(std::move(device)));
  }
  for (auto& [key, index] : nets_) {
    PEAL_ASSIGN(index, graph_.add_device(
                           {.id = id_of(key.first, "net", key.second), .kind = DeviceKind::nic, .node = key.first, .source = source}));
  }
  return {};
}

/// A wire a channel that goes from one to the other; the way back carries other channels.
Status GraphBuilder::add_links(const NcclGraphEntry& shown) {
  struct Used {
    int there = 0;
    int back = 0;
  };
  std::map<std::tuple<int, int, bool>, Used> used;
  const auto step = [&](int from, int to, bool is_net) {
    if (from == to) return;
    Used& u = used[{std::min(from, to), std::max(from, to), is_net}];
    ++(from < to ? u.there : u.back);
  };
  for (const NcclChannel& channel : shown.channels) {
    for (std::size_t i = 0; i + 1 < channel.gpus.size(); ++i)
      step(gpus_[key_of(channel.gpus[i])], gpus_[key_of(channel.gpus[i + 1])], false);
    if (channel.gpus.empty()) continue;
    const int first = gpus_[key_of(channel.gpus.front())];
    const int last = gpus_[key_of(channel.gpus.back())];
    if (channel.entry) step(nets_[{channel.entry->host, channel.entry->dev}], first, true);
    if (channel.exit) step(last, nets_[{channel.exit->host, channel.exit->dev}], true);
    if (!channel.entry && !channel.exit && shown.pattern == NcclPattern::ring) step(last, first, false);
  }
  for (const auto& [ends, u] : used) {
    const auto& [a, b, is_net] = ends;
    const double gbps = is_net ? shown.inter_gbps : shown.intra_gbps;
    if (!(gbps > 0)) continue;
    const std::string_view type = is_net ? shown.inter_type : shown.intra_type;
    Link link{.a = a,
              .b = b,
              .kind = kind_of_way(type),
              .bandwidth = Bandwidth::gigabytes(gbps),
              .usable = {},
              .count = std::max(u.there, u.back)};
    link.source = fmt::format("{}:{}: graph {} of NCCL, {:g} GB/s a channel over {}", name_, shown.line, shown.id, gbps, type);
    PEAL_TRY(graph_.add_link(std::move(link)));
  }
  return {};
}

Result<Graph> GraphBuilder::build() {
  graph_.title = std::filesystem::path(name_).stem().string();
  for (const std::string& warning : graphs_.warnings) graph_.add_warning(warning);
  PEAL_TRY(add_devices());
  const NcclGraphEntry* shown = nullptr;
  for (const NcclGraphEntry& entry : graphs_.graphs) {
    if (entry.channels.empty()) continue;
    if (shown == nullptr || (entry.pattern == NcclPattern::ring && shown->pattern != NcclPattern::ring)) shown = &entry;
  }
  if (shown != nullptr) PEAL_TRY(add_links(*shown));
  for (std::size_t i = 0; i < std::min(graphs_.graphs.size(), kMostNotes); ++i) {
    const NcclGraphEntry& entry = graphs_.graphs[i];
    if (&entry != shown && !entry.channels.empty())
      graph_.add_warning(fmt::format("{}:{}: graph {} ({}) uses the same wires; links are those of graph {}", name_, entry.line, entry.id,
                                     name_of(entry.pattern), shown->id));
  }
  return std::move(graph_);
}

}  // namespace

std::string_view name_of(NcclPattern pattern) noexcept { return kPatterns[static_cast<std::size_t>(pattern)]; }

Result<NcclGraphs> read_nccl_graphs(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(XmlFile file, XmlFile::parse(text, name));
  NcclGraphs graphs;
  PEAL_TRY(GraphReader(file).read(graphs));
  return graphs;
}

Result<Graph> import_nccl_graph(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const NcclGraphs graphs, read_nccl_graphs(text, name));
  return GraphBuilder(graphs, name).build();
}

}  // namespace peal::topology
