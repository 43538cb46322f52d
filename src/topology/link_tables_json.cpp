#include <cstdlib>
#include <nlohmann/json.hpp>
#include <topology/link_tables.hpp>

namespace peal::topology {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Without the noise of the last binary digits.
double clean(double value) { return std::strtod(fmt::format("{:.12g}", value).c_str(), nullptr); }

void put(OrderedJson& into, const char* key, const std::string& text) {
  if (!text.empty()) into[key] = text;
}

void put(OrderedJson& into, const char* key, double value) {
  if (value > 0) into[key] = clean(value);
}

OrderedJson json_of(const LinkGeneration& link) {
  OrderedJson out = {{"name", link.name}, {"family", link.family}, {"title", link.title}, {"kind", name_of(link.kind)}};
  put(out, "lane_Gbps", link.lane_gbps);
  if (link.lanes > 0) out["lanes"] = link.lanes;
  put(out, "modulation", link.modulation);
  put(out, "coding", link.coding);
  put(out, "arithmetic", link.arithmetic());
  out["GBps"] = clean(link.bandwidth.gigabytes());
  out["usable_GBps"] = clean(link.usable.gigabytes());
  put(out, "latency_ns", link.latency.value);
  put(out, "scope", link.scope);
  out["source"] = link.source;
  put(out, "usable_source", link.usable_source);
  put(out, "latency_source", link.latency_source);
  for (const LinkUse& use : link.uses) {
    const double each = link.bandwidth.gigabytes() * use.links;
    OrderedJson one = {{"device", use.device}, {"links", use.links}, {"each_way_GBps", clean(each)}, {"both_ways_GBps", clean(2 * each)}};
    put(one, "published_both_ways_GBps", use.both.gigabytes());
    put(one, "note", use.note);
    one["source"] = use.source;
    out["uses"].push_back(std::move(one));
  }
  return out;
}

OrderedJson json_of(const SwitchGeneration& chip) {
  OrderedJson out = {{"name", chip.name},
                     {"family", chip.family},
                     {"title", chip.title},
                     {"ports", chip.ports},
                     {"port_GBps", clean(chip.port.gigabytes())},
                     {"both_ways_GBps", clean(2 * chip.ports * chip.port.gigabytes())}};
  put(out, "published_both_ways_GBps", chip.both.gigabytes());
  put(out, "reduction", chip.reduction);
  put(out, "multicast", chip.multicast);
  put(out, "in_box", chip.in_box);
  out["source"] = chip.source;
  return out;
}

OrderedJson json_of(const MemoryGeneration& memory) {
  OrderedJson out = {{"name", memory.name}, {"title", memory.title}, {"device", memory.device}};
  put(out, "pin_Gbps", memory.pin_gbps);
  if (memory.bits > 0) out["bits"] = memory.bits;
  out["GBps"] = clean(memory.bandwidth.gigabytes());
  put(out, "published_GBps", memory.published.gigabytes());
  put(out, "capacity_GB", memory.capacity_gb);
  out["source"] = memory.source;
  return out;
}

OrderedJson json_of(const FrameOverhead& frame) {
  OrderedJson out = {{"name", frame.name}, {"family", frame.family}, {"title", frame.title}, {"bytes", frame.bytes()}};
  for (const auto& [part, bytes] : frame.parts) out["parts"][part] = bytes;
  out["shares"] = OrderedJson::array();
  for (const int payload : frame.payloads) out["shares"].push_back({{"payload", payload}, {"share", clean(frame.share(payload))}});
  out["source"] = frame.source;
  return out;
}

OrderedJson json_of(const LinkFact& fact) {
  OrderedJson out = {{"topic", fact.topic}, {"about", fact.about}, {"what", fact.what}};
  if (fact.has_value) {
    out["low"] = clean(fact.low);
    out["high"] = clean(fact.high);
  }
  put(out, "unit", fact.unit);
  put(out, "text", fact.text);
  out["source"] = fact.source;
  return out;
}

template <class Records>
OrderedJson json_list_of(const Records& records) {
  OrderedJson out = OrderedJson::array();
  for (const auto& record : records) out.push_back(json_of(record));
  return out;
}

}  // namespace

std::string link_tables_json(const LinkCatalogue& catalogue) {
  OrderedJson root;
  root["links"] = json_list_of(catalogue.links);
  root["switches"] = json_list_of(catalogue.switches);
  root["memories"] = json_list_of(catalogue.memories);
  root["frames"] = json_list_of(catalogue.frames);
  root["facts"] = json_list_of(catalogue.facts);
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace peal::topology
