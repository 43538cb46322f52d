#include "message_sizes.hpp"

#include <algorithm>
#include <cmath>

namespace peal::sim {

MessageSizes::MessageSizes(const tuning::Plan& plan, bool takes_chunks_as_equal)
    : plan_(plan),
      takes_as_equal_(takes_chunks_as_equal),
      input_(chunks_of(plan.extents.input)),
      output_(chunks_of(plan.extents.output)),
      are_equal_(takes_chunks_as_equal || (input_.is_equal && output_.is_equal)),
      piece_(plan.pieces.count > 1 ? static_cast<double>(plan.pieces.elements) : 0) {}

MessageSizes::Chunks MessageSizes::chunks_of(const schedule::ExtentTable& table) {
  const std::int32_t count = std::max(1, table.layout().chunks());
  const auto longest = static_cast<double>(table.chunk(0).count);
  Chunks chunks;
  chunks.elements = static_cast<double>(table.total()) / count;
  chunks.shortest = static_cast<double>(table.chunk(count - 1).count);
  chunks.is_equal = longest == chunks.shortest;
  chunks.spread = chunks.elements > 0 ? longest / chunks.elements - 1 : 0;
  return chunks;
}

std::int32_t MessageSizes::full_pieces() const {
  if (plan_.pieces.count <= 1) return 0;
  const double shortest = takes_as_equal_ ? std::min(input_.elements, output_.elements) : std::min(input_.shortest, output_.shortest);
  return static_cast<std::int32_t>(std::floor(shortest / static_cast<double>(plan_.pieces.elements)));
}

}  // namespace peal::sim
