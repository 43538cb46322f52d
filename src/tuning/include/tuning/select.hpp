// Which algorithm and which protocol a call takes: the measured time decides among what is possible, where `peal tune` has figures for the
// call; elsewhere the predicted time. Ties go to the registry's order.
#pragma once

#include <optional>
#include <tuning/cost.hpp>

namespace peal::tuning {

struct Question {
  Call call;
  bool is_deterministic = false;  ///< only canonical summation, rounded once: bitwise equal results whatever the placement
  std::string algorithm = {};     ///< forced; empty: free
  std::string protocol = {};      ///< forced; empty: free
  bool is_to_measure = false;     ///< candidates are to be measured: also what is left out because it was slower on such processors
};

struct Candidate {
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Protocol protocol = schedule::Protocol::staged;
  bool is_canonical = false;
  int pieces = 1;
  std::uint64_t message_bytes = 0;
  int slots = 0;
  Prediction prediction;
  std::optional<double>
      measured_us;  ///< what `peal tune` found for this call, the mean over where the cores were; decides where there is any
  std::optional<double> measured_in_place_us;  ///< the same in place; decides with it, where there is any
};

/// What may not be taken, and the rule that says so. No protocol: with none of them.
struct Exclusion {
  std::string algorithm;
  std::optional<schedule::Protocol> protocol;
  std::string why;
};

struct Selection {
  Question question;
  /// Measured ones first, then fastest first; in front the chosen one, which may be as good as equal to the fastest. Never empty.
  std::vector<Candidate> candidates;
  std::string_view preferred_for;  ///< why the chosen one is taken before faster ones; empty: it is the fastest
  std::vector<Exclusion> excluded;
  const Candidate& chosen() const { return candidates.front(); }
};

/// More pieces than this are not worth a try under a protocol of tiny messages.
inline constexpr int kMostLinePieces = 64;
/// Protocols without a copy in a slot are verified for the schedule at hand before they are offered; beyond this many ranks they are not.
inline constexpr int kMostProvenRanks = 64;

/// A forced choice that is not possible is an error that says why and what is; nothing is ever taken in its place.
Result<Selection> select(const Environment& environment, const Question& question);

/// Two ranks whose buffers lie in memory that both map (peal::allocate) sum by halves: each makes one, reading and writing where they
/// lie. The choice knows nothing of buffers, so this is asked beside it: the algorithm; empty where `chosen` does the same or the call has
/// none of it.
std::string_view way_by_halves(const Environment& environment, const Question& question, std::string_view chosen);
/// Whether that is faster than other ways in the same memory, for a call of so many bytes. In place other ways need copies. Elsewhere all
/// read where the inputs lie: of input that was just written half is fetched from the other core, instead of all of it; shorter calls take
/// longer by the second exchange, and longer ones write past the caches (bench/RESULTS.md, "Sums by halves").
constexpr bool is_faster_by_halves(std::uint64_t bytes, bool in_place) noexcept {
  constexpr std::uint64_t kLeast = 4 << 10, kLeastApart = 8 << 10, kMostApart = 16 << 20;
  return in_place ? bytes > kLeast : bytes > kLeastApart && bytes <= kMostApart;
}

}  // namespace peal::tuning
