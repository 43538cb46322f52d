// data/links/layers/*.yaml: the form is described in topology/link_layers.hpp.
#include <algorithm>
#include <topology/link_layers.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>

namespace peal::topology {
namespace {

constexpr std::size_t kMostLayerRecords = 1000;

template <class Record>
struct Key {
  const char* layer;
  const char* name;
  double Record::*into;
  double low, high;
};

constexpr double kMostBytes = 1 << 20;
constexpr double kMostLayerNanoseconds = 1e9;
using L = LinkLayers;
constexpr Key<L> kLayerKeys[] = {
    {"physical", "end_ns", &L::end_ns, 0, kMostLayerNanoseconds},
    {"physical", "cable_ns_per_metre", &L::cable_ns_per_metre, 0, 1000},
    {"physical", "metres", &L::metres, 0, 1e6},
    {"physical", "fec_symbol_bits", &L::fec_symbol_bits, 0, 64},
    {"physical", "fec_symbols", &L::fec_symbols, 0, 1 << 16},
    {"physical", "fec_corrects", &L::fec_corrects, 0, 1 << 15},
    {"physical", "fec_decode_ns", &L::fec_decode_ns, 0, kMostLayerNanoseconds},
    {"physical", "is_coded_by_flits", &L::is_coded_by_flits, 0, 1},
    {"data_link", "flit_bytes", &L::flit_bytes, 1, 4096},
    {"data_link", "flit_data_bytes", &L::flit_data_bytes, 0, 4096},
    {"data_link", "crc_bits", &L::crc_bits, 1, 128},
    {"data_link", "crc_detects", &L::crc_detects, 0, 64},
    {"data_link", "sequence_bits", &L::sequence_bits, 2, 30},
    {"data_link", "replay_bytes", &L::replay_bytes, 1, 1 << 30},
    {"data_link", "has_nak", &L::has_nak, 0, 1},
    {"data_link", "ack_rides", &L::ack_rides, 0, 1},
    {"data_link", "message_bytes", &L::message_bytes, 1, 4096},
    {"data_link", "ack_delay_symbols", &L::ack_delay_symbols, 0, 1e6},
    {"data_link", "ack_around_bytes", &L::ack_around_bytes, 0, 4096},
    {"data_link", "ack_packets", &L::ack_packets, 0, 1000},
    {"data_link", "ack_packets_x8", &L::ack_packets_x8, 0, 1000},
    {"data_link", "ack_packets_x16", &L::ack_packets_x16, 0, 1000},
    {"data_link", "timeout_round_trips", &L::timeout_round_trips, 1, 1000},
    {"data_link", "refresh_ns", &L::refresh_ns, 10, kMostLayerNanoseconds},
    {"transaction", "max_payload_bytes", &L::max_payload_bytes, 1, kMostBytes},
    {"transaction", "max_read_bytes", &L::max_read_bytes, 1, kMostBytes},
    {"transaction", "read_reply_bytes", &L::read_reply_bytes, 1, kMostBytes},
    {"transaction", "credits", &L::credits, 1, 1 << 20},
    {"transaction", "drain_ns", &L::drain_ns, 0, kMostLayerNanoseconds},
    {"transaction", "target_ns", &L::target_ns, 0, kMostLayerNanoseconds},
    {"transaction", "outstanding", &L::outstanding, 1, 1 << 20},
};

using S = SharingFigures;
constexpr Key<S> kSharingKeys[] = {
    {"sharing", "line_bytes", &S::line_bytes, 1, kMostBytes},
    {"sharing", "copy_us", &S::copy_us, 0, 1e6},
    {"sharing", "page_bytes", &S::page_bytes, 1, 1 << 30},
    {"sharing", "first_fault_us", &S::first_fault_us, 0, 1e6},
    {"sharing", "fault_us", &S::fault_us, 0, 1e6},
};

/// `KEY: {is: 60, source: "..."}` for every key of one layer.
template <class Record, std::size_t N>
Status read_layer(YamlFields& fields, const Key<Record> (&keys)[N], std::string_view layer, const std::string& file, Record& record) {
  for (const Key<Record>& key : keys) {
    if (key.layer != layer) continue;
    const YamlNode* node = fields.find(key.name);
    if (node == nullptr) continue;
    PEAL_ASSIGN(YamlFields figure, YamlFields::of(*node, file, key.name));
    PEAL_ASSIGN(const double value, figure.number("is", key.low, key.high));
    PEAL_ASSIGN(std::string source, figure.text("source"));
    PEAL_TRY(figure.finish());
    record.*key.into = value;
    std::erase_if(record.figures, [&](const LayerFigure& f) { return f.key == key.name; });
    record.figures.push_back({std::string(layer), key.name, value, std::move(source)});
  }
  return fields.finish();
}

bool has(const LinkLayers& record, std::string_view key) {
  return std::any_of(record.figures.begin(), record.figures.end(), [&](const LayerFigure& f) { return f.key == key; });
}

/// What no packet can do without, and what must go together.
Status check(const LinkLayers& r, const std::string& where) {
  for (const char* key : {"crc_bits", "sequence_bits", "replay_bytes", "message_bytes", "timeout_round_trips", "refresh_ns",
                          "max_payload_bytes", "max_read_bytes", "read_reply_bytes", "credits", "outstanding"})
    if (!has(r, key)) return fail(ErrorCode::corrupt, "{}: '{}' has no {}: add `{}: {{is: ..., source: ...}}`", where, r.name, key, key);
  if (r.flit_data_bytes > r.flit_bytes) return fail(ErrorCode::corrupt, "{}: flits of '{}' carry more than they are long", where, r.name);
  if (r.fec_symbol_bits > 0 && (r.fec_symbols < 1 || r.fec_corrects >= r.fec_symbols))
    return fail(ErrorCode::corrupt, "{}: a code of '{}' needs fec_symbols, and corrects fewer than it has", where, r.name);
  return {};
}

Result<LinkLayers> read_record(const YamlNode& node, const std::string& file, const std::vector<LinkLayers>& above) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "record of layers"));
  LinkLayers record;
  PEAL_ASSIGN(const std::string name, fields.text("name"));
  PEAL_ASSIGN(const std::string like, fields.text("like", ""));
  if (!like.empty()) {
    const auto base = std::find_if(above.begin(), above.end(), [&](const LinkLayers& r) { return r.name == like; });
    if (base == above.end())
      return fail(ErrorCode::corrupt, "{}: like '{}', which no record above is called", fields.where(*fields.find("like")), like);
    record = *base;
  }
  record.name = name;
  record.links.clear();
  PEAL_ASSIGN(record.request_frame, fields.text("request_frame", record.request_frame));
  PEAL_ASSIGN(record.response_frame, fields.text("response_frame", record.response_frame));
  PEAL_ASSIGN(const YamlNode* links, fields.list("links"));
  for (std::size_t i = 0; links != nullptr && i < links->items.size(); ++i) record.links.push_back(links->items[i].text);
  for (const char* layer : {"physical", "data_link", "transaction"}) {
    const YamlNode* figures = fields.find(layer);
    if (figures == nullptr) continue;
    PEAL_ASSIGN(YamlFields inner, YamlFields::of(*figures, file, layer));
    PEAL_TRY(read_layer(inner, kLayerKeys, layer, file, record));
  }
  if (const YamlNode* sharing = fields.find("sharing"); sharing != nullptr) {
    PEAL_ASSIGN(YamlFields inner, YamlFields::of(*sharing, file, "sharing"));
    PEAL_TRY(read_layer(inner, kSharingKeys, "sharing", file, record.sharing));
  }
  PEAL_TRY(fields.finish());
  PEAL_TRY(check(record, fields.where()));
  return record;
}

