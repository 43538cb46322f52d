// Where the data files are, for a tool in a build tree, an installed tool, and a library loaded by somebody else's program.
#include <dlfcn.h>

#include <base/settings.hpp>
#include <filesystem>
#include <string>
#include <system_error>
#include <topology/machine.hpp>

namespace peal::topology {
namespace {

namespace fs = std::filesystem;

bool has_machines(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "machines", error);
}

}  // namespace

std::string data_directory() {
  if (has_setting("PEAL_DATA_DIR")) return setting("PEAL_DATA_DIR");
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = executable.parent_path().parent_path() / "share" / "peal";
  if (!error && has_machines(beside)) return beside.string();
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&data_directory), &info) != 0 && info.dli_fname != nullptr) {
    const fs::path library = fs::canonical(info.dli_fname, error).parent_path();
    for (fs::path up = library; !error && up.has_relative_path(); up = up.parent_path())
      if (has_machines(up / "share" / "peal")) return (up / "share" / "peal").string();
  }
  return PEAL_SOURCE_DATA_DIR;
}

}  // namespace peal::topology
