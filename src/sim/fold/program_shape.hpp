// What two ranks' programs must share to be of one class: everything but whom they name and which chunks.
#pragma once

#include <numeric>
#include <optional>
#include <schedule/schedule.hpp>
#include <sim/refine.hpp>
#include <span>
#include <vector>

#include "flat_map.hpp"
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

std::vector<std::uint64_t> shapes_of(const schedule::Program& program, const MessageSizes& sizes);

/// A channel between two ranks.
struct NamedChannel {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t number = 0;
  bool operator==(const NamedChannel&) const = default;
  std::uint64_t key(std::int32_t ranks) const {
    const auto pair = static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(ranks) + static_cast<std::uint64_t>(to);
    return pair << 8 | static_cast<std::uint64_t>(number);
  }
};

/// The only channel that a strand names; none where it names none or several, or has loops.
std::optional<NamedChannel> only_channel(const schedule::Program& program, std::size_t strand);

/// Of each strand of a program the first one that is like it, itself where there is none. Such strands name one channel each and do the
/// same with theirs; what they wait for is the same, and who waits for a signal of the one waits for that of the other in the same row of
/// waits. So they can be exchanged, and nobody could tell. `shapes` are those of its ops.
std::vector<std::uint32_t> first_alike(const schedule::Program& program, std::span<const std::uint64_t> shapes);

/// Leaves out every strand but the first of its like, which `first` names; who waits for its signals waits for those of the first.
void drop_strands(schedule::Program& program, std::span<const std::uint32_t> first);

/// Ranks and what joins them. A rank tells its channels apart, and a channel its two ends. So where one rank is like no other, the way from
/// it tells each of those from all others that it is joined to: a tree, a chain, a ring with one slow rank. To refine colours would find
/// that out, and take longer.
class JoinedRanks {
 public:
  explicit JoinedRanks(std::int32_t ranks) : joined_(static_cast<std::size_t>(ranks)) { std::iota(joined_.begin(), joined_.end(), 0); }
  void join(std::int32_t a, std::int32_t b) { joined_[static_cast<std::size_t>(group_of(a))] = group_of(b); }
  /// By the shapes of all ranks' programs, which name no strands that can be exchanged.
  bool are_all_told_apart(std::vector<std::uint64_t> shapes);

 private:
  /// The rank that stands for all those that this one is joined to.
  std::int32_t group_of(std::int32_t rank) {
    const auto at = [this](std::int32_t r) -> std::int32_t& { return joined_[static_cast<std::size_t>(r)]; };
    while (at(rank) != rank) rank = at(rank) = at(at(rank));
    return rank;
  }

  std::vector<std::int32_t> joined_;  // by rank: one of those that it is joined to, on the way to group_of() it
};

/// Reads one program after another: its shape, and the channels that it names, each with the number that it has there.
class ProgramReader {
 public:
  explicit ProgramReader(const MessageSizes& sizes) : sizes_(sizes) {}

  /// The shape, mixed into `seed`. Calls named(channel, number) once for each channel. Channels are numbered by the order in which they are
  /// named; the only ones of strands that are alike have one number, because either may be the other.
  template <class Named>
  std::uint64_t read(const schedule::Program& program, std::uint64_t seed, Named&& named) {
    const std::vector<std::uint64_t> shapes = shapes_of(program, sizes_);
    const std::vector<std::uint32_t> alike = first_alike(program, shapes);
    std::uint64_t shape = seed;
    numbers_.clear();
    std::uint32_t next = 0;
    const auto name = [&](NamedChannel channel, std::uint32_t number) {
      const FlatMap::Place place = numbers_.try_emplace(channel.key(program.ranks), number);
      if (place.is_new) named(channel, number);
      if (place.is_new && number == next) ++next;
      return *place.number;
    };
    std::vector<std::int32_t> times{1};
    for (std::size_t s = 0; s < program.strands(); ++s) {
      shape = hash_with(shape, program.strand_begin[s]);
      if (alike[s] != s) {
        has_twins_ = true;
        name(*only_channel(program, s), numbers_.find(only_channel(program, alike[s])->key(program.ranks)));
      }
      for (std::uint32_t i = program.strand_begin[s]; i < program.strand_begin[s + 1]; ++i) {
        const schedule::Op& op = program.ops[i];
        shape = hash_with(shape, shapes[i]);
        if (op.kind == schedule::OpKind::loop) times.push_back(op.operand);
        if (op.kind == schedule::OpKind::end_loop) times.pop_back();
        // Peers advance in the innermost loop alone.
        for (std::int32_t k = 0; k < (op.peer_step != 0 ? times.back() : 1); ++k) {
          const auto moved = [&](std::int32_t peer) {
            const std::int64_t to = (peer + static_cast<std::int64_t>(op.peer_step) * k) % program.ranks;
            return static_cast<std::int32_t>(to < 0 ? to + program.ranks : to);
          };
          if (schedule::receives(op.kind)) shape = hash_with(shape, name({moved(op.peer), program.rank, op.channel}, next));
          if (schedule::sends(op.kind)) shape = hash_with(shape, name({program.rank, moved(schedule::target(op)), op.channel}, next));
        }
      }
    }
    return shape;
  }

  /// Of one of all programs so far.
  bool has_twins() const { return has_twins_; }

 private:
  const MessageSizes& sizes_;
  FlatMap numbers_;  // of the channels of the program at hand
  bool has_twins_ = false;
};

}  // namespace peal::sim
