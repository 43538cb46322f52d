#include <algorithm>
#include <cctype>
#include <filesystem>
#include <topology/cpu_identity.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>
#include "text_lines.hpp"

namespace peal::topology {
namespace {

struct Entry {
  std::vector<std::string> words;
  CpuIdentity identity;
};

Result<std::vector<Entry>> read_identities() {
  const std::string path = (std::filesystem::path(data_directory()) / "cpus.yaml").string();
  PEAL_ASSIGN(const std::string text, read_small_file(path));
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, path));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, path, "table of CPUs"));
  std::vector<Entry> table;
  const auto read_entry = [&](YamlFields& fields) -> Status {
    PEAL_ASSIGN(const YamlNode* words, fields.list("words"));
    Entry& entry = table.emplace_back();
    if (words != nullptr)
      for (const YamlNode& word : words->items) entry.words.push_back(lower_case(word.text));
    PEAL_ASSIGN(entry.identity.arch, fields.text("arch"));
    PEAL_ASSIGN(entry.identity.vendor, fields.text("vendor", ""));
    PEAL_ASSIGN(entry.identity.family, fields.text("family", ""));
    PEAL_ASSIGN(entry.identity.model, fields.text("model", ""));
    PEAL_TRY(fields.text("source"));
    return {};
  };
  PEAL_TRY(each_row(top, "cpus", path, "CPU", read_entry));
  PEAL_TRY(top.finish());
  return table;
}

bool has_word(const std::string& text, const std::string& word) {
  const auto is_letter = [&](std::size_t at) { return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  return false;
}

}  // namespace

CpuIdentity identify_cpu(const std::vector<std::string_view>& names) {
  static const Result<std::vector<Entry>> table = read_identities();
  if (!table) return {};
  for (std::string_view name : names) {
    const std::string text = lower_case(name);
    for (const Entry& entry : *table)
      if (std::any_of(entry.words.begin(), entry.words.end(), [&](const std::string& word) { return has_word(text, word); }))
        return entry.identity;
  }
  return {};
}

}  // namespace peal::topology
