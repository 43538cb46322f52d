#include <algorithm>
#include <topology/library_constants.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>

namespace peal::topology {
namespace {

constexpr double kMost = 1e9;

Result<std::vector<double>> read_values(const YamlNode& list, const std::string& where) {
  std::vector<double> values;
  for (const YamlNode& item : list.items) {
    char* end = nullptr;
    const double value = std::strtod(item.text.c_str(), &end);
    if (item.text.empty() || *end != '\0' || !(value >= 0 && value <= kMost))
      return fail(ErrorCode::corrupt, "{}: '{}' is no value; write numbers from 0 to {:g}", where, item.text, kMost);
    values.push_back(value);
  }
  if (values.empty()) return fail(ErrorCode::corrupt, "{}: a constant needs one value or more: values: [1.5]", where);
  return values;
}

Result<std::vector<std::string>> read_names(YamlFields& fields, std::string_view key) {
  PEAL_ASSIGN(const YamlNode* list, fields.list(key));
  std::vector<std::string> names;
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) names.push_back(list->items[i].text);
  return names;
}

Result<LibraryConstant> read_constant(YamlFields& fields) {
  LibraryConstant constant;
  PEAL_ASSIGN(constant.name, fields.text("name"));
  PEAL_ASSIGN(const YamlNode* values, fields.list("values"));
  if (values == nullptr) return fail(ErrorCode::corrupt, "{}: {} has no values: write values: [1.5]", fields.where(), constant.name);
  PEAL_ASSIGN(constant.values, read_values(*values, fields.where(*values)));
  PEAL_ASSIGN(constant.what, fields.text("what"));
  PEAL_ASSIGN(constant.source, fields.text("source"));
  PEAL_ASSIGN(constant.prior, fields.number("prior", 0, kMost, 0));
  PEAL_ASSIGN(constant.spread, fields.number("spread", 0, 10, 0));
  PEAL_ASSIGN(constant.machines, read_names(fields, "machines"));
  PEAL_ASSIGN(constant.cases, read_names(fields, "cases"));
  if (constant.is_fitted() && (constant.values.size() != 1 || constant.prior <= 0 || constant.values[0] <= 0))
    return fail(ErrorCode::corrupt, "{}: {} is fitted (it has a spread): it needs one value and a prior, both above zero", fields.where(),
                constant.name);
  return constant;
}

Result<LibraryAccuracy> read_accuracy(YamlFields& fields) {
  LibraryAccuracy a;
  PEAL_ASSIGN(a.is_between_nodes, fields.flag("between_nodes", false));
  PEAL_ASSIGN(a.from, fields.number("from", 0, 1e18));
  PEAL_ASSIGN(a.to, fields.number("to", 0, 1e18));
  PEAL_ASSIGN(a.median, fields.number("median", 0, kMost));
  PEAL_ASSIGN(a.ninth_decile, fields.number("ninth_decile", 0, kMost));
  PEAL_ASSIGN(a.kept_out, fields.number("kept_out", 0, kMost, 0));
  PEAL_ASSIGN(a.cases, fields.integer("cases", 0, 1'000'000, 0));
  PEAL_ASSIGN(a.most_nodes, fields.integer("most_nodes", 1, 1'000'000, 1));
  return a;
}

Result<LibraryConstants> read_libraries(std::string_view folder) {
  PEAL_ASSIGN(const std::vector<DataFile> files, read_data_folder(folder));
  LibraryConstants all;
  for (const DataFile& file : files) PEAL_TRY(all.add_text(file.text, file.path));
  return all;
}

}  // namespace

Result<LibraryConstants> LibraryConstants::from_data() {
  static const Result<LibraryConstants> all = read_libraries("constants/libraries");
  return all;
}

Result<LibraryConstants> LibraryConstants::of_networks() {
  static const Result<LibraryConstants> all = read_libraries("constants/network");
  return all;
}

Result<LibraryConstants> LibraryConstants::of_gpus() {
  static const Result<LibraryConstants> all = read_libraries("constants/gpu");
  return all;
}

Result<int> processors_of(std::string_view gpu) {
  constexpr std::string_view kFamily = "processors.";
  PEAL_ASSIGN(const LibraryConstants known, LibraryConstants::of_gpus());
  const LibraryConstant* best = nullptr;
  for (const LibraryConstant& constant : known.all()) {
    if (!constant.name.starts_with(kFamily) || !gpu.starts_with(std::string_view(constant.name).substr(kFamily.size()))) continue;
    if (best == nullptr || constant.name.size() > best->name.size()) best = &constant;
  }
  if (best == nullptr) return fail(ErrorCode::unsupported, "nobody has written down how many processors are in a GPU \"{}\"", gpu);
  return static_cast<int>(best->values.front());
}

Status LibraryConstants::add_text(std::string_view text, const std::string& file) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, file));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, file, "file of constants of libraries"));
  PEAL_TRY(each_row(top, "constants", file, "constant", [&](YamlFields& fields) -> Status {
    PEAL_ASSIGN(LibraryConstant constant, read_constant(fields));
    if (has(constant.name)) return fail(ErrorCode::corrupt, "{}: {} is there twice: keep one", fields.where(), constant.name);
    constants_.push_back(std::move(constant));
    return {};
  }));
  PEAL_TRY(each_row(top, "accuracy", file, "accuracy", [&](YamlFields& fields) -> Status {
    PEAL_ASSIGN(const LibraryAccuracy accuracy, read_accuracy(fields));
    accuracy_.push_back(accuracy);
    return {};
  }));
  return top.finish();
}

int LibraryConstants::index_of(std::string_view name) const {
  const auto it = std::find_if(constants_.begin(), constants_.end(), [&](const LibraryConstant& c) { return c.name == name; });
  return it == constants_.end() ? -1 : static_cast<int>(it - constants_.begin());
}

Result<int> LibraryConstants::find(std::string_view name) const {
  if (const int index = index_of(name); index >= 0) return index;
  const std::string_view family = name.substr(0, name.rfind('.'));
  std::string alike;
  for (const LibraryConstant& c : constants_)
    if (c.name.starts_with(family)) alike += (alike.empty() ? "" : ", ") + c.name;
  return fail(ErrorCode::unsupported, "nothing is known of {}: data/constants/libraries has {}", name,
              alike.empty() ? "no such family" : alike);
}

std::string to_yaml(const LibraryConstants& constants, std::string_view heading) {
  std::string text(heading);
  text += "constants:\n";
  for (const LibraryConstant& c : constants.all()) {
    if (!c.is_fitted()) continue;
    text += fmt::format(
        "  - {{name: {}, values: [{:.4g}], prior: {:g}, spread: {:g}, what: \"{}\", machines: [{}],\n     cases: [{}],\n     source: "
        "\"{}\"}}\n",
        c.name, c.values[0], c.prior, c.spread, c.what, fmt::join(c.machines, ", "), fmt::join(c.cases, ", "), c.source);
  }
  text += "accuracy:\n";
  for (const LibraryAccuracy& a : constants.accuracy())
    text += fmt::format(
        "  - {{between_nodes: {}, from: {:.0f}, to: {:.0f}, median: {:.3f}, ninth_decile: {:.3f}, kept_out: {:.3f}, cases: {}, most_nodes: "
        "{}}}\n",
        a.is_between_nodes, a.from, a.to, a.median, a.ninth_decile, a.kept_out, a.cases, a.most_nodes);
  return text;
}

}  // namespace peal::topology
