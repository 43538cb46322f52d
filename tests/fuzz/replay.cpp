// main() of the fuzz targets where there is no libFuzzer: fuzz_replay TARGET FOLDER-OR-FILE... runs every file that it is given through the
// target, and fails when there is none.
#include "replay.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace {

int replayed = 0;

void replay(const Replay& target, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  target.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  ++replayed;
}

}  // namespace

int main(int argc, char** argv) {
  const auto target = std::find_if(replays().begin(), replays().end(), [&](const Replay& r) { return argc > 1 && r.name == argv[1]; });
  if (target == replays().end()) {
    std::fprintf(stderr, "fuzz_replay: the first argument is not a target; they are");
    for (const Replay& r : replays()) std::fprintf(stderr, " %s", r.name.data());
    std::fprintf(stderr, "\n");
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) replay(*target, entry.path());
    } else {
      replay(*target, argv[i]);
    }
  }
  std::printf("%d inputs replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}
