#include <algorithm>
#include <charconv>
#include <filesystem>
#include <topology/evidence.hpp>
#include <topology/machine.hpp>

#include "text_lines.hpp"
#include "yaml_tree.hpp"

namespace peal::topology {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostSource = 4096;

bool is_word_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.'; }

bool has_word(std::string_view text, std::string_view word) {
  if (word.empty()) return false;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    std::size_t end = at + word.size();
    // A full stop ends a sentence, not a word.
    if (end < text.size() && text[end] == '.' && (end + 1 == text.size() || text[end + 1] == ' ')) end = text.size();
    const bool starts = at == 0 || !is_word_letter(text[at - 1]);
    if (starts && (end >= text.size() || !is_word_letter(text[end]))) return true;
  }
  return false;
}

/// "assumed: ..." is about every number of its source, "slice assumed" about those whose key has that word.
bool is_assumed(std::string_view source, std::string_view key) {
  while (!source.empty()) {
    const std::size_t end = std::min(source.find(';'), source.size());
    const std::string_view clause = trim(source.substr(0, end));
    const std::size_t word = clause.find("assumed");
    if (word != std::string_view::npos && has_word(clause, "assumed")) {
      const std::vector<std::string_view> about = words_of(clause.substr(0, word));
      if (about.empty()) return true;
      if (std::any_of(about.begin(), about.end(), [&](std::string_view w) { return w.size() > 2 && key.find(w) != key.npos; })) return true;
    }
    source.remove_prefix(std::min(end + 1, source.size()));
  }
  return false;
}

Ground ground_of(std::string_view source, std::string_view name) {
  const std::string low = lower_case(source);
  if (has_word(low, "fitted") || has_word(low, "fit")) return Ground::fitted;
  return is_assumed(low, name.substr(name.rfind('.') + 1)) ? Ground::assumed : Ground::stated;
}

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// The comments of a file by line, from 1: what follows " #" outside of quotes.
std::vector<std::string> comments_of(std::string_view text) {
  std::vector<std::string> comments(1);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    char quote = 0;
    std::string comment;
    for (std::size_t i = 0; i < line.size() && comment.empty(); ++i) {
      if (quote != 0)
        quote = line[i] == quote ? '\0' : quote;
      else if (line[i] == '"')
        quote = line[i];
      else if (line[i] == '#' && i > 0 && line[i - 1] == ' ')
        comment = trim(line.substr(i + 1));
    }
    comments.push_back(std::move(comment));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return comments;
}

const YamlNode* child(const YamlNode& node, std::string_view key) {
  for (const YamlField& field : node.fields)
    if (field.first == key) return &field.second;
  return nullptr;
}

class Walk {
 public:
  Walk(std::string file, std::vector<std::string> comments) : file_(std::move(file)), comments_(std::move(comments)) {}

  void visit(const YamlNode& node, const std::string& name, const std::string& source) {
    switch (node.kind) {
      case YamlNode::Kind::scalar: add(node, name, source); break;
      case YamlNode::Kind::list:
        for (std::size_t i = 0; i < node.items.size(); ++i) visit(node.items[i], join(name, item_name(node.items[i], i)), source);
        break;
      case YamlNode::Kind::map: {
        const YamlNode* own = child(node, "source");
        for (const YamlField& field : node.fields)
          visit(field.second, join(name, field.first), own != nullptr && !own->text.empty() ? own->text : source);
        break;
      }
    }
  }

  std::vector<ConstantSource> take() { return std::move(found_); }

 private:
  static std::string join(const std::string& name, const std::string& key) {
    const std::string part = short_name(key);
    return name.empty() ? part : name + "." + part;
  }

  static std::string item_name(const YamlNode& item, std::size_t index) {
    if (const YamlNode* name = child(item, "name")) return name->text;
    const YamlNode* scope = child(item, "scope");
    const YamlNode* protocol = child(item, "protocol");
    if (scope != nullptr && protocol != nullptr) return scope->text + "/" + protocol->text;
    return std::to_string(index);
  }

  void add(const YamlNode& node, const std::string& name, const std::string& source) {
    if (!is_number(node.text)) return;
    ConstantSource one{file_, node.line, name, short_name(source, kMostSource), Ground::stated};
    const auto line = static_cast<std::size_t>(std::max(node.line, 0));
    if (line < comments_.size() && !comments_[line].empty()) one.source = short_name(comments_[line], kMostSource);
    one.ground = ground_of(one.source, name);
    found_.push_back(std::move(one));
  }

  std::string file_;
  std::vector<std::string> comments_;
  std::vector<ConstantSource> found_;
};

}  // namespace

bool ConstantSource::is_named(std::string_view part) const {
  if (part.empty()) return false;
  for (std::size_t at = name.find(part); at != std::string::npos; at = name.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

bool ConstantSource::names(std::string_view word) const { return has_word(source, word); }

Result<std::vector<ConstantSource>> read_constant_sources(std::string_view text, const std::string& file) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, file));
  Walk walk(file, comments_of(text));
  walk.visit(root, {}, {});
  return walk.take();
}

Result<std::vector<ConstantSource>> constant_sources() {
  const fs::path folder = fs::path(data_directory()) / "constants";
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".yaml") files.push_back(it->path());
  if (error)
    return fail(ErrorCode::invalid_argument, "no constants in {}: set PEAL_DATA_DIR to the folder that holds them", folder.string());
  std::sort(files.begin(), files.end());
  std::vector<ConstantSource> all;
  for (const fs::path& file : files) {
    PEAL_ASSIGN(const std::string text, read_small_file(file.string()));
    PEAL_ASSIGN(std::vector<ConstantSource> sources, read_constant_sources(text, file.filename().string()));
    std::move(sources.begin(), sources.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace peal::topology
