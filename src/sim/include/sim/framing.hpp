// What packets add to a message that does not fill them. Rates in data/ are those of long messages, whose packets are full; so a long
// message counts as its bytes, and the last packet of any as if it had the parts around its data for itself. Links whose packets are
// described (data/links/layers) take sizes from the model of `peal sim link`, networks from the frames of data/links.
#pragma once

#include <base/result.hpp>
#include <string_view>
#include <topology/graph.hpp>

namespace peal::sim {

struct Framing {
  double payload = 0;  ///< bytes of data of a full packet; 0: nothing is known, messages count as their bytes
  double around = 0;   ///< bytes beside the data
  double flit = 1;     ///< packets end at multiples of this

  /// Bytes of a message of `bytes`, in those of a long one: at least `bytes`.
  double counted(double bytes) const;
};

/// Of what has these constants ("nvlink-h100", "infiniband", "tcp"); `kind` tells RoCE from InfiniBand.
Result<Framing> framing_of(std::string_view scope, topology::LinkKind kind);

}  // namespace peal::sim
