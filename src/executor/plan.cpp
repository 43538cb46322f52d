#include <algorithm>
#include <array>
#include <executor/call_signature.hpp>
#include <executor/plan.hpp>

namespace peal::executor {

namespace {

schedule::ExtentTable table_of(const schedule::Layout& layout, const Shape& shape, std::span<const std::uint64_t> counts,
                               std::span<const std::uint64_t> displs) {
  if (layout.partition != schedule::Partition::varied) return {layout, shape.count};
  if (counts.empty()) return {{schedule::Partition::blocks, layout.blocks, layout.chunks_per_block}, 0};
  return {layout, counts, displs};
}

// What varies from rank to rank. Each part has as many entries as there are ranks, or none.
std::array<std::span<const std::uint64_t>, 4> parts_of(const Shape& shape) {
  return {shape.input_counts, shape.input_displs, shape.output_counts, shape.output_displs};
}

}  // namespace

std::uint32_t plan_hash(const std::string& algorithm, schedule::Protocol protocol, std::uint64_t message_bytes, bool wide_partials) {
  std::uint64_t h = 1469598103934665603ull;  // FNV-1a
  const auto mix = [&h](std::uint64_t byte) { h = (h ^ byte) * 1099511628211ull; };
  for (const char c : algorithm) mix(static_cast<unsigned char>(c));
  mix(static_cast<std::uint64_t>(protocol));
  for (int i = 0; i < 8; ++i) mix(message_bytes >> (8 * i) & 0xff);
  const auto hash = static_cast<std::uint32_t>(h ^ h >> 32);
  return wide_partials ? hash | kWidePartialsHash : hash & ~kWidePartialsHash;
}

bool Binding::is_bound_to(const Shape& shape) const {
  if (!bound_ || shape.count != count_ || shape.element_bytes != element_bytes_) return false;
  if (!varied_) return true;
  const std::uint64_t* known = varied_shape_.data();
  std::size_t left = varied_shape_.size();
  for (const auto& span : parts_of(shape)) {
    if (span.size() > left || !std::equal(span.begin(), span.end(), known)) return false;
    known += span.size();
    left -= span.size();
  }
  return left == 0;
}

// Behind scratch itself, each from a cache line on.
void Binding::place_wide(const schedule::Program& program, std::uint64_t output_elements, std::uint64_t scratch_elements) {
  const auto next_line = [](std::uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  wide_output_at_ = next_line(scratch_elements * element_bytes_);
  wide_scratch_at_ = next_line(wide_output_at_ + (program.keeps_wide_output ? output_elements * sizeof(float) : 0));
  scratch_bytes_ = wide_scratch_at_ + (program.keeps_wide_scratch ? scratch_elements * sizeof(float) : 0);
}

void Binding::bind(const Plan& plan, const Shape& shape) {
  if (is_bound_to(shape)) return;
  bound_ = true;
  count_ = shape.count;
  element_bytes_ = shape.element_bytes;
  const schedule::Layouts& layouts = plan.layouts;
  varied_ = layouts.input.partition == schedule::Partition::varied || layouts.output.partition == schedule::Partition::varied;
  const schedule::ExtentTable input = table_of(layouts.input, shape, shape.input_counts, shape.input_displs);
  const schedule::ExtentTable output = table_of(layouts.output, shape, shape.output_counts, shape.output_displs);
  outputs_ = static_cast<std::size_t>(layouts.input.chunks());
  const auto outputs = static_cast<std::size_t>(layouts.output.chunks());
  chunks_.resize(outputs_ + outputs + 1);
  const std::uint64_t largest_in = input.list(std::span(chunks_).first(outputs_));
  const std::uint64_t largest_out = output.list(std::span(chunks_).subspan(outputs_, outputs));
  scratch_like_input_ = layouts.scratch_like_input;
  compact_ = layouts.scratch_is_compact;
  if (layouts.scratch_copies > 0) {
    const schedule::ExtentTable& like = scratch_like_input_ ? input : output;
    const std::uint64_t largest = scratch_like_input_ ? largest_in : largest_out;
    scratch_chunks_ = like.layout().chunks();
    scratch_width_ = layouts.scratch_width;
    scratch_room_ = largest;
    scratch_stride_ = compact_ ? static_cast<std::uint64_t>(scratch_width_) * largest : like.total();
    scratch_bytes_ = static_cast<std::uint64_t>(layouts.scratch_copies) * scratch_stride_ * shape.element_bytes;
  }
  if (plan.wide_partials)
    place_wide(plan.program, output.total(), static_cast<std::uint64_t>(std::max(0, layouts.scratch_copies)) * scratch_stride_);
  const std::size_t widest = plan.wide_partials ? std::max(sizeof(float), shape.element_bytes) : shape.element_bytes;
  pieces_ = plan.pieced ? schedule::cut_into_pieces(std::max(largest_in, largest_out), plan.chunks_a_message, plan.message_bytes / widest)
                        : schedule::Pieces{};
  flatten(plan);
  varied_shape_.clear();
  if (!varied_) return;
  for (const auto& span : parts_of(shape)) varied_shape_.insert(varied_shape_.end(), span.begin(), span.end());
}

void Binding::bind_user(const Plan& plan, std::span<const UserBuffer> buffers) {
  user_ = buffers;
  std::uint64_t longest = 0;
  for (const UserBuffer& each : buffers) longest = std::max(longest, each.bytes);
  // What a user buffer holds is known to the operands: nothing has to be placed.
  if (flat_.frame == nullptr) flat_.adopt(unroll(plan, true));
  flat_.is_placed = !flat_.begin.empty() && longest <= plan.longest_message();
}

}  // namespace peal::executor
