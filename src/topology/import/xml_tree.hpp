// XML as others write and paste it: comments, declarations, single quotes, pieces without a root, files that break off. pugixml parses;
// what it cannot read is skipped with a warning that names the line. Nothing outside of the text is ever fetched.
#pragma once

#include <base/result.hpp>
#include <memory>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

class XmlFile {
 public:
  static constexpr int kMostDepth = 64;  ///< of elements that a reader follows

  /// At most 64 MiB, 2,000,000 tags and 4,000,000 attributes; what follows is left out with a warning. Fails only where no element at all
  /// can be read.
  static Result<XmlFile> parse(std::string_view text, const std::string& name);

  pugi::xml_node top() const { return *document_; }  ///< its children are the elements without a parent
  const std::string& name() const { return name_; }
  int line_of(const pugi::xml_node& node) const;
  std::string where(const pugi::xml_node& node) const;  ///< "FILE:LINE"

  /// Something that a person should know about an element. Kept up to a limit; give_warnings says how many more there were.
  void warn(const pugi::xml_node& node, std::string_view text) { warn(line_of(node), text); }
  void warn(int line, std::string_view text);
  /// Hands all warnings to the graph, in the order of lines.
  void give_warnings(Graph& graph) const;

 private:
  XmlFile() = default;
  void load(std::string text);
  int line_at(std::size_t offset) const;
  void drop_broken_element();

  std::string name_;
  std::unique_ptr<pugi::xml_document> document_;
  std::string text_;                         ///< as it came, for counting lines
  std::vector<std::uint32_t> lines_before_;  ///< line ends before each block of the text
  std::vector<std::pair<int, std::string>> warnings_;
  std::size_t unsaid_ = 0;
};

/// The attribute's text, at most 255 characters of it, which is what NCCL keeps.
std::string_view text_of(const pugi::xml_node& node, const char* attribute);
/// A whole number: decimal, or hexadecimal after 0x. Nothing when the attribute is absent, empty or something else.
std::optional<long long> whole_of(const pugi::xml_node& node, const char* attribute);
/// The same of a text.
std::optional<long long> whole_number(std::string_view text);
/// The same, always hexadecimal, up to 64 bits.
std::optional<std::uint64_t> hex_of(std::string_view text);
/// A finite number.
std::optional<double> number_of(std::string_view text);

}  // namespace peal::topology
