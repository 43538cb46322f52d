// What a rank called, in 24 bytes: the tag that travels with the first message of every edge, so that mismatched calls are told apart
// whatever plan either side chose.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <peal/types.hpp>
#include <string>
#include <transport/channel.hpp>

namespace peal::executor {

/// Set in hashes of plans for calls whose partial sums are wanted as f32, so that ranks that differ in that are told so.
inline constexpr std::uint32_t kWidePartialsHash = std::uint32_t{1} << 31;

struct CallSignature {
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  std::int32_t root = -1;      ///< -1 where the collective has none
  std::uint64_t count = 0;     ///< elements; 0 for the v-collectives, whose counts may differ (of a long transfer of theirs: its own)
  std::uint32_t sequence = 0;  ///< of the call on its communicator; send_recv: of the message between the two ranks
  std::uint32_t plan = 0;      ///< plan_hash() of what both sides must have chosen alike; its highest bit: kWidePartialsHash
};

inline transport::Tag to_tag(const CallSignature& call) {
  transport::Tag tag;
  tag.words[0] = call.count;
  tag.words[1] = static_cast<std::uint64_t>(call.sequence) << 32 | static_cast<std::uint32_t>(call.root);
  tag.words[2] = static_cast<std::uint64_t>(call.plan) << 32 | static_cast<std::uint64_t>(call.collective) << 16 |
                 static_cast<std::uint64_t>(call.type) << 8 | static_cast<std::uint64_t>(call.op);
  return tag;
}
/// In a tag beside the call, and no part of it: of two ranks, the one that sends it has all buffers of its sum where the other can reach
/// them, and would have each make one half.
inline constexpr std::uint64_t kByHalvesMark = std::uint64_t{1} << 24;
inline bool is_marked(const transport::Tag& tag) { return (tag.words[2] & kByHalvesMark) != 0; }
inline void set_mark(transport::Tag& tag, bool is_marked) {
  tag.words[2] = is_marked ? tag.words[2] | kByHalvesMark : tag.words[2] & ~kByHalvesMark;
}
/// Of one call, only one of them with the mark.
inline bool differ_in_mark_alone(transport::Tag a, const transport::Tag& b) {
  a.words[2] ^= kByHalvesMark;
  return a == b;
}
/// The same tag for another call of the same kind.
inline void renumber(transport::Tag& tag, std::uint32_t sequence) {
  tag.words[1] = static_cast<std::uint64_t>(sequence) << 32 | (tag.words[1] & 0xffffffffu);
}
/// The tag of one message of a point-to-point call: with its own type, elements and number.
inline transport::Tag to_pair_tag(const transport::Tag& call, DataType type, std::uint64_t count, std::uint32_t sequence) {
  transport::Tag tag;
  tag.words[0] = count;
  tag.words[1] = static_cast<std::uint64_t>(sequence) << 32 | (call.words[1] & 0xffffffffu);
  tag.words[2] = (call.words[2] & ~std::uint64_t{0xff00}) | static_cast<std::uint64_t>(type) << 8;
  return tag;
}
CallSignature from_tag(const transport::Tag& tag);

/// True where two ranks' calls have one number on their communicator and are not the same call. Of point to point nothing can be said:
/// its messages are numbered a pair.
bool are_at_odds(const CallSignature& a, const CallSignature& b);

/// "all_reduce of 12 f32 (sum), call 7".
std::string describe(const CallSignature& call);

/// The fault of two calls that differ: "rank 1 called broadcast of 4 f32 with root 0, call 7 while this rank called all_reduce of 8 f32
/// (sum), call 7; ...".
Failure mismatch_of_calls(const CallSignature& mine, int peer, const CallSignature& theirs);

/// The fault of a message that is not as `mine` has it: of `got` bytes and with `tag` (null: none), where one of `expected` bytes had to
/// come, which `is_marked` with the tag of `mine` or with none.
Failure mismatch_of_message(const CallSignature& mine, int peer, bool is_marked, std::size_t got, std::size_t expected,
                            const transport::Tag* tag);

}  // namespace peal::executor
