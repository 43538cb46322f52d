// What an importer knows of a wire that its file names without a rate.
#pragma once

#include <string>
#include <topology/graph.hpp>

namespace peal::topology {

/// Rates of one wire, one direction, with who said them.
struct WireFigures {
  Bandwidth line;
  Bandwidth usable;
  std::string source;
  std::string usable_source;
  std::string scope = {};  ///< empty: that of the kind

  /// A link with these figures, ready for add_link once it has ends.
  Link link(LinkKind kind, int count = 1) const { return link(-1, -1, kind, count); }
  Link link(int a, int b, LinkKind kind, int count = 1) const {
    return {.a = a,
            .b = b,
            .kind = kind,
            .bandwidth = line,
            .usable = usable,
            .count = count,
            .scope = scope,
            .source = source,
            .usable_source = usable_source};
  }
};

}  // namespace peal::topology
