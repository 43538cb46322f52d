// Host lists out of one file, with a bound on all of them together, so that a short file cannot ask for hours.
#pragma once

#include <string>
#include <string_view>
#include <topology/hostlist.hpp>
#include <vector>

#include "text_lines.hpp"

namespace peal::topology {

class NameLists {
 public:
  explicit NameLists(Remarks& remarks) : remarks_(remarks) {}

  /// Names of a host list; one that cannot be read is left out with a warning. At most a million names a file.
  std::vector<std::string> expand(std::string_view list, int line) {
    if (expanded_ >= kMost) {
      remarks_.add(line, "the lists of this file stand for more than {} names: the rest is left out", kMost);
      return {};
    }
    auto names = expand_hostlist(list);
    if (!names) remarks_.add(line, "{}", names.error().message);
    if (!names) return {};
    expanded_ += names->size();
    return std::move(*names);
  }

 private:
  static constexpr std::size_t kMost = 1'000'000;
  Remarks& remarks_;
  std::size_t expanded_ = 0;
};

}  // namespace peal::topology
