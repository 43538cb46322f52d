#include "verify_memory.hpp"

#include <base/names.hpp>

namespace peal::schedule {

bool is_reduction(Collective collective) noexcept {
  return collective == Collective::all_reduce || collective == Collective::reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce_scatter_v;
}

Memory::Memory(const Request& request, const Layouts& layouts, std::int32_t pieces)
    : request_(request), layouts_(layouts), pieces_(pieces) {
  const auto input = static_cast<std::size_t>(layouts.input.chunks());
  const auto output = static_cast<std::size_t>(layouts.output.chunks());
  const auto copies = static_cast<std::size_t>(layouts.scratch_copies);
  const std::size_t scratch =
      copies * static_cast<std::size_t>(layouts.scratch_is_compact ? layouts.scratch_width : layouts.shape().chunks());
  begin_[kOutput] = input;
  begin_[kScratch] = input + output;
  begin_[kWideOutput] = begin_[kScratch] + scratch;
  begin_[kWideScratch] = begin_[kWideOutput] + output;
  per_rank_ = request.wide_partials ? begin_[kWideScratch] + scratch : begin_[kWideOutput];
  cells_.resize(per_rank_ * static_cast<std::size_t>(request.ranks) * static_cast<std::size_t>(pieces));
  fill_inputs(pieces);
}

void Memory::fill_inputs(std::int32_t pieces) {
  for (std::int32_t r = 0; r < request_.ranks; ++r) {
    if (!has_input(r)) continue;
    for (std::int32_t c = 0; c < layouts_.input.chunks(); ++c)
      for (std::int32_t p = 0; p < pieces; ++p) cell(place(r, kInput, c), p).value = {static_cast<TreeId>(r), c, p};
  }
}

std::int32_t Memory::chunks(BufferId buffer) const {
  if (buffer == kInput) return layouts_.input.chunks();
  if (is_wide(buffer) && !request_.wide_partials) return 0;
  if (buffer == kOutput || buffer == kWideOutput) return layouts_.output.chunks();
  if (buffer == kScratch || buffer == kWideScratch) return layouts_.scratch_copies * layouts_.shape().chunks();
  return 0;
}

Place Memory::place(std::int32_t rank, BufferId buffer, std::int32_t index) const {
  Place at;
  at.shape = shape_of(rank, buffer, index);
  Ref ref;
  ref.buffer = buffer;
  ref.first = index;
  ref = alias_of(request_, layouts_, rank, ref);
  at.is_compact = (buffer == kScratch || buffer == kWideScratch) && layouts_.scratch_is_compact;
  if (at.is_compact) {
    const std::int32_t chunks = layouts_.shape().chunks();
    ref.first = ref.first / chunks * layouts_.scratch_width + ref.first % chunks % layouts_.scratch_width;
  }
  at.cell = (static_cast<std::size_t>(rank) * per_rank_ + begin_[ref.buffer] + static_cast<std::size_t>(ref.first)) *
            static_cast<std::size_t>(pieces_);
  return at;
}

std::int64_t Memory::shape_of(std::int32_t rank, BufferId buffer, std::int32_t index) const {
  if (layouts_.uniform) return 0;
  const bool like_input = buffer == kInput || ((buffer == kScratch || buffer == kWideScratch) && layouts_.scratch_like_input);
  const Layout& layout = like_input ? layouts_.input : layouts_.output;
  const std::int64_t part = index % layout.chunks_per_block;
  const std::int64_t block = index % layout.chunks() / layout.chunks_per_block;
  const Collective c = request_.collective;
  if (c == Collective::all_to_all_v) {
    const std::int64_t from = like_input ? rank : block;
    const std::int64_t to = like_input ? block : rank;
    return (from * request_.ranks + to) * layout.chunks_per_block + part;
  }
  if (varies(c)) return (layout.blocks == 1 ? rank : block) * layout.chunks_per_block + part;
  // A buffer cut evenly into N parts, or a block cut evenly into N chunks: part i of N.
  if (layout.partition == Partition::blocks) return static_cast<std::int64_t>(layout.chunks_per_block) << 32 | part;
  return static_cast<std::int64_t>(layout.chunks()) << 32 | index % layout.chunks();
}

bool Memory::has_input(std::int32_t rank) const {
  switch (request_.collective) {
    case Collective::broadcast:
    case Collective::scatter:
    case Collective::scatter_v:
    case Collective::send_recv: return rank == request_.root;
    case Collective::barrier: return false;
    default: return true;
  }
}

bool Memory::has_output(std::int32_t rank) const {
  switch (request_.collective) {
    case Collective::reduce:
    case Collective::gather:
    case Collective::gather_v: return rank == request_.root;
    case Collective::send_recv: return rank == request_.peer;
    case Collective::barrier: return false;
    default: return true;
  }
}

bool Memory::may_write(std::int32_t rank, BufferId buffer, std::int32_t index) const {
  if (buffer == kScratch || is_wide(buffer)) return true;
  // In place, a sum may use the caller's whole buffer on its way; what is moved only, only where it belongs.
  if (request_.in_place && is_reduction(request_.collective)) return true;
  if (!has_output(rank)) return false;
  if (buffer == kOutput) return true;
  const bool scatters = request_.collective == Collective::scatter || request_.collective == Collective::scatter_v;
  if (scatters && index / layouts_.input.chunks_per_block != rank) return false;
  return request_.in_place;
}

Memory::Promise Memory::promise(std::int32_t rank, std::int32_t index) const {
  const std::int32_t block = index / layouts_.output.chunks_per_block;
  const std::int32_t part = index % layouts_.output.chunks_per_block;
  switch (request_.collective) {
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v: return {0, rank * layouts_.input.chunks_per_block + index};
    case Collective::all_gather:
    case Collective::all_gather_v:
    case Collective::gather:
    case Collective::gather_v: return {block, part};
    case Collective::scatter:
    case Collective::scatter_v: return {request_.root, rank * layouts_.input.chunks_per_block + index};
    case Collective::all_to_all:
    case Collective::all_to_all_v: return {block, rank * layouts_.input.chunks_per_block + part};
    case Collective::broadcast:
    case Collective::send_recv: return {request_.root, index};
    default: return {0, index};
  }
}

}  // namespace peal::schedule
