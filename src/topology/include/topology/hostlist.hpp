// Host lists as Slurm writes them: "tux[0-3,12,18-20]", "rack[1-2]n[01-04]", "sw0,grp[23-35]". Padding is kept, the order is that of the
// text, names may repeat.
#pragma once

#include <base/result.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peal::topology {

inline constexpr std::size_t kMostHosts = 100'000;

/// The names that `text` stands for, at most 100,000 of at most 256 bytes; several brackets in one name multiply, the last one running
/// fastest. A number is padded to the width of the range's first. Empty items and blanks around items are skipped. Fails with the place in
/// the text.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

/// The shortest text that keeps the order: neighbours that differ only in their last number become one bracket.
/// expand_hostlist(fold_hostlist(names)) gives `names` back, as long as they hold no brackets, commas, blanks and are not empty.
std::string fold_hostlist(std::span<const std::string> names);

}  // namespace peal::topology
