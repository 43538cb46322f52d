#include "message_sizes.hpp"

#include <algorithm>
#include <cmath>

namespace peal::sim {

MessageSizes::MessageSizes(const tuning::Plan& plan, bool takes_chunks_as_equal)
    : plan_(plan), takes_as_equal_(takes_chunks_as_equal), input_(chunks_of(plan.extents.input)), output_(chunks_of(plan.extents.output)) {}

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

const MessageSizes::Chunks& MessageSizes::of(schedule::BufferId buffer) const {
  if (buffer == schedule::kInput) return input_;
  if (buffer != schedule::kScratch && buffer != schedule::kWideScratch) return output_;
  return plan_.extents.layouts.scratch_like_input ? input_ : output_;
}

std::int32_t MessageSizes::full_pieces() const {
  if (plan_.pieces.count <= 1) return 0;
  const double shortest = takes_as_equal_ ? std::min(input_.elements, output_.elements) : std::min(input_.shortest, output_.shortest);
  return static_cast<std::int32_t>(std::floor(shortest / static_cast<double>(plan_.pieces.elements)));
}

double MessageSizes::bytes_of(const schedule::BoundOp& bound) const {
  if (!are_equal()) return plan_.bytes_of(bound);
  const schedule::Ref* ref = tuning::moved_by(*bound.op);
  if (ref == nullptr || ref->count == 0) return 0;
  double elements = of(ref->buffer).elements;
  if (plan_.pieces.count > 1) {
    const auto piece = static_cast<double>(plan_.pieces.elements);
    elements = std::clamp(elements - piece * bound.piece, 0.0, piece);
  }
  const std::uint32_t size = bound.op->wire == schedule::Wire::fp32 ? std::max<std::uint32_t>(4, plan_.element_bytes) : plan_.element_bytes;
  return elements * ref->count * size;
}

}  // namespace peal::sim
