// A host's /sys and /proc, as far as an examination reads them, copied into a folder.
#include <deque>
#include <discovery/findings.hpp>
#include <filesystem>
#include <fstream>

#include "system_files.hpp"

namespace peal::discovery {
namespace {

namespace fs = std::filesystem;
constexpr int kMostLinks = 40;  // in one path, as the kernel has it

class Recorder {
 public:
  Recorder(fs::path from, fs::path to) : from_(std::move(from)), to_(std::move(to)) {}

  /// Copies `path`, which lies below `from_`, and every link on the way to it.
  Status copy(const fs::path& path) {
    const fs::path below = path.lexically_relative(from_);
    if (below.empty() || *below.begin() == "..") return {};
    std::deque<fs::path> parts(below.begin(), below.end());
    fs::path at;
    std::error_code error;
    for (int links = 0; !parts.empty();) {
      const fs::path part = parts.front();
      parts.pop_front();
      if (part == "." || part.empty()) continue;
      if (part == "..") {
        at = at.parent_path();
        continue;
      }
      const fs::path next = at / part;
      const fs::path target = fs::read_symlink(from_ / next, error);
      if (error) {
        at = next;
        continue;
      }
      if (++links > kMostLinks) return {};
      const fs::path meant = (target.is_absolute() ? target : (from_ / at / target)).lexically_normal().lexically_relative(from_);
      if (meant.empty() || *meant.begin() == "..") return {};  // out of what is recorded
      PEAL_TRY(link(next, meant));
      parts.insert(parts.begin(), meant.begin(), meant.end());
      at.clear();
    }
    return keep(at);
  }

 private:
  Status make_folder(const fs::path& below) {
    std::error_code error;
    fs::create_directories(to_ / below, error);
    if (error) return fail(ErrorCode::system, "cannot make the folder {}: {}", (to_ / below).string(), error.message());
    return {};
  }

  Status link(const fs::path& at, const fs::path& meant) {
    PEAL_TRY(make_folder(at.parent_path()));
    std::error_code error;
    if (fs::is_symlink(to_ / at, error)) return {};
    const fs::path shown = meant.lexically_relative(at.parent_path().empty() ? fs::path(".") : at.parent_path());
    fs::create_symlink(shown.empty() ? meant : shown, to_ / at, error);
    if (error) return fail(ErrorCode::system, "cannot make the link {}: {}", (to_ / at).string(), error.message());
    return {};
  }

  Status keep(const fs::path& at) {
    std::error_code error;
    if (fs::is_directory(from_ / at, error)) return make_folder(at);
    const auto text = read_text((from_ / at).string());
    if (!text) return {};
    PEAL_TRY(make_folder(at.parent_path()));
    std::ofstream file(to_ / at, std::ios::binary | std::ios::trunc);
    file << *text;
    file.flush();
    if (!file) return fail(ErrorCode::system, "cannot write {}", (to_ / at).string());
    return {};
  }

  fs::path from_, to_;
};

}  // namespace

Status record_host(const Roots& roots, const std::string& folder) {
  std::set<std::string> paths;
  {
    const Notes notes;
    examine(roots);
    paths = notes.paths();
  }
  const std::pair<std::string, fs::path> parts[] = {{roots.sys, fs::path(folder) / "sys"}, {roots.proc, fs::path(folder) / "proc"}};
  for (const auto& [from, to] : parts) {
    std::error_code error;
    if (fs::exists(to, error)) return fail(ErrorCode::invalid_argument, "{} is there already; give a new folder", to.string());
    fs::create_directories(to, error);
    if (error) return fail(ErrorCode::invalid_argument, "cannot make the folder {}: {}", to.string(), error.message());
  }
  for (const auto& [from, to] : parts) {
    Recorder recorder(from, to);
    for (const std::string& path : paths) PEAL_TRY(recorder.copy(path));
  }
  return {};
}

}  // namespace peal::discovery
