// The fuzz targets where there is no libFuzzer, by name. CMake writes the table (peal_fuzz_replay).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

struct Replay {
  std::string_view name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

const std::vector<Replay>& replays();
