// Where ranks of a command leave what they found for the process that started them.
#pragma once

#include <base/result.hpp>
#include <filesystem>
#include <string>

namespace peal::cli {

/// A folder of temporary files, gone with this object.
struct Scratch {
  std::filesystem::path path;

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  Status make();
};

/// All of a file.
Result<std::string> content_of(const std::string& path);

}  // namespace peal::cli
