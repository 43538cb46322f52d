#include <algorithm>
#include <set>
#include <topology/constants.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>

#include "most_figures.hpp"

namespace peal::topology {
namespace {

Result<Bandwidth> read_rate(YamlFields& fields, std::string_view key) {
  PEAL_ASSIGN(const double gbps, fields.number(key, 0, kMostGBps, 0));
  return Bandwidth::gigabytes(gbps);
}

Result<Nanoseconds> read_time(YamlFields& fields, std::string_view key, double otherwise) {
  PEAL_ASSIGN(const double ns, fields.number(key, 0, kMostNanoseconds, otherwise));
  return Nanoseconds{ns};
}

Status read_caps(YamlFields& fields, ProtocolConstants& set) {
  PEAL_ASSIGN(const YamlNode* caps, fields.list("cap_GBps"));
  if (caps == nullptr) return {};
  double values[3] = {};
  for (std::size_t i = 0; i < caps->items.size() && i < 3; ++i) values[i] = std::strtod(caps->items[i].text.c_str(), nullptr);
  if (caps->items.size() != 3 || !std::all_of(std::begin(values), std::end(values), [](double v) { return v >= 0 && v < kMostGBps; })) {
    return fail(ErrorCode::corrupt, "{}: cap_GBps needs three numbers: one node, two nodes, more", fields.where(*caps));
  }
  set.cap_one_node = Bandwidth::gigabytes(values[0]);
  set.cap_two_nodes = Bandwidth::gigabytes(values[1]);
  set.cap_more_nodes = Bandwidth::gigabytes(values[2]);
  return {};
}

Result<Bytes> read_size(YamlFields& fields, std::string_view key) {
  PEAL_ASSIGN(const double bytes, fields.number(key, 1, 1 << 30));
  return Bytes{static_cast<std::uint64_t>(bytes)};
}

Status read_if_there(YamlFields& fields, std::string_view key, Bytes& into) {
  if (!fields.has(key)) return {};
  PEAL_ASSIGN(into, read_size(fields, key));
  return {};
}

Result<ProtocolConstants> read_set(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "set of constants"));
  ProtocolConstants set;
  PEAL_ASSIGN(set.scope, fields.text("scope"));
  PEAL_ASSIGN(set.protocol, fields.text("protocol"));
  PEAL_ASSIGN(set.launch, read_time(fields, "launch_ns", 0));
  PEAL_ASSIGN(set.per_hop, read_time(fields, "per_hop_ns", 0));
  PEAL_ASSIGN(set.per_hop_tree, read_time(fields, "per_hop_tree_ns", set.per_hop.value));
  PEAL_ASSIGN(set.per_op, read_time(fields, "per_op_ns", 0));
  PEAL_ASSIGN(set.receive_share, fields.number("receive_share", 0, 1, 1));
  PEAL_ASSIGN(set.efficiency, fields.number("efficiency", 1e-3, 1, 1));
  PEAL_ASSIGN(set.copy, read_rate(fields, "copy_GBps"));
  PEAL_ASSIGN(set.reduce, read_rate(fields, "reduce_GBps"));
  if (fields.has("kept_bytes")) {
    PEAL_ASSIGN(set.kept, read_size(fields, "kept_bytes"));
    PEAL_ASSIGN(set.left_share, fields.number("left_share", 0.01, 1));
  }
  PEAL_TRY(read_caps(fields, set));
  PEAL_ASSIGN(const int slice, fields.integer("slice_bytes", 0, 1 << 30, 0));
  set.slice = {static_cast<std::uint64_t>(slice)};
  PEAL_ASSIGN(set.slots, fields.integer("slots", 0, 1 << 20, 0));
  PEAL_ASSIGN(set.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  return set;
}

Result<MemoryTerms> read_memory(YamlFields& fields) {
  MemoryTerms memory;
  PEAL_ASSIGN(memory.fetch_share, fields.number("fetch_share", 0, 1));
  PEAL_ASSIGN(memory.shared_read, fields.number("shared_read", 0, 1));
  PEAL_ASSIGN(memory.page_lock, read_time(fields, "page_lock_ns", 0));
  PEAL_ASSIGN(memory.small_page, read_time(fields, "small_page_ns", 0));
  PEAL_ASSIGN(memory.least_read, read_size(fields, "least_read_bytes"));
  PEAL_ASSIGN(memory.most_read, read_size(fields, "most_read_bytes"));
  PEAL_TRY(read_if_there(fields, "least_in_blocks_bytes", memory.least_in_blocks));
  PEAL_TRY(read_if_there(fields, "least_halved_bytes", memory.least_halved));
  PEAL_TRY(read_if_there(fields, "most_halved_bytes", memory.most_halved));
  PEAL_ASSIGN(memory.slots_rate, read_rate(fields, "slots_GBps"));
  PEAL_ASSIGN(memory.written_share, fields.number("written_share", 0.01, 1, memory.written_share));
  PEAL_ASSIGN(memory.knows_own_copies, fields.flag("knows_own_copies", memory.knows_own_copies));
  PEAL_ASSIGN(memory.lanes_gain, fields.number("lanes_gain", 1, 10, memory.lanes_gain));
  PEAL_ASSIGN(memory.is_read_in_lanes, fields.flag("read_in_lanes", memory.is_read_in_lanes));
  PEAL_ASSIGN(memory.is_read_by_several, fields.flag("read_by_several", memory.is_read_by_several));
  PEAL_ASSIGN(memory.is_read_overwritten, fields.flag("read_overwritten", memory.is_read_overwritten));
  if (memory.most_read < memory.least_read)
    return fail(ErrorCode::corrupt, "{}: most_read_bytes is less than least_read_bytes", fields.where());
  if (memory.most_halved < memory.least_halved)
    return fail(ErrorCode::corrupt, "{}: most_halved_bytes is less than least_halved_bytes", fields.where());
  return memory;
}

Result<HostDefaults> read_host(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "host"));
  HostDefaults host;
  const auto time = [&](std::string_view key, Nanoseconds& into) -> Status {
    PEAL_ASSIGN(into.value, fields.number(key, 0, kMostNanoseconds));
    return {};
  };
  const auto rate = [&](std::string_view key, Bandwidth& into) -> Status {
    PEAL_ASSIGN(const double gbps, fields.number(key, 1e-6, kMostGBps));
    into = Bandwidth::gigabytes(gbps);
    return {};
  };
  PEAL_TRY(time("near_exchange_ns", host.near_exchange));
  PEAL_TRY(time("far_exchange_ns", host.far_exchange));
  PEAL_TRY(time("siblings_below_ns", host.siblings_below));
  PEAL_TRY(time("near_below_ns", host.near_below));
  PEAL_TRY(time("core_switch_ns", host.core_switch));
  PEAL_TRY(time("core_switch_polling_ns", host.core_switch_polling));
  PEAL_ASSIGN(host.same_core_gain, fields.number("same_core_gain", 0.01, 100));
  PEAL_TRY(time("cold_end_ns", host.cold_end));
  PEAL_ASSIGN(host.warm_ends, fields.number("warm_ends", 0, 1e9));
  PEAL_ASSIGN(host.half_cold_ends, fields.number("half_cold_ends", 1, 1e9));
  PEAL_ASSIGN(host.least_within_cores, read_size(fields, "least_within_cores_bytes"));
  PEAL_ASSIGN(host.most_within_cores, read_size(fields, "most_within_cores_bytes"));
  PEAL_ASSIGN(host.memory, read_memory(fields));
  PEAL_TRY(time("loopback_latency_ns", host.loopback_latency));
  PEAL_TRY(rate("core_copy_GBps", host.core_copy));
  PEAL_TRY(rate("domain_memory_GBps", host.domain_memory));
  PEAL_TRY(rate("between_domains_GBps", host.between_domains));
  PEAL_TRY(rate("loopback_GBps", host.loopback));
  PEAL_TRY(rate("unknown_nic_GBps", host.unknown_nic));
  PEAL_ASSIGN(host.source, fields.text("source"));
  PEAL_TRY(fields.finish());
  return host;
}

