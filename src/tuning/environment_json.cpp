#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuning/environment.hpp>

namespace peal::tuning {

using nlohmann::json;

namespace {

constexpr double kUnlimited = 1e30;  // JSON has no infinity

json to_tree(const topology::ProtocolConstants& c) {
  return {{"scope", c.scope},
          {"protocol", c.protocol},
          {"ns", {c.launch.value, c.per_hop.value, c.per_hop_tree.value, c.per_op.value}},
          {"receive_share", c.receive_share},
          {"efficiency", c.efficiency},
          {"rates", {c.copy.value, c.reduce.value, c.cap_one_node.value, c.cap_two_nodes.value, c.cap_more_nodes.value}},
          {"kept", c.kept.value},
          {"left_share", c.left_share},
          {"slice", c.slice.value},
          {"slots", c.slots},
          {"source", c.source}};
}

topology::ProtocolConstants constants_from(const json& tree) {
  topology::ProtocolConstants c;
  c.scope = tree.at("scope").get<std::string>();
  c.protocol = tree.at("protocol").get<std::string>();
  const auto& ns = tree.at("ns");
  c.launch.value = ns.at(0).get<double>();
  c.per_hop.value = ns.at(1).get<double>();
  c.per_hop_tree.value = ns.at(2).get<double>();
  c.per_op.value = ns.at(3).get<double>();
  c.receive_share = tree.at("receive_share").get<double>();
  c.efficiency = tree.at("efficiency").get<double>();
  const auto& rates = tree.at("rates");
  c.copy.value = rates.at(0).get<double>();
  c.reduce.value = rates.at(1).get<double>();
  c.cap_one_node.value = rates.at(2).get<double>();
  c.cap_two_nodes.value = rates.at(3).get<double>();
  c.cap_more_nodes.value = rates.at(4).get<double>();
  c.kept.value = tree.at("kept").get<std::uint64_t>();
  c.left_share = tree.at("left_share").get<double>();
  c.slice.value = tree.at("slice").get<std::uint64_t>();
  c.slots = tree.at("slots").get<int>();
  c.source = tree.at("source").get<std::string>();
  return c;
}

json to_tree(const Level& level) {
  return {{"scope", level.scope},
          {"path_class", static_cast<int>(level.path_class)},
          {"latency", level.latency.value},
          {"bottleneck", std::min(level.bottleneck.value, kUnlimited)},
          {"ranks_per_outlet", level.ranks_per_outlet},
          {"outlets", level.outlets}};
}

json to_tree(const SwitchOffer& s) {
  return {{"computes", s.computes},
          {"bottleneck", std::min(s.bottleneck.value, kUnlimited)},
          {"latency", s.latency.value},
          {"constants", to_tree(s.constants)},
          {"why_not", s.why_not}};
}

void read_switches(const json& tree, Environment& e) {
  for (std::size_t l = 0; l < kLevels; ++l) {
    const json& t = tree.at(l);
    SwitchOffer& s = e.switches[l];
    s.computes = t.at("computes").get<bool>();
    s.bottleneck.value = t.at("bottleneck").get<double>();
    s.latency.value = t.at("latency").get<double>();
    s.constants = constants_from(t.at("constants"));
    s.why_not = t.at("why_not").get<std::string>();
    if (s.computes) e.placement.switches |= l == 0 ? schedule::kSwitchesInside : schedule::kSwitchesBetween;
  }
}

json to_tree(const Wiring& wiring) {
  json ways = json::array();
  for (const Wiring::Way& way : wiring.ways) ways.push_back({{"wires", way.wires}, {"latency", way.latency_ns}});
  return {{"ranks", wiring.ranks}, {"capacity", wiring.capacity}, {"ways", std::move(ways)}};
}

bool read_wiring(const json& tree, std::int32_t ranks, Wiring& wiring) {
  wiring.ranks = tree.at("ranks").get<std::int32_t>();
  wiring.capacity = tree.at("capacity").get<std::vector<double>>();
  for (const json& t : tree.at("ways")) {
    Wiring::Way& way = wiring.ways.emplace_back();
    way.wires = t.at("wires").get<std::vector<std::uint16_t>>();
    way.latency_ns = t.at("latency").get<double>();
    for (const std::uint16_t wire : way.wires)
      if (wire >= wiring.capacity.size()) return false;
  }
  const auto n = static_cast<std::size_t>(std::max(0, wiring.ranks));
  return (wiring.ranks == 0 || wiring.ranks == ranks) && wiring.ways.size() == n * n;
}

Result<Environment> read_environment_tree(const json& tree) {
  const auto bad = [](std::string_view what) {
    return fail(ErrorCode::corrupt, "the tuning environment of another rank does not parse: {}", what);
  };
  Environment e;
  e.ranks = tree.at("ranks").get<int>();
  e.nodes = tree.at("nodes").get<int>();
  e.is_host = tree.at("is_host").get<bool>();
  e.placement.ring = tree.at("ring").get<std::vector<std::int32_t>>();
  e.placement.group = tree.at("group").get<std::vector<std::int32_t>>();
  e.placement.rings = tree.at("rings").get<std::vector<std::vector<std::int32_t>>>();
  e.placement.shares = tree.at("shares").get<std::vector<std::int32_t>>();
  e.core_of = tree.at("core_of").get<std::vector<std::int32_t>>();
  e.core_switch.value = tree.at("core_switch").get<double>();
  e.same_core_gain = tree.at("same_core_gain").get<double>();
  e.cold_end.value = tree.at("cold_end").get<double>();
  e.warm_ends = tree.at("warm_ends").get<double>();
  e.half_cold_ends = tree.at("half_cold_ends").get<double>();
  e.least_within_cores = {tree.at("least_within_cores").get<std::uint64_t>()};
  e.most_within_cores = {tree.at("most_within_cores").get<std::uint64_t>()};
  e.least_plain_within_cores = {tree.at("least_plain_within_cores").get<std::uint64_t>()};
  e.memory.fetch_share = tree.at("fetch_share").get<double>();
  e.memory.shared_read = tree.at("shared_read").get<double>();
  e.memory.page_lock = {tree.at("page_lock_ns").get<double>()};
  e.memory.small_page = {tree.at("small_page_ns").get<double>()};
  e.memory.least_read = {tree.at("least_read").get<std::uint64_t>()};
  e.memory.most_read = {tree.at("most_read").get<std::uint64_t>()};
  e.memory.slots_rate.value = tree.at("slots_rate").get<double>();
  e.memory.lanes_gain = tree.at("lanes_gain").get<double>();
  e.memory.written_share = tree.at("written_share").get<double>();
  e.memory.knows_own_copies = tree.at("knows_own_copies").get<bool>();
  e.memory.is_read_in_lanes = tree.at("read_in_lanes").get<bool>();
  e.memory.is_read_by_several = tree.at("read_by_several").get<bool>();
  e.memory.least_in_blocks = {tree.at("least_in_blocks").get<std::uint64_t>()};
  e.memory.least_halved = {tree.at("least_halved").get<std::uint64_t>()};
  e.memory.most_halved = {tree.at("most_halved").get<std::uint64_t>()};
  e.memory.is_read_overwritten = tree.at("read_overwritten").get<bool>();
  e.fused = tree.at("fused").get<std::vector<std::string>>();
  const auto is_per_rank = [&](const std::vector<std::int32_t>& v, std::int32_t below) {
    if (v.empty()) return true;
    if (v.size() != static_cast<std::size_t>(e.ranks)) return false;
    for (std::int32_t x : v)
      if (x < 0 || x >= below) return false;
    return true;
  };
  if (e.ranks < 1 || e.nodes < 1) return bad("rank or node count below one");
  if (!is_per_rank(e.placement.ring, e.ranks) || !is_per_rank(e.placement.group, e.nodes) || !is_per_rank(e.core_of, e.ranks))
    return bad("a ring, group or core list that does not fit the ranks");
  for (const std::vector<std::int32_t>& ring : e.placement.rings)
    if (!is_per_rank(ring, e.ranks)) return bad("a ring of several that does not fit the ranks");
  if (!e.placement.shares.empty() && e.placement.shares.size() != e.placement.rings.size()) return bad("shares that do not fit the rings");
  for (const std::int32_t share : e.placement.shares)
    if (share < 1) return bad("a ring without a share");
  if (!read_wiring(tree.at("wiring"), e.ranks, e.wiring)) return bad("wires that do not fit the ranks");
  if (e.is_host && e.core_of.empty()) return bad("no cores");
  for (int l = 0; l < kLevels; ++l) {
    const json& t = tree.at("levels").at(static_cast<std::size_t>(l));
    if (t.is_null()) continue;
    Level& level = e.level[l];
    level.is_used = true;
    level.scope = t.at("scope").get<std::string>();
    const int path_class = t.at("path_class").get<int>();
    if (path_class < 0 || path_class > static_cast<int>(topology::PathClass::none)) return bad("unknown path class");
    level.path_class = static_cast<topology::PathClass>(path_class);
    level.latency.value = t.at("latency").get<double>();
    level.bottleneck.value = t.at("bottleneck").get<double>();
    level.ranks_per_outlet = t.at("ranks_per_outlet").get<int>();
    level.outlets = t.at("outlets").get<int>();
    if (level.ranks_per_outlet < 1 || level.outlets < 1) return bad("an outlet for less than one rank, or less than one for a rank");
  }
  read_switches(tree.at("switches"), e);
  for (const json& t : tree.at("offers")) {
    Offer offer;
    PEAL_ASSIGN(offer.protocol, schedule::parse_protocol(t.at("protocol").get<std::string>()));
    for (int l = 0; l < kLevels; ++l)
      if (e.level[l].is_used) offer.constants[l] = constants_from(t.at("constants").at(static_cast<std::size_t>(l)));
    e.offers.push_back(std::move(offer));
  }
  for (const json& t : tree.at("refusals")) {
    PEAL_ASSIGN(const schedule::Protocol protocol, schedule::parse_protocol(t.at("protocol").get<std::string>()));
    e.refusals.push_back({protocol, t.at("why").get<std::string>()});
  }
  if (e.offers.empty()) return bad("no protocol");
  e.measured_by = tree.at("measured_by").get<std::string>();
  if (const std::string table = tree.at("measured").get<std::string>(); !table.empty()) {
    PEAL_ASSIGN(MeasuredTable measured, measured_table_from_text(table, "of rank 0"));
    e.measured = std::move(measured.ways);
    e.measured_constants = std::move(measured.constants);
  }
  PEAL_ASSIGN(e.cores, parse_core_distance(tree.at("cores").get<std::string>()));
  return e;
}

}  // namespace

std::string to_json(const Environment& e) {
  json tree = {{"ranks", e.ranks},
               {"nodes", e.nodes},
               {"is_host", e.is_host},
               {"ring", e.placement.ring},
               {"group", e.placement.group},
               {"rings", e.placement.rings},
               {"shares", e.placement.shares},
               {"wiring", to_tree(e.wiring)},
               {"core_of", e.core_of},
               {"core_switch", e.core_switch.value},
               {"same_core_gain", e.same_core_gain},
               {"cold_end", e.cold_end.value},
               {"warm_ends", e.warm_ends},
               {"half_cold_ends", e.half_cold_ends},
               {"least_within_cores", e.least_within_cores.value},
               {"most_within_cores", e.most_within_cores.value},
               {"least_plain_within_cores", e.least_plain_within_cores.value},
               {"fetch_share", e.memory.fetch_share},
               {"shared_read", e.memory.shared_read},
               {"page_lock_ns", e.memory.page_lock.value},
               {"small_page_ns", e.memory.small_page.value},
               {"least_read", e.memory.least_read.value},
               {"most_read", e.memory.most_read.value},
               {"slots_rate", e.memory.slots_rate.value},
               {"lanes_gain", e.memory.lanes_gain},
               {"written_share", e.memory.written_share},
               {"knows_own_copies", e.memory.knows_own_copies},
               {"read_in_lanes", e.memory.is_read_in_lanes},
               {"read_by_several", e.memory.is_read_by_several},
               {"least_in_blocks", e.memory.least_in_blocks.value},
               {"least_halved", e.memory.least_halved.value},
               {"most_halved", e.memory.most_halved.value},
               {"read_overwritten", e.memory.is_read_overwritten},
               {"fused", e.fused},
               {"levels", json::array()},
               {"switches", {to_tree(e.switches[0]), to_tree(e.switches[1])}},
               {"offers", json::array()},
               {"refusals", json::array()}};
  tree["measured_by"] = e.measured_by;
  tree["measured"] = e.measured.empty() ? "" : to_text(MeasuredTable{"", "", e.measured, e.measured_constants});
  tree["cores"] = name_of(e.cores);
  for (const Level& level : e.level) tree["levels"].push_back(level.is_used ? to_tree(level) : json(nullptr));
  for (const Offer& o : e.offers)
    tree["offers"].push_back(
        {{"protocol", schedule::name_of(o.protocol)}, {"constants", {to_tree(o.constants[0]), to_tree(o.constants[1])}}});
  for (const Refusal& r : e.refusals) tree["refusals"].push_back({{"protocol", schedule::name_of(r.protocol)}, {"why", r.why}});
  return tree.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Environment> environment_from_json(std::string_view text) {
  try {
    const json tree = json::parse(text);
    return read_environment_tree(tree);
  } catch (const json::exception& e) {
    return fail(ErrorCode::corrupt, "the tuning environment of another rank does not parse: {}", e.what());
  }
}

}  // namespace peal::tuning
