#include <cerrno>
#include <cli/scratch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace peal::cli {

Scratch::~Scratch() {
  std::error_code error;
  if (!path.empty()) std::filesystem::remove_all(path, error);
}

Status Scratch::make() {
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "peal-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr)
    return fail(ErrorCode::system, "cannot make a folder like {}: {}; set TMPDIR to a folder that can be written", pattern,
                errno_text(errno));
  path = pattern;
  return {};
}

Result<std::string> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(ErrorCode::system, "cannot read {}: {}", path, errno_text(errno));
  return text.str();
}

}  // namespace peal::cli
