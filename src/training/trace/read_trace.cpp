// The wire is read by protobuf's CodedInputStream, field by field: a dozen of the schema's numbers are needed, and producers differ in how
// wide their integers are, which generated code would have to be asked for type by type.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <topology/yaml_tree.hpp>
#include <training/execution_trace.hpp>

#include "trace_node.hpp"

namespace peal::training {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::size_t kMostNodes = 4'000'000;

/// One `Attribute`: its name and, of whatever width, its number or text.
struct Attribute {
  std::string name, text;
  double number = 0;
};

/// Of what follows; no more than there is.
bool read_size(CodedInputStream& in, std::uint32_t& size) {
  return in.ReadVarint32(&size) && static_cast<std::int64_t>(size) <= in.BytesUntilLimit();
}

bool read_text(CodedInputStream& in, std::string& text) {
  std::uint32_t size = 0;
  return read_size(in, size) && in.ReadString(&text, static_cast<int>(size));
}

/// A field that is not looked at.
bool skip(CodedInputStream& in, std::uint32_t tag) { return WireFormatLite::SkipField(&in, tag); }

/// Reads a nested message with `field(in, tag)` for each of its fields.
template <class Field>
bool read_message(CodedInputStream& in, Field&& field) {
  std::uint32_t size = 0;
  if (!read_size(in, size)) return false;
  const CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(size));
  while (const std::uint32_t tag = in.ReadTag())
    if (!field(in, tag)) return false;
  const bool is_whole = in.ConsumedEntireMessage();
  in.PopLimit(limit);
  return is_whole;
}

double real_of(std::uint64_t bits, int field) {
  if (field == 3) {  // double
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }
  return static_cast<double>(static_cast<std::int64_t>(bits));  // fixed64, sfixed64
}

/// The oneof of Attribute: 3 double, 5 float, 7 to 17 varints (15 and 17 zigzag), 19 to 25 fixed, 27 bool, 29 string; lists are skipped.
bool read_value(CodedInputStream& in, std::uint32_t tag, Attribute& attribute) {
  const int field = WireFormatLite::GetTagFieldNumber(tag);
  switch (WireFormatLite::GetTagWireType(tag)) {
    case WireFormatLite::WIRETYPE_VARINT: {
      std::uint64_t bits = 0;
      if (!in.ReadVarint64(&bits)) return false;
      const bool is_zigzag = field == 15 || field == 17;
      attribute.number = static_cast<double>(is_zigzag ? WireFormatLite::ZigZagDecode64(bits) : static_cast<std::int64_t>(bits));
      return true;
    }
    case WireFormatLite::WIRETYPE_FIXED64: {
      std::uint64_t bits = 0;
      if (!in.ReadLittleEndian64(&bits)) return false;
      attribute.number = real_of(bits, field);
      return true;
    }
    case WireFormatLite::WIRETYPE_FIXED32: {
      std::uint32_t bits = 0;
      if (!in.ReadLittleEndian32(&bits)) return false;
      float real = 0;
      std::memcpy(&real, &bits, sizeof real);
      attribute.number = field == 5 ? static_cast<double>(real) : static_cast<double>(static_cast<std::int32_t>(bits));
      return true;
    }
    default: return field == 29 ? read_text(in, attribute.text) : skip(in, tag);
  }
}

bool read_attribute(CodedInputStream& in, Attribute& attribute) {
  return read_message(in, [&](CodedInputStream& inner, std::uint32_t tag) {
    return WireFormatLite::GetTagFieldNumber(tag) == 1 ? read_text(inner, attribute.name) : read_value(inner, tag, attribute);
  });
}

/// Repeated numbers, packed or one by one.
bool read_ids(CodedInputStream& in, std::uint32_t tag, std::vector<std::uint64_t>& ids) {
  std::uint64_t id = 0;
  if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT) return in.ReadVarint64(&id) && (ids.push_back(id), true);
  if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) return skip(in, tag);
  std::uint32_t size = 0;
  if (!read_size(in, size)) return false;
  const CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(size));
  while (in.BytesUntilLimit() > 0) {
    if (!in.ReadVarint64(&id)) return false;
    ids.push_back(id);
  }
  in.PopLimit(limit);
  return true;
}

bool read_varint(CodedInputStream& in, std::uint32_t tag, std::uint64_t& value) {
  return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT ? in.ReadVarint64(&value) : skip(in, tag);
}

bool read_node_field(CodedInputStream& in, std::uint32_t tag, TraceNode& node) {
  std::uint64_t value = 0;
  Attribute attribute;
  switch (WireFormatLite::GetTagFieldNumber(tag)) {
    case 1: return read_varint(in, tag, node.id);
    case 2: return read_text(in, node.name);
    case 3: return read_varint(in, tag, value) && (set_kind(node, static_cast<double>(value)), true);
    case 4:
    case 5: return read_ids(in, tag, node.after);
    case 7: return read_varint(in, tag, value) && (node.duration_us = static_cast<double>(value), true);
    case 10:
      return read_attribute(in, attribute) &&
             (attribute.text.empty() ? set_number(node, attribute.name, attribute.number) : set_text(node, attribute.name, attribute.text),
              true);
    default: return skip(in, tag);
  }
}

