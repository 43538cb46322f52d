// What two ranks' programs must share to be of one class: everything but whom they name and which chunks.
#pragma once

#include <schedule/schedule.hpp>
#include <sim/refine.hpp>

#include "message_sizes.hpp"

namespace peal::sim {

/// False where a program reaches into other ranks' memory, signals them or has a switch compute: such plans are not folded.
inline bool can_be_folded(const schedule::Program& program) {
  using schedule::OpKind;
  for (const schedule::Op& op : program.ops) {
    if (schedule::is_switched(op.kind)) return false;
    if ((op.kind == OpKind::signal || op.kind == OpKind::wait) && op.peer >= 0) return false;
    if ((op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0) return false;
  }
  for (const schedule::Source& source : program.sources)
    if (source.peer >= 0 && source.peer != program.rank) return false;
  return true;
}

/// Of one op. Where chunks are not all equally long, which they are belongs to the shape.
inline std::uint64_t shape_of(const schedule::Op& op, const MessageSizes& sizes) {
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  std::uint64_t hash = hash_with(number(op.kind), number(op.flags) | number(op.wire) << 8 | number(op.channel) << 16);
  hash = hash_with(hash, number(static_cast<std::uint32_t>(op.operand)) | number(op.more_count) << 32 | number(op.event) << 48);
  hash = hash_with(hash, number(static_cast<std::uint32_t>(op.peer_step)));
  for (const schedule::Ref* ref : {&op.dst, &op.src}) {
    hash = hash_with(hash, number(ref->count) | number(ref->buffer) << 16);
    const bool is_threshold = op.kind == schedule::OpKind::wait;
    if (ref->count == 0 && !is_threshold) continue;
    if (is_threshold || !sizes.are_equal())
      hash = hash_with(hash, number(static_cast<std::uint32_t>(ref->step[0])) | number(static_cast<std::uint32_t>(ref->step[1])) << 32);
    if (!is_threshold && !sizes.are_equal())
      hash = hash_with(hash, number(static_cast<std::uint32_t>(ref->first)) | number(static_cast<std::uint32_t>(op.modulus)) << 32);
  }
  return hash;
}

}  // namespace peal::sim