Result<ProcessorDefaults> read_processor(YamlFields& fields) {
  ProcessorDefaults processor;
  PEAL_ASSIGN(processor.name, fields.text("name"));
  PEAL_ASSIGN(const YamlNode* cpus, fields.list("cpus"));
  if (cpus != nullptr)
    for (const YamlNode& cpu : cpus->items) processor.cpus.push_back(cpu.text);
  PEAL_ASSIGN(processor.most_ranks, fields.integer("most_ranks", 1, std::numeric_limits<int>::max(), processor.most_ranks));
  PEAL_ASSIGN(processor.is_for_shared_cores, fields.flag("shared_cores", false));
  PEAL_ASSIGN(processor.core_switch, read_time(fields, "core_switch_ns", 0));
  PEAL_ASSIGN(processor.same_core_gain, fields.number("same_core_gain", 0, 100, 0));
  PEAL_TRY(read_if_there(fields, "least_within_cores_bytes", processor.least_within_cores));
  PEAL_TRY(read_if_there(fields, "least_plain_within_cores_bytes", processor.least_plain_within_cores));
  PEAL_ASSIGN(processor.memory, read_memory(fields));
  PEAL_ASSIGN(processor.source, fields.text("source"));
  return processor;
}

struct ConstantsTable {
  std::vector<ProtocolConstants> sets;
  std::optional<HostDefaults> host;
  std::vector<ProcessorDefaults> processors;
};