bool read_metadata_field(CodedInputStream& in, std::uint32_t tag, std::string& version) {
  Attribute attribute;
  switch (WireFormatLite::GetTagFieldNumber(tag)) {
    case 1: return read_text(in, version);
    case 2:
      if (!read_attribute(in, attribute)) return false;
      if (attribute.name == "schema" && version.empty()) version = attribute.text;
      return true;
    default: return skip(in, tag);
  }
}

Result<RankTrace> read_wire(std::string_view bytes, RankTrace trace) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  const auto metadata = [&](CodedInputStream& inner, std::uint32_t tag) { return read_metadata_field(inner, tag, trace.version); };
  if (!read_message(in, metadata))
    return fail(ErrorCode::corrupt, "{}: not a Chakra execution trace, or cut off in its first message; give NAME.RANK.et files",
                trace.file);
  std::set<std::uint64_t> ids;
  while (in.CurrentPosition() < static_cast<int>(bytes.size())) {
    const int begin = in.CurrentPosition();
    TraceNode node;
    const bool is_whole = read_message(in, [&](CodedInputStream& inner, std::uint32_t tag) { return read_node_field(inner, tag, node); });
    if (!is_whole && trace.nodes.empty() && bytes.size() > static_cast<std::size_t>(begin) + 4096)
      return fail(ErrorCode::corrupt, "{}: not a Chakra execution trace: its second message is no node; give NAME.RANK.et files",
                  trace.file);
    if (!is_whole) {
      trace.cut_off =
          fmt::format("{}: cut off, or damaged, in the message at byte {} of {}: the {} nodes before it were read; copy the file again",
                      trace.file, begin, bytes.size(), trace.nodes.size());
      break;
    }
    if (!ids.insert(node.id).second) return fail(ErrorCode::corrupt, "{}: two nodes have the id {}", trace.file, node.id);
    if (trace.nodes.size() == kMostNodes)
      return fail(ErrorCode::corrupt, "{}: more than {} nodes; split the trace", trace.file, kMostNodes);
    trace.nodes.push_back(std::move(node));
  }
  return trace;
}

/// "NAME.RANK.et": the number before the ending.
int rank_in(const std::string& file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  const std::string number = std::filesystem::path(stem).extension().string();
  if (number.size() < 2 || number.size() > 8 || !std::all_of(number.begin() + 1, number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return -1;
  return std::stoi(number.substr(1));
}

int missing_in(const RankTrace& trace) {
  std::set<std::uint64_t> ids;
  for (const TraceNode& node : trace.nodes) ids.insert(node.id);
  int missing = 0;
  for (const TraceNode& node : trace.nodes)
    missing += static_cast<int>(std::count_if(node.after.begin(), node.after.end(), [&](std::uint64_t id) { return ids.count(id) == 0; }));
  return missing;
}

}  // namespace

Result<RankTrace> read_trace(std::string_view bytes, const std::string& file) {
  RankTrace trace;
  trace.file = file;
  trace.rank = rank_in(file);
  if (bytes.empty()) return fail(ErrorCode::corrupt, "{}: the file is empty", file);
  if (bytes.size() > (1u << 30)) return fail(ErrorCode::corrupt, "{}: more than 1 GiB; split the trace", file);
  const bool is_json = bytes[0] == '{' && bytes.substr(0, 4096).find('"') != std::string_view::npos;
  Result<RankTrace> read = is_json ? read_trace_json(bytes, std::move(trace)) : read_wire(bytes, std::move(trace));
  if (read) read->missing = missing_in(*read);
  return read;
}

Result<std::vector<RankTrace>> read_traces(const std::vector<std::string>& files) {
  std::vector<RankTrace> traces;
  for (const std::string& file : files) {
    PEAL_ASSIGN(const std::string bytes, topology::read_small_file(file, 1024));
    PEAL_ASSIGN(RankTrace trace, read_trace(bytes, file));
    traces.push_back(std::move(trace));
  }
  // Names without numbers: ranks in the order of the files.
  for (std::size_t i = 0; i < traces.size(); ++i)
    if (traces[i].rank < 0) traces[i].rank = static_cast<int>(i);
  std::sort(traces.begin(), traces.end(), [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
  for (std::size_t i = 1; i < traces.size(); ++i)
    if (traces[i].rank == traces[i - 1].rank)
      return fail(ErrorCode::invalid_argument, "{} and {} are both of rank {}; give one file a rank", traces[i - 1].file, traces[i].file,
                  traces[i].rank);
  return traces;
}

}  // namespace peal::training
