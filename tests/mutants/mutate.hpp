// Mutations of a plan: one small fault in one rank's strands.
#pragma once

#include <cstdint>
#include <schedule/schedule.hpp>
#include <string>
#include <vector>

namespace peal::mutants {

enum class Mutation : std::uint8_t {
  drop,        ///< an op is left out
  repeat,      ///< an op is done twice
  swap,        ///< two ops of a strand change places
  redirect,    ///< a peer is another one
  chunk,       ///< an operand names another chunk or buffer
  dependency,  ///< a signal or wait is lost, or a wait is content with less
  flag,        ///< a division, a store or a wire type is changed
  loop,        ///< a loop runs once more or once less
  slot,        ///< the channels have a slot less
};
inline constexpr int kMutations = 9;
const char* name_of(Mutation mutation);

struct Mutant {
  Mutation mutation;
  std::int32_t rank;
  std::string what;  ///< "rank 1, strand 0, op 3: dropped"
};

/// Numbers drawn from a seed, the same everywhere.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  std::uint64_t operator()(std::uint64_t below);

 private:
  std::uint64_t state_;
};

/// Mutates one rank of `ranks`; false where this mutation finds nothing to change.
bool mutate(Mutation mutation, std::vector<schedule::RankSchedule>& ranks, Draw& draw, Mutant& mutant);

}  // namespace peal::mutants
