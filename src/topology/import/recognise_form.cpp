// What a text is, from its content alone: names of files and folders say nothing that can be relied on.
//
// XML is told by its first element, tables and configuration by words that only they use. Pasted texts carry prompts, comment marks,
// indentation and colour codes before those words.
#include <algorithm>
#include <topology/import.hpp>

#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostLooked = 1u << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// `prefix` in lower case.
bool begins_with_any_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char p, char t) { return p == lower(t); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

std::string_view take_word(std::string_view& rest) {
  while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  std::size_t end = 0;
  while (end < rest.size() && !is_blank(rest[end])) ++end;
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

/// "GPU12" for the stem "GPU".
bool is_numbered(std::string_view word, std::string_view stem) {
  return word.size() > stem.size() && word.starts_with(stem) &&
         std::all_of(word.begin() + static_cast<std::ptrdiff_t>(stem.size()), word.end(), is_digit);
}

std::optional<FileForm> form_of_element(std::string_view name) {
  for (std::string_view known : {"system", "cpu", "pci", "gpu", "nic", "net", "nvlink", "xgmi"})
    if (name == known) return FileForm::nccl_topology;
  for (std::string_view known : {"graphs", "graph", "channel"})
    if (name == known) return FileForm::nccl_graph;
  for (std::string_view known : {"topology", "object", "root"})
    if (name == known) return FileForm::hwloc;
  return std::nullopt;
}

/// By the first element. Comments and declarations before it do not matter. Where other text comes first (a prompt, half an element) the
/// first element that a reader knows counts.
std::optional<FileForm> form_of_xml(std::string_view text) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    if (text.substr(at, 4) == "<!--") {
      const std::size_t end = text.find("-->", at + 4);
      if (end == std::string_view::npos) return std::nullopt;
      at = end;
      continue;
    }
    std::size_t end = at + 1;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == text.size() || !(is_blank(text[end]) || text[end] == '>' || text[end] == '/')) continue;
    if (end == at + 1) continue;
    if (const auto form = form_of_element(text.substr(at + 1, end - at - 1))) return form;
    if (text.front() == '<') return std::nullopt;
  }
  return std::nullopt;
}

/// A key of our own YAML or of Topograph's at the beginning of a line.
std::optional<FileForm> form_of_key(std::string_view line) {
  if (line.starts_with("- topology:")) return FileForm::slurm_topology_yaml;
  const std::string_view key = line.substr(0, line.find(':'));
  if (key.size() == line.size()) return std::nullopt;
  for (std::string_view known : {"devices", "machine", "links", "fabric", "ranks"})
    if (key == known) return FileForm::peal_yaml;
  for (std::string_view known : {"switches", "blocks", "capacity_blocks"})
    if (key == known) return FileForm::topograph_model;
  return std::nullopt;
}

/// Other files have lines NAME=... too (/etc/os-release): a GPU by name, or another key of gres.conf, must stand beside it.
std::optional<FileForm> form_of_slurm(std::string_view line) {
  for (std::string_view key : {"switchname=", "blockname=", "blocksizes=", "ringname="})
    if (begins_with_any_case(line, key)) return FileForm::slurm_topology;
  bool is_named = false;
  bool is_gres = false;
  for (std::string_view word = take_word(line); !word.empty() && word.front() != '#'; word = take_word(line)) {
    if (!contains(word, "=")) break;
    if (begins_with_any_case(word, "autodetect=")) return FileForm::slurm_gres;
    if (begins_with_any_case(word, "name=")) is_named = true;
    for (std::string_view key : {"name=gpu", "name=mps", "name=shard", "nodename=", "file=", "type=", "count=", "cores="})
      if (begins_with_any_case(word, key)) is_gres = true;
  }
  return is_named && is_gres ? std::optional(FileForm::slurm_gres) : std::nullopt;
}

