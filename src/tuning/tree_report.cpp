#include <algorithm>
#include <base/index.hpp>
#include <nlohmann/json.hpp>
#include <tuning/rails.hpp>
#include <tuning/tree_report.hpp>

namespace peal::tuning {

namespace {

class Names {
 public:
  Names(const topology::Resources& resources, std::span<const int> devices) : cluster_(resources.cluster()), devices_(devices) {}
  std::string operator[](std::int32_t rank) const { return cluster_.id_of(devices_[at(rank)]); }

 private:
  const topology::Cluster& cluster_;
  std::span<const int> devices_;
};

std::string branch_of(const Names& names, const Shape& tree, std::int32_t rank) {
  std::vector<std::string> branches;
  for (std::int32_t child = 0; at(child) < tree.size(); ++child)
    if (tree[at(child)] == rank) branches.push_back(branch_of(names, tree, child));
  return branches.empty() ? names[rank] : fmt::format("{} ({})", names[rank], fmt::join(branches, " "));
}

}  // namespace

Result<TreeReport> report_trees(const topology::Resources& resources, std::span<const int> device_of_rank, std::int32_t root) {
  const topology::Cluster& cluster = resources.cluster();
  if (device_of_rank.size() < 2 || device_of_rank.size() > kMostWiredRanks)
    return fail(ErrorCode::invalid_argument, "trees are looked for among 2 to {} ranks; here there are {}", kMostWiredRanks,
                device_of_rank.size());
  for (const int device : device_of_rank)
    if (cluster.node_of(device) != cluster.node_of(device_of_rank.front()))
      return fail(ErrorCode::unsupported, "trees are looked for inside one node; give --ranks that fit one");
  TreeReport report;
  report.root = root;
  const Wiring wiring = wires_of(resources, device_of_rank);
  report.trees = mix_trees(wiring, root);
  if (report.trees.shapes.empty())
    return fail(ErrorCode::unreachable, "two ranks have no way to each other: look at the links with `peal topo --links`");
  WireLoads loads(resources, device_of_rank);
  for (std::size_t t = 0; t < report.trees.shapes.size(); ++t)
    for (std::int32_t rank = 0; rank < wiring.ranks; ++rank)
      if (rank != root) PEAL_TRY(loads.add(report.trees.shapes[t][at(rank)], rank, report.trees.rates[t]));
  report.loads = loads.list(1);
  return report;
}

std::string describe_trees(const topology::Resources& resources, std::span<const int> device_of_rank, const TreeReport& report) {
  const Names names(resources, device_of_rank);
  const Mixture& trees = report.trees;
  std::string out = fmt::format("{} tree{} from {} to {} ranks carr{} {:.6g} GB/s together, one direction\n", trees.shapes.size(),
                                trees.shapes.size() == 1 ? "" : "s", names[report.root], device_of_rank.size() - 1,
                                trees.shapes.size() == 1 ? "ies" : "y", report.trees.total);
  out += trees.is_proved()
             ? "  no trees carry more on these wires\n"
             : fmt::format("  {:.1f} % of {:.6g} GB/s, which no trees exceed\n", 100 * report.trees.total / trees.bound, trees.bound);
  out += "\nTrees\n";
  for (std::size_t t = 0; t < trees.shapes.size(); ++t)
    out += fmt::format("  {:>2}  {:.6g} GB/s  {}\n", t, trees.rates[t], branch_of(names, trees.shapes[t], report.root));
  return out + describe_rails(resources, device_of_rank) + describe_loads(report.loads);
}

std::string trees_json(const topology::Resources& resources, std::span<const int> device_of_rank, const TreeReport& report) {
  const Names names(resources, device_of_rank);
  nlohmann::ordered_json trees = nlohmann::ordered_json::array();
  for (std::size_t t = 0; t < report.trees.shapes.size(); ++t) {
    nlohmann::ordered_json parents = nlohmann::ordered_json::object();
    for (std::int32_t rank = 0; at(rank) < device_of_rank.size(); ++rank)
      if (rank != report.root) parents[names[rank]] = names[report.trees.shapes[t][at(rank)]];
    trees.push_back({{"GBps", report.trees.rates[t]}, {"parents", std::move(parents)}});
  }
  nlohmann::ordered_json tree = {
      {"root", names[report.root]}, {"ranks", device_of_rank.size()}, {"trees", std::move(trees)}, {"GBps", report.trees.total}};
  tree["bound_GBps"] = report.trees.bound;
  tree["is_bound_met"] = report.trees.is_proved();
  tree["rails"] = nlohmann::ordered_json::parse(rails_json(resources, device_of_rank));
  tree["wires"] = nlohmann::ordered_json::parse(loads_json(report.loads));
  return tree.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace peal::tuning
