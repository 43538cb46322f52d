// Recorded texts that tests compare with.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "source_tree.hpp"

namespace peal::topology {

inline std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A file of tests/golden.
inline std::string golden(const std::string& name) { return read_whole(peal::test::in_source("tests/golden/") + name); }

}  // namespace peal::topology