/// Switch 36 "S-...", Ca 2 "H-...", a line of the head, or one of the ports report: CA 134 1 0x7cfe9003003b4bde 4x EDR - SW ...
bool is_ibnetdiscover(std::string_view line) {
  if (contains(line, "Topology file: generated on")) return true;
  const std::string_view kind = take_word(line);
  if (kind == "CA" || kind == "SW" || kind == "RT") {
    const auto is_number = [](std::string_view word) { return !word.empty() && std::all_of(word.begin(), word.end(), is_digit); };
    return is_number(take_word(line)) && is_number(take_word(line)) && take_word(line).starts_with("0x");
  }
  if (kind != "Switch" && kind != "Ca" && kind != "Rt") return false;
  const std::string_view ports = take_word(line);
  return !ports.empty() && std::all_of(ports.begin(), ports.end(), is_digit) && trimmed(line).starts_with('"');
}

/// A row or the header of a table between GPUs.
std::optional<FileForm> form_of_table(std::string_view line) {
  std::string_view rest = line;
  const std::string_view label = take_word(rest);
  if (is_numbered(label, "NPU") || is_numbered(label, "Phy-ID")) return FileForm::npu_topology;
  if (!is_numbered(label, "GPU")) return std::nullopt;
  for (std::string_view cell = take_word(rest); !cell.empty(); cell = take_word(rest)) {
    for (std::string_view known : {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
      if (cell == known) return FileForm::smi_p2p;
    for (std::string_view known : {"PIX", "PXB", "PHB", "NODE", "SYS", "SOC"})
      if (cell.starts_with(known)) return FileForm::smi_matrix;
    if (is_numbered(cell, "NV")) return FileForm::smi_matrix;
  }
  return contains(line, "Affinity") ? std::optional(FileForm::smi_matrix) : std::nullopt;
}

/// What one line of a command's output is; `line` without what people put before it.
std::optional<FileForm> form_of_output(std::string_view line) {
  if (contains(line, "between two GPUs") || contains(line, "(Topology) Numa") || contains(line, "ROCm System Management") ||
      line == "LINK TYPE TABLE:" || line == "HOPS TABLE:" || line == "WEIGHT TABLE:")
    return FileForm::rocm_topology;
  if (contains(line, "does not support querying topo")) return FileForm::npu_topology;
  if (contains(line, "Unable to retrieve NVLink")) return FileForm::smi_nvlink;
  if (line.starts_with("Link ") && contains(line, ":") && (contains(line, "GB/s") || contains(line, "<inactive>")))
    return FileForm::smi_nvlink;
  if (is_ibnetdiscover(line)) return FileForm::ibnetdiscover;
  return form_of_table(line);
}

/// A line without colour codes, indentation and the mark of a comment or a quotation.
std::string undecorated(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    while (i + 1 < line.size() && !((line[i] >= 'a' && line[i] <= 'z') || (line[i] >= 'A' && line[i] <= 'Z'))) ++i;
  }
  const std::size_t begin = plain.find_first_not_of(" \t\r#>|");
  return begin == std::string::npos ? std::string() : std::string(trimmed(std::string_view(plain).substr(begin)));
}

/// YAML and JSON in one line's style, which have no keys at the beginning of lines.
std::optional<FileForm> form_of_braces(std::string_view text) {
  if (contains(text, "\"compounded_links\"") || (contains(text, "\"links\"") && contains(text, "\"interfaces\"")))
    return FileForm::netq_topology;
  if (text.front() == '{' && (contains(text, "devices") || contains(text, "machine"))) return FileForm::peal_yaml;
  return std::nullopt;
}

}  // namespace

std::optional<FileForm> recognise(std::string_view text) {
  text = text.substr(0, kMostLooked);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::string_view body = trimmed(text);
  if (body.empty()) return std::nullopt;
  if (body.front() == '<') return form_of_xml(body);
  if (body.front() == '{' || body.front() == '[')
    if (const auto form = form_of_braces(body)) return form;

  // What stands in a comment counts only where nothing outside of comments is known: an own machine file may quote a table.
  std::optional<FileForm> in_output;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (const auto form = form_of_key(line)) return form;
    if (const auto form = form_of_slurm(trimmed(line))) return form;
    if (!in_output) in_output = form_of_output(undecorated(line));
  }
  if (in_output) return in_output;
  return form_of_xml(body);
}

}  // namespace peal::topology
