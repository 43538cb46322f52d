// The truth for tests: executes a plan on concrete numbers, op by op, in any interleaving. It shares no code with the cursor: loops
// are unrolled here by its own arithmetic, readiness is decided here by its own rules, and it knows nothing of symbolic values.
//
// Contributions are random 64-bit numbers and sums are taken modulo 2^64. A raw read of an input multiplies by its rank's odd
// factor (premul_sum), the division of avg is an affine map, so both leave traces when they happen twice or never.
#pragma once

#include <cstdint>
#include <schedule/schedule.hpp>
#include <string>
#include <vector>

namespace peal::agreement {

enum class Outcome : std::uint8_t { right, wrong, deadlock };
const char* name_of(Outcome outcome);

/// How messages move.
struct Rules {
  std::int32_t slots = 4;  ///< 0: a send ends with its receive
  bool snapshots = true;   ///< false: the receiver reads the sender's memory
  std::int32_t pieces = 1;
};

struct Judgement {
  Outcome outcome = Outcome::right;  ///< the first that is not right, if any
  std::uint64_t interleavings = 0;   ///< runs made, or states seen
  bool exhausted = false;            ///< every interleaving was covered
  std::string why;
};

/// One plan, unrolled, with all that its runs need. Not for several threads.
class ReferenceInterpreter {
 public:
  ReferenceInterpreter(const schedule::Request& request, const schedule::Layouts& layouts, const std::vector<schedule::Program>& programs,
                       Rules rules);

  /// `count` runs in different orders; stops at the first that is not right.
  Judgement sample(std::uint64_t seed, std::uint64_t count);
  /// Every interleaving up to equivalence; gives up after `most_states`.
  Judgement explore(std::uint64_t most_states);
  /// The bytes of all outputs after one run, for comparisons; empty when it is not right.
  std::vector<std::uint64_t> outputs(std::uint64_t seed);

 private:
  enum class Kind : std::uint8_t { send, receive, copy, reduce, signal, wait, switch_sum, switch_copy };
  struct Operand {
    std::int32_t cell = 0;
    std::uint64_t length = 0;  // signature of the chunk's length over many counts
    std::int32_t holder = -1;  // >= 0: raw input of this rank
  };
  struct Step {
    Kind kind = Kind::copy;
    bool adds = false;
    bool stores = false;
    bool forwards = false;
    bool finishes = false;
    bool is_remote = false;      // a copy or reduce that touches another rank's memory
    bool meets = false;          // touches memory or a channel that other strands touch
    std::uint8_t wire = 0;       // of what it receives, or sends
    std::uint8_t sent_wire = 0;  // of what it sends or passes on
    std::int32_t piece = 0;
    std::int32_t in = -1;   // channel
    std::int32_t out = -1;  // channel
    std::int32_t event = -1;
    std::int64_t threshold = 0;
    std::uint32_t chunks = 0;
    std::uint32_t sources = 0;   // per chunk, in operands_ behind the destination
    std::uint32_t operands = 0;  // first: chunk by chunk destination then sources; of a switch, all sources, then all destinations
    std::uint32_t brought = 0;   // sources of a switch
    std::uint32_t from = 0;      // chunk of the sum that the first destination takes
    std::int32_t group = -1;     // in groups_
  };
  struct Strand {
    std::int32_t rank = 0;
    std::vector<Step> steps;
  };
  struct Message {
    std::int32_t strand = -1;
    std::int32_t step = -1;
    std::vector<std::uint64_t> values;
  };
  struct State {
    std::vector<std::uint64_t> memory;
    std::vector<std::uint32_t> at;         // step of each strand
    std::vector<std::uint8_t> is_sending;  // rendezvous: waits for its receiver
    std::vector<std::vector<Message>> channels;
    std::vector<std::uint32_t> taken;  // messages received on each channel
    std::vector<std::uint32_t> put;
    std::vector<std::int64_t> events;
    std::vector<std::uint8_t> has_entered;  // where it matters
    bool is_wrong = false;
    const char* why = "";
  };

  void unroll(const schedule::Program& program);
  void unroll_range(const schedule::Program& program, std::uint32_t begin, std::uint32_t end, std::int32_t outer, std::int32_t inner,
                    int depth, std::int32_t piece, Strand& strand);
  void add_step(const schedule::Program& program, const schedule::Op& op, std::int32_t outer, std::int32_t inner, std::int32_t piece,
                Strand& strand);
  Operand operand(std::int32_t rank, const schedule::Op& op, const schedule::Ref& ref, std::int32_t outer, std::int32_t inner,
                  std::int32_t i, std::int32_t piece);
  std::uint64_t length_of(std::int32_t rank, std::uint16_t buffer, std::int32_t index) const;
  std::int32_t channel_number(std::int32_t from, std::int32_t to, std::uint8_t number);
  std::int32_t event_number(std::int32_t rank, std::int32_t from, std::uint16_t event);
  void fill();
  void find_meetings();

  void reset(State& state) const;
  bool is_ready(const State& state, std::size_t strand) const;
  void run_step(State& state, std::size_t strand) const;
  void receive(State& state, std::size_t strand, const Step& step) const;
  void put_message(State& state, std::size_t strand, const Step& step, const std::vector<std::uint64_t>* results) const;
  void add_switch_step(const schedule::Program& program, const schedule::Op& op, Step& step);
  std::vector<std::size_t> at_switch(const State& state, const Step& step) const;
  void run_switch(State& state, const Step& step) const;
  std::uint64_t load(const State& state, const Operand& operand) const;
  std::uint64_t finish(std::uint64_t value) const { return value * divisor_ + offset_; }
  Outcome judge(const State& state, bool is_stuck, std::string& why) const;
  std::uint64_t hash(const State& state) const;
  bool has_left(const State& state, std::int32_t rank) const;
  void check_entry(State& state) const;
  bool stands_at_receive(const State& state, std::int32_t channel) const;

  schedule::Request request_;
  schedule::Layouts layouts_;
  Rules rules_;
  bool sums_ = false;
  bool watches_entry_ = false;  // barriers and remote memory: ranks come and leave at their own times
  std::string malformed_;
  std::vector<Strand> strands_;
  std::vector<Operand> operands_;
  std::vector<std::vector<std::int32_t>> groups_;  // channel, then members
  std::vector<std::uint64_t> channel_keys_;
  std::vector<std::uint64_t> event_keys_;
  std::vector<std::uint64_t> initial_;
  std::vector<std::uint64_t> factor_;
  std::uint64_t divisor_ = 0;
  std::uint64_t offset_ = 0;
  struct Expected {
    std::int32_t cell;
    std::uint64_t value;
  };
  std::vector<Expected> outputs_;    // what the collective promises
  std::vector<Expected> untouched_;  // what nobody may change
  std::int32_t per_rank_ = 0;
};

}  // namespace peal::agreement
