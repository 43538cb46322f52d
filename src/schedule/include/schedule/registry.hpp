// Every algorithm that Peal has, in one explicit table. Tests, command line, selector, simulator and docs iterate it.
// A new algorithm is one build_*.cpp, one declaration below and one line in registry.cpp.
#pragma once

#include <algorithm>
#include <base/result.hpp>
#include <peal/types.hpp>
#include <schedule/builder.hpp>
#include <schedule/protocol.hpp>
#include <schedule/schedule.hpp>
#include <span>
#include <string_view>

namespace peal::schedule {

/// What a schedule costs, as multiples of units that `tuning` knows the price of. Per level: [0] inside a group, [1] between groups
/// (one group: all at level 0). Fractions are of S, the size of the call in bytes as nccl-tests counts it.
struct CostTerms {
  struct Level {
    double rounds = 0;    ///< messages one after another on the critical path
    double messages = 0;  ///< messages that the busiest rank sends in all (its overhead)
    double sent = 0;      ///< bytes that the busiest rank sends / S
    double critical = 0;  ///< bytes that pass one after another on the critical path / S (without pipelining of pieces)
    /// Rounds that one strand makes for a piece before it takes up the next; where pieces overlap, strands do, and not these.
    double strand_rounds = 0;
    /// Of `messages`, those that follow one another from a rank to the same other and wait for slots alone.
    double in_a_row = 0;
    double received = 0;  ///< bytes that the busiest rank receives / S, where they are more than anyone sends
    double ways = 1;  ///< others to whom the busiest rank sends equal parts of `sent` at once, or receives `received` from: as many wires
                      ///< may carry them
  };
  Level level[2];
  double reduced = 0;  ///< bytes that the busiest rank reduces / S
  /// Ops that switches compute.
  struct Switched {
    double rounds = 0;    ///< one after another on the critical path
    double moved = 0;     ///< bytes that cross a rank's wires one way, in all / S
    double critical = 0;  ///< of them, those that pass one op after another / S (without pipelining of pieces)
  };
  Switched switched[2] = {};
  double copied = 0;       ///< bytes that the busiest rank copies locally (own block to output) / S
  bool pipelined = false;  ///< pieces overlap: with many pieces time goes with `sent`, else with `critical`
  /// Bytes cross both levels at the same time: the busier level decides, once pieces or chunks follow one another.
  bool both_levels_at_once = false;
  double rows_at_once = 1;      ///< alike rows of messages beside one another, all of which `critical` counts one after another
  bool rounds_at_once = false;  ///< rounds of both levels go beside one another: the longer row of them decides

  /// Of messages, on the critical path where each takes as long.
  double rounds() const { return rounds_at_once ? std::max(level[0].rounds, level[1].rounds) : level[0].rounds + level[1].rounds; }
};

struct Algorithm {
  std::string_view name;
  std::string_view what;  ///< one line for people
  Collective collective;
  bool pieced;  ///< see Schedule::pieced
  /// Ok, or why this request cannot be served ("needs groups of equal size").
  Status (*supports)(const Request&);
  Layouts (*layouts)(const Request&);
  void (*build)(const Request&, std::int32_t rank, RankBuilder&);
  CostTerms (*cost)(const Request&);
  /// True where every result is summed in the canonical order (the verifier proves it).
  bool (*is_canonical)(const Request&);
  /// False where a protocol's rules break it (a ring without slots, say); null: all protocols suit. Ask through `suits`.
  bool (*suits_traits)(const Request&, const ProtocolTraits&) = nullptr;
  /// True where an owner combines all contributions at once, so that floats of 16 and 8 bits are rounded once; false: once a hop.
  /// Two ranks have one sum to round, whatever the algorithm.
  bool sums_at_once = false;
  /// Where its switches compute (SwitchLevel): it is for GPUs behind such switches alone, and has no form but `staged`.
  std::uint8_t switches = 0;
  /// Works out once what its programs of all ranks share (Request::known); null: nothing beside the groups.
  void (*prepare)(Request&) = nullptr;
  /// The algorithm that this one is another form of: between GPUs who asks for that by name is given the faster of both.
  std::string_view form_of = {};
  /// Of an algorithm that has other forms: the name by which it alone is asked for.
  std::string_view alone = {};
};

/// True where the algorithm is right under the protocol (a test holds this against the verifier). Lowered with fusion, rings need
/// two slots a channel; all else and everything unfused needs one.
bool suits(const Algorithm& algorithm, const Request& request, Protocol protocol);

/// The whole table; several entries share a name where one algorithm serves several collectives.
std::span<const Algorithm> registry();

/// The algorithms of one collective, in the table's order.
std::vector<const Algorithm*> algorithms_for(Collective collective);

/// By name; the error lists what can be typed for this collective.
Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name);

/// Checks `supports` and makes the schedule.
Result<Schedule> make_schedule(const Algorithm& algorithm, const Request& request);

/// Grouped point to point: what one rank sends and receives in one group call. Sends to one peer go in order.
/// Buffers are kFirstUserBuffer + index: first all sends, then all receives; one chunk each.
struct Transfer {
  std::int32_t peer;
};
Program group_program(std::int32_t rank, std::int32_t ranks, std::span<const Transfer> sends, std::span<const Transfer> receives);

/// Layouts of a collective's buffers when every block is cut into `chunks_per_block` (even: the whole buffer).
Layouts standard_layouts(const Request& request, std::int32_t chunks_per_block);

}  // namespace peal::schedule
