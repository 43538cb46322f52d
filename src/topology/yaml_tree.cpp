#include <topology/yaml_tree.hpp>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <base/names.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <topology/machine.hpp>

namespace peal::topology {
namespace {

constexpr std::size_t kMostFileBytes = 4u << 20;
constexpr std::size_t kMostNesting = 64;
constexpr std::size_t kMostNodes = 2'000'000;

/// Thrown inside yaml-cpp's parser only, and caught in parse_yaml.
struct Refused {
  int line;
  std::string why;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { leaf(mark, {}); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string& value) override { leaf(mark, value); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{mark.line + 1, "aliases (*name) are not read here: write the value out"};
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

  bool is_done() const { return has_root_; }
  YamlNode take() { return std::move(root_); }

 private:
  struct Level {
    YamlNode node;
    std::string key;
    bool has_key = false;
    std::set<std::string> seen;
  };

  YamlNode begin(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (++count_ > kMostNodes) throw Refused{mark.line + 1, "the file has more than 2,000,000 values: split it"};
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }
  void leaf(const YAML::Mark& mark, const std::string& value) {
    YamlNode node = begin(mark, YamlNode::Kind::scalar);
    node.text = value;
    put(std::move(node));
  }
  void open(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (levels_.size() >= kMostNesting) throw Refused{mark.line + 1, "values are nested more than 64 deep: flatten the file"};
    levels_.push_back({begin(mark, kind), {}, false, {}});
  }
  void close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    put(std::move(node));
  }
  void put(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      has_root_ = true;
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::list) {
      level.node.items.push_back(std::move(node));
    } else if (!level.has_key) {
      if (node.kind != YamlNode::Kind::scalar) throw Refused{node.line, "a key must be a word, not a list or a mapping"};
      if (!level.seen.insert(node.text).second) throw Refused{node.line, fmt::format("key '{}' is there twice: keep one", node.text)};
      level.key = std::move(node.text);
      level.has_key = true;
    } else {
      level.node.fields.emplace_back(std::move(level.key), std::move(node));
      level.has_key = false;
    }
  }

  std::vector<Level> levels_;
  YamlNode root_;
  bool has_root_ = false;
  std::size_t count_ = 0;
};

/// Words of a command line are one line 0, which is not shown.
std::string place(const std::string& name, int line) { return line > 0 ? fmt::format("{}:{}", name, line) : name; }

tl::unexpected<Failure> corrupt(const std::string& name, int line, std::string_view why) {
  return fail(ErrorCode::corrupt, "{}: {}", place(name, line), why);
}

}  // namespace

const YamlNode* child_of(const YamlNode& node, std::string_view key) {
  for (const auto& [name, value] : node.fields)
    if (name == key) return &value;
  return nullptr;
}

Result<YamlNode> parse_yaml(std::string_view text, const std::string& name) {
  if (text.size() > kMostFileBytes) return corrupt(name, 1, fmt::format("the file has {} bytes, more than 4 MiB: split it", text.size()));
  if (text.find('\0') != std::string_view::npos) return corrupt(name, 1, "the file holds zero bytes: is it a text file?");
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder) || !builder.is_done())
      return corrupt(name, 1, "the file is empty: it needs `devices:` and `links:`, or `machine:`");
  } catch (const Refused& refused) {
    return corrupt(name, refused.line, refused.why);
  } catch (const YAML::Exception& error) {
    return corrupt(name, std::max(error.mark.line, 0) + 1,
                   fmt::format("not YAML: {} (check indentation, quotes and brackets there)", error.msg));
  } catch (const std::exception& error) {
    return corrupt(name, 1, fmt::format("not YAML: {}", error.what()));
  }
  return builder.take();
}

Result<std::string> read_small_file(const std::string& path, std::size_t most_mib) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::invalid_argument, "{}: cannot be opened: {}; check the path", path, errno_text(errno));
  std::string text;
  char block[65536];
  const std::size_t most = most_mib << 20;
  while (text.size() <= most && (file.read(block, sizeof block), file.gcount() > 0))
    text.append(block, static_cast<std::size_t>(file.gcount()));
  if (file.bad() || (text.empty() && !file.eof())) return fail(ErrorCode::system, "{}: cannot be read; is it a regular file?", path);
  if (text.size() > most) return corrupt(path, 1, fmt::format("the file is larger than {} MiB: split it", most_mib));
  return text;
}

