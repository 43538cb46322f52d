#include <base/names.hpp>
#include <base/text.hpp>
#include <filesystem>
#include <topology/machine.hpp>
#include <topology/yaml_tree.hpp>

#include "read_model.hpp"

namespace peal::training {
namespace {

namespace fs = std::filesystem;

fs::path folder() { return fs::path(topology::data_directory()) / "models"; }

}  // namespace

Result<std::vector<std::string>> model_names() {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder(), error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".yaml") names.push_back(it->path().stem().string());
  if (error || names.empty())
    return fail(ErrorCode::invalid_argument, "no models in {}: set PEAL_DATA_DIR to the folder that holds models/ and machines/",
                folder().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<Model> model_named(std::string_view name) {
  PEAL_ASSIGN(const std::vector<std::string> names, model_names());
  if (!std::binary_search(names.begin(), names.end(), name)) {
    const std::vector<std::string_view> choices(names.begin(), names.end());
    const std::string_view near = nearest(name, choices.data(), choices.size());
    return fail(ErrorCode::invalid_argument,
                "no model is called '{}'{}; `peal models` lists them, and a file of a model or a config.json can be given instead", name,
                near.empty() ? std::string() : fmt::format(", did you mean '{}'?", near));
  }
  const std::string path = (folder() / fmt::format("{}.yaml", name)).string();
  PEAL_ASSIGN(const std::string text, topology::read_small_file(path));
  return read_model(text, path);
}

Result<Model> read_model(std::string_view text, const std::string& where) {
  return trim(text).substr(0, 1) == "{" ? read_model_config(text, where) : read_model_yaml(text, where);
}

Result<Model> find_model(const std::string& name_or_path) {
  std::error_code error;
  const std::string ending = fs::path(name_or_path).extension().string();
  const bool is_path =
      name_or_path.find('/') != std::string::npos || ending == ".json" || ending == ".yaml" || fs::is_regular_file(name_or_path, error);
  if (!is_path) return model_named(name_or_path);
  // A downloaded model is a folder with a config.json in it.
  const fs::path path = fs::is_directory(name_or_path, error) ? fs::path(name_or_path) / "config.json" : fs::path(name_or_path);
  PEAL_ASSIGN(const std::string text, topology::read_small_file(path.string()));
  return read_model(text, path.string());
}

}  // namespace peal::training
