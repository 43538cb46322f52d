// What many rooms include, compiled once (cmake/PealRooms.cmake). A file still includes what it uses: presets other than release do without
// this. CLI11 and nlohmann-json are not here: their inline functions would be worked on in every file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>
