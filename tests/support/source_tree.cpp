#include "source_tree.hpp"

namespace peal::test {

std::string in_source(std::string_view path) { return PEAL_SOURCE_DIR "/" + std::string(path); }

}  // namespace peal::test
