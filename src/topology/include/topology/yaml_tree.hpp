// YAML as a plain tree with line numbers and limits. yaml-cpp parses the bytes; no exception and no alias leaves this file.
#pragma once

#include <base/result.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peal::topology {

struct YamlField;

struct YamlNode {
  enum class Kind : std::uint8_t { scalar, list, map };
  Kind kind = Kind::scalar;
  int line = 0;  ///< from 1; 0: words of a command line
  std::string text;
  std::vector<YamlNode> items;
  std::vector<YamlField> fields;  ///< in order; keys are unique
};

/// One key of a mapping. No std::pair: Clang 16 asks for a pair's members before the node that holds it is complete.
struct YamlField {
  std::string first;
  YamlNode second;
};

/// The field of that key, or null.
const YamlNode* child_of(const YamlNode& node, std::string_view key);

/// Parses one document of at most 4 MiB, 64 levels, 2,000,000 nodes, without aliases and tags.
Result<YamlNode> parse_yaml(std::string_view text, const std::string& name);
/// Reads a file of at most `most_mib` MiB.
Result<std::string> read_small_file(const std::string& path, std::size_t most_mib = 4);

/// The YAML files of a folder of data/ ("constants/libraries"), by their names; not of the folders in it. Fails where there is none.
struct DataFile {
  std::string path;
  std::string text;
};
Result<std::vector<DataFile>> read_data_folder(std::string_view folder);

/// Typed reading of one mapping. `finish` refuses keys that nobody asked for, with the nearest match.
class YamlFields {
 public:
  /// `what` names the mapping in messages ("device", "link").
  static Result<YamlFields> of(const YamlNode& node, const std::string& file, std::string_view what);

  const YamlNode* find(std::string_view key);
  bool has(std::string_view key) { return find(key) != nullptr; }
  Result<std::string> text(std::string_view key);  ///< must be there
  Result<std::string> text(std::string_view key, std::string_view otherwise);
  Result<double> number(std::string_view key, double low, double high);  ///< must be there
  Result<double> number(std::string_view key, double low, double high, double otherwise);
  Result<int> integer(std::string_view key, int low, int high, int otherwise);
  Result<bool> flag(std::string_view key, bool otherwise);
  Result<const YamlNode*> list(std::string_view key);  ///< null when absent
  Status finish() const;

  int line() const { return node_->line; }
  std::string where(const YamlNode& node) const;  ///< "FILE:LINE"
  std::string where() const { return where(*node_); }

 private:
  YamlFields(const YamlNode& node, const std::string& file, std::string_view what) : node_(&node), file_(&file), what_(what) {}
  const YamlNode* node_;
  const std::string* file_;
  std::string what_;
  std::set<std::string, std::less<>> known_;
};

/// Calls row(fields) for every entry of a list of maps in `top`, and refuses keys that it did not ask for; a list that is absent has no
/// entries. `what` an entry is, for messages; `file` outlives the call.
template <class Row>
Status each_row(YamlFields& top, std::string_view key, const std::string& file, std::string_view what, Row&& row) {
  PEAL_ASSIGN(const YamlNode* list, top.list(key));
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    PEAL_ASSIGN(YamlFields fields, YamlFields::of(list->items[i], file, what));
    PEAL_TRY(row(fields));
    PEAL_TRY(fields.finish());
  }
  return {};
}

}  // namespace peal::topology
