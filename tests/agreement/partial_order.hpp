// The order in which ops of a plan may end, worked out from the programs alone: loops are unrolled here, messages and signals are
// counted here, nothing is taken from the cursor. Whatever interprets a plan hands its completions in; this says whether they fit.
//
// The simulator's log is one list over all ranks (check_global). The executor's is one list a rank (check_rank): executor::Completion has
// the same fields as Done without the rank.
#pragma once

#include <cstdint>
#include <map>
#include <schedule/schedule.hpp>
#include <string>
#include <vector>

namespace peal::agreement {

/// One op that has ended.
struct Done {
  std::int32_t rank = 0;
  std::int32_t strand = 0;
  std::uint32_t op = 0;                ///< index in Program::ops
  std::int32_t iteration[2] = {0, 0};  ///< innermost first
  std::int32_t piece = 0;
};

struct OrderRules {
  std::int32_t pieces = 1;
  std::int32_t slots = 4;  ///< 0: a send ends after its receive was reached
};

class PartialOrder {
 public:
  PartialOrder(const std::vector<schedule::Program>& programs, OrderRules rules);

  std::size_t size() const { return entries_.size(); }
  /// Empty when `log` holds every op once, in an order that respects strands, messages, slots and signals; else what does not fit.
  std::string check_global(const std::vector<Done>& log) const;
  /// The same for one rank's log: every op of the rank once, strands and local signals in order.
  std::string check_rank(std::int32_t rank, const std::vector<Done>& log) const;

 private:
  struct Entry {
    Done done;
    std::vector<std::size_t> after;  ///< entries that end before this one
  };
  using Key = std::vector<std::int64_t>;
  static Key key_of(const Done& d) { return {d.rank, d.strand, d.op, d.iteration[0], d.iteration[1], d.piece}; }
  void unroll(const schedule::Program& program, std::int32_t strand, std::int32_t piece, std::size_t& previous);
  void connect();
  std::string text_of(std::size_t entry) const;
  std::string check(const std::vector<Done>& log, std::int32_t only_rank) const;

  const std::vector<schedule::Program>& programs_;
  OrderRules rules_;
  std::vector<Entry> entries_;
  std::map<Key, std::size_t> entry_of_;
};

}  // namespace peal::agreement