Result<ConstantsTable> read_constants_table(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, name));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, name, "file of constants"));
  ConstantsTable table;
  if (const YamlNode* host = top.find("host")) {
    PEAL_ASSIGN(table.host, read_host(*host, name));
  }
  PEAL_TRY(each_row(top, "processors", name, "processor", [&](YamlFields& fields) -> Status {
    PEAL_ASSIGN(ProcessorDefaults processor, read_processor(fields));
    table.processors.push_back(std::move(processor));
    return {};
  }));
  PEAL_ASSIGN(const YamlNode* list, top.list("constants"));
  PEAL_TRY(top.finish());
  if (list == nullptr) return table;
  std::set<std::pair<std::string, std::string>> seen;
  for (const YamlNode& node : list->items) {
    PEAL_ASSIGN(ProtocolConstants set, read_set(node, name));
    if (!seen.emplace(set.scope, set.protocol).second) {
      return fail(ErrorCode::corrupt, "{}:{}: {} over {} is there twice: keep one", name, node.line, set.protocol, set.scope);
    }
    table.sets.push_back(std::move(set));
  }
  return table;
}

Result<ConstantsTable> read_constants() {
  PEAL_ASSIGN(const std::vector<DataFile> files, read_data_folder("constants"));
  ConstantsTable all;
  for (const DataFile& file : files) {
    PEAL_ASSIGN(ConstantsTable table, read_constants_table(file.text, file.path));
    all.sets.insert(all.sets.end(), table.sets.begin(), table.sets.end());
    if (table.host) all.host = std::move(table.host);
    all.processors.insert(all.processors.end(), table.processors.begin(), table.processors.end());
  }
  if (all.host) all.host->processors = std::move(all.processors);
  return all;
}

/// The files do not change while a process runs, so they are read once.
const Result<ConstantsTable>& whole_table() {
  static const Result<ConstantsTable> table = read_constants();
  return table;
}

const ProtocolConstants* find_set(const std::vector<ProtocolConstants>& sets, std::string_view scope, std::string_view protocol) {
  const auto it =
      std::find_if(sets.begin(), sets.end(), [&](const ProtocolConstants& s) { return s.scope == scope && s.protocol == protocol; });
  return it == sets.end() ? nullptr : &*it;
}

}  // namespace

Result<std::vector<ProtocolConstants>> read_constants_text(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(ConstantsTable table, read_constants_table(text, name));
  return std::move(table.sets);
}

Result<const std::vector<ProtocolConstants>*> all_constants() {
  const Result<ConstantsTable>& table = whole_table();
  if (!table) return pass_on(table.error());
  return &table->sets;
}

Result<HostDefaults> host_defaults() {
  const Result<ConstantsTable>& table = whole_table();
  if (!table) return pass_on(table.error());
  if (!table->host) return fail(ErrorCode::corrupt, "no file of {}/constants has a `host:` section", data_directory());
  return *table->host;
}

const ProcessorDefaults* HostDefaults::of_processor(std::string_view cpu, int ranks, bool shares_cores) const {
  for (const ProcessorDefaults& processor : processors)
    if (ranks <= processor.most_ranks && (shares_cores || !processor.is_for_shared_cores) &&
        std::find(processor.cpus.begin(), processor.cpus.end(), cpu) != processor.cpus.end())
      return &processor;
  return nullptr;
}

Result<ProtocolConstants> constants_for(std::string_view scope, std::string_view protocol) {
  PEAL_ASSIGN(const std::vector<ProtocolConstants>* sets, all_constants());
  if (const ProtocolConstants* set = find_set(*sets, scope, protocol)) return *set;
  // "nvlink-b200" without figures of its own takes those of "nvlink".
  const std::string_view family = scope.substr(0, scope.find('-'));
  if (const ProtocolConstants* set = find_set(*sets, family, protocol)) return *set;
  std::string known;
  for (const ProtocolConstants& s : *sets)
    if (s.scope == scope) known += (known.empty() ? "" : ", ") + s.protocol;
  if (!known.empty())
    return fail(ErrorCode::unsupported, "no cost constants for protocol '{}' over {}; there are {}", protocol, scope, known);
  std::set<std::string> scopes;
  for (const ProtocolConstants& s : *sets) scopes.insert(s.scope);
  return fail(ErrorCode::unsupported, "no cost constants for '{}'; there are {} (add them to {}/constants)", scope, fmt::join(scopes, ", "),
              data_directory());
}

}  // namespace peal::topology