Result<std::vector<DataFile>> read_data_folder(std::string_view folder) {
  namespace fs = std::filesystem;
  const fs::path path = fs::path(data_directory()) / folder;
  std::error_code error;
  std::vector<DataFile> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".yaml") files.push_back({it->path().string(), {}});
  if (error || files.empty())
    return fail(ErrorCode::invalid_argument,
                "no YAML files in {}: set PEAL_DATA_DIR to the folder that holds machines/, constants/ and links/", path.string());
  std::sort(files.begin(), files.end(), [](const DataFile& a, const DataFile& b) { return a.path < b.path; });
  for (DataFile& file : files) {
    PEAL_ASSIGN(file.text, read_small_file(file.path));
  }
  return files;
}

Result<YamlFields> YamlFields::of(const YamlNode& node, const std::string& file, std::string_view what) {
  if (node.kind != YamlNode::Kind::map) {
    return corrupt(file, node.line, fmt::format("a {} is a mapping of keys to values, such as {{id: gpu0, kind: gpu}}", what));
  }
  return YamlFields(node, file, what);
}

std::string YamlFields::where(const YamlNode& node) const { return place(*file_, node.line); }

const YamlNode* YamlFields::find(std::string_view key) {
  known_.emplace(key);
  for (const auto& [name, value] : node_->fields)
    if (name == key) return &value;
  return nullptr;
}

Result<std::string> YamlFields::text(std::string_view key) {
  const YamlNode* node = find(key);
  if (node == nullptr) return corrupt(*file_, node_->line, fmt::format("this {} has no '{}': add `{}: ...`", what_, key, key));
  if (node->kind != YamlNode::Kind::scalar || node->text.empty()) {
    return corrupt(*file_, node->line, fmt::format("'{}' of this {} must be a word or a number", key, what_));
  }
  return node->text;
}

Result<std::string> YamlFields::text(std::string_view key, std::string_view otherwise) {
  if (!has(key)) return std::string(otherwise);
  return text(key);
}

Result<double> YamlFields::number(std::string_view key, double low, double high) {
  PEAL_ASSIGN(const std::string word, text(key));
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value) || value < low || value > high) {
    return corrupt(*file_, find(key)->line, fmt::format("'{}' is '{}': a number from {} to {} is needed", key, word, low, high));
  }
  return value;
}

Result<double> YamlFields::number(std::string_view key, double low, double high, double otherwise) {
  if (!has(key)) return otherwise;
  return number(key, low, high);
}

Result<int> YamlFields::integer(std::string_view key, int low, int high, int otherwise) {
  if (!has(key)) return otherwise;
  PEAL_ASSIGN(const double value, number(key, low, high));
  if (value != std::floor(value)) return corrupt(*file_, find(key)->line, fmt::format("'{}' is {}: a whole number is needed", key, value));
  return static_cast<int>(value);
}

Result<bool> YamlFields::flag(std::string_view key, bool otherwise) {
  if (!has(key)) return otherwise;
  PEAL_ASSIGN(const std::string word, text(key));
  if (word == "true" || word == "yes") return true;
  if (word == "false" || word == "no") return false;
  return corrupt(*file_, find(key)->line, fmt::format("'{}' is '{}': true or false is needed", key, word));
}

Result<const YamlNode*> YamlFields::list(std::string_view key) {
  const YamlNode* node = find(key);
  if (node == nullptr) return nullptr;
  if (node->kind != YamlNode::Kind::list)
    return corrupt(*file_, node->line, fmt::format("'{}' must be a list (lines that begin with '- ')", key));
  return node;
}

Status YamlFields::finish() const {
  for (const auto& [name, value] : node_->fields) {
    if (known_.contains(name)) continue;
    const std::vector<std::string_view> choices(known_.begin(), known_.end());
    const std::string_view near = nearest(name, choices.data(), choices.size());
    const std::string mend = near.empty() ? fmt::format("known are {}", fmt::join(choices, ", ")) : fmt::format("did you mean '{}'?", near);
    return corrupt(*file_, value.line, fmt::format("a {} has no key '{}'; {}", what_, name, mend));
  }
  return {};
}

}  // namespace peal::topology
