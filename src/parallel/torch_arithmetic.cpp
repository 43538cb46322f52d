// Finds the module that computes with libtorch, when somebody asks for it.
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <parallel/torch_module.hpp>
#include <vector>

namespace peal::parallel {

namespace {

namespace fs = std::filesystem;

// Beside the library or tool that this code is part of, as it is built (bin, lib) and as it is installed; then where the system looks.
std::vector<std::string> places() {
  std::vector<std::string> found;
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&plain_arithmetic), &self) != 0 && self.dli_fname != nullptr) {
    std::error_code error;
    const fs::path executable = fs::read_symlink("/proc/self/exe", error);
    for (const fs::path& file : {fs::path(self.dli_fname), executable}) {
      const fs::path folder = fs::absolute(file, error).parent_path();
      for (const fs::path& place : {folder, folder.parent_path() / "lib", folder.parent_path() / PEAL_LIBRARY_FOLDER})
        if (fs::exists(place / kTorchModuleFile, error)) found.push_back((place / kTorchModuleFile).string());
    }
  }
  found.emplace_back(kTorchModuleFile);
  return found;
}

Result<const Arithmetic*> load() {
  // A rank has a core: what libtorch multiplies with looks here when it is loaded.
  for (const char* threads : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) ::setenv(threads, "1", 0);
  std::string why;
  for (const std::string& place : places()) {
    void* module = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      if (why.empty()) why = ::dlerror();
      continue;
    }
    const auto word = reinterpret_cast<decltype(&peal_torch_arithmetic)>(::dlsym(module, kTorchModuleWord));
    const Arithmetic* arithmetic = word == nullptr ? nullptr : word(kTorchModuleVersion);
    if (arithmetic != nullptr) return arithmetic;
    why = fmt::format("{} belongs to another build of Peal", place);
  }
  return fail(
      ErrorCode::unsupported,
      "libtorch is not in this build ({}); install libtorch-dev (Debian) or PyTorch and build Peal anew, or type --arithmetic plain", why);
}

}  // namespace

Result<const Arithmetic*> torch_arithmetic() {
  static const Result<const Arithmetic*> loaded = load();
  return loaded;
}

Result<const Arithmetic*> find_arithmetic(std::string_view name) {
  if (name == "plain") return &plain_arithmetic();
  if (name == "torch") return torch_arithmetic();
  if (name != "auto") return fail(ErrorCode::invalid_argument, "there is no arithmetic \"{}\"; type auto, torch or plain", name);
  const auto torch = torch_arithmetic();
  return torch ? *torch : &plain_arithmetic();
}

}  // namespace peal::parallel