Result<SharingFigures> read_sharing(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "sharing"));
  SharingFigures sharing;
  PEAL_TRY(read_layer(fields, kSharingKeys, "sharing", file, sharing));
  if (sharing.figures.size() != std::size(kSharingKeys))
    return fail(ErrorCode::corrupt, "{}: sharing needs line_bytes, copy_us, page_bytes, first_fault_us and fault_us", fields.where());
  return sharing;
}

Result<LayerCatalogue> read_layers() {
  PEAL_ASSIGN(const std::vector<DataFile> files, read_data_folder("links/layers"));
  LayerCatalogue all;
  for (const DataFile& file : files) {
    PEAL_ASSIGN(LayerCatalogue read, read_layers_text(file.text, file.path));
    std::move(read.layers.begin(), read.layers.end(), std::back_inserter(all.layers));
    if (read.sharing) all.sharing = std::move(read.sharing);
  }
  return all;
}

}  // namespace

Result<LayerCatalogue> read_layers_text(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, name));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, name, "file of layers"));
  PEAL_ASSIGN(const YamlNode* list, top.list("layers"));
  const YamlNode* sharing = top.find("sharing");
  PEAL_TRY(top.finish());
  LayerCatalogue read;
  if (list != nullptr && list->items.size() > kMostLayerRecords)
    return fail(ErrorCode::corrupt, "{}:{}: more than {} records: split the file", name, list->line, kMostLayerRecords);
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    PEAL_ASSIGN(LinkLayers record, read_record(list->items[i], name, read.layers));
    read.layers.push_back(std::move(record));
  }
  if (sharing == nullptr) return read;
  PEAL_ASSIGN(read.sharing, read_sharing(*sharing, name));
  return read;
}

Result<const LayerCatalogue*> layer_catalogue() {
  static const Result<LayerCatalogue> catalogue = read_layers();
  if (!catalogue) return pass_on(catalogue.error());
  return &*catalogue;
}

Result<const LinkLayers*> layers_of(const LinkGeneration& link) {
  PEAL_ASSIGN(const LayerCatalogue* catalogue, layer_catalogue());
  std::vector<std::string> known;
  for (const LinkLayers& record : catalogue->layers) {
    for (const std::string& name : record.links) {
      if (name == link.name || name == link.generation) return &record;
      known.push_back(name);
    }
  }
  return fail(ErrorCode::unsupported, "how packets travel over {} is not described; there are {}", link.name, fmt::join(known, ", "));
}

Result<SharingFigures> sharing_over(const LinkLayers& link) {
  PEAL_ASSIGN(const LayerCatalogue* catalogue, layer_catalogue());
  if (!catalogue->sharing) return fail(ErrorCode::corrupt, "data/links/layers has no `sharing:`");
  SharingFigures sharing = *catalogue->sharing;
  for (const LayerFigure& own : link.sharing.figures) {
    for (const Key<S>& key : kSharingKeys)
      if (own.key == key.name) sharing.*key.into = own.value;
    std::replace_if(
        sharing.figures.begin(), sharing.figures.end(), [&](const LayerFigure& f) { return f.key == own.key; }, own);
  }
  return sharing;
}

}  // namespace peal::topology
