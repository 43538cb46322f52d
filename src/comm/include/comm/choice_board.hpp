// What the ranks of one host have chosen already: shared memory, so that among many ranks one weighs the algorithms of a call and the
// others take over what it found. They hold the same environment, so each would choose the same; this only saves the time (at 128 ranks
// tens of milliseconds of every rank on few cores). Plain atomics: a rank that dies while it weighs holds nobody up for long.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <schedule/protocol.hpp>

namespace peal::comm {

struct Choice {
  std::uint32_t algorithm = 0;  ///< place in the registry
  schedule::Protocol protocol = schedule::Protocol::staged;
  bool is_canonical = false;
  std::uint64_t message_bytes = 0;
  double predicted_ns = 0;
};

class ChoiceBoard {
 public:
  /// Fewer ranks choose for themselves: that is quick, and their communicators stay small.
  static constexpr int kFewestRanks = 9;
  static std::size_t bytes_for(int ranks_on_host) { return ranks_on_host < kFewestRanks ? 0 : sizeof(Table); }

  ChoiceBoard() = default;
  /// `memory`: bytes_for(ranks), zeroed before first use, aligned for std::uint64_t; not owned. Null: nobody shares.
  explicit ChoiceBoard(std::byte* memory) : table_(reinterpret_cast<Table*>(memory)) {}

  /// The choice that stands under `key` (not 0). Nothing: the caller chooses and says so by put(); it is the first, or the first has not
  /// come to an end within the time that is worth waiting, or the board is full.
  std::optional<Choice> find(std::uint64_t key, const std::function<bool()>& is_over) const;
  void put(std::uint64_t key, const Choice& choice) const;
  /// There is none: the others find out for themselves, at once.
  void give_up(std::uint64_t key) const;

 private:
  static constexpr std::size_t kEntries = 64;
  enum : std::uint32_t { kUnknown, kKnown, kNone };
  struct Entry {
    std::atomic<std::uint64_t> key;         // 0: free
    std::atomic<std::uint32_t> is_claimed;  // somebody writes what follows
    std::atomic<std::uint32_t> state;       // kUnknown, kKnown, kNone
    Choice choice;
  };
  struct Table {
    Entry entries[kEntries];
  };
  Entry* entry_of(std::uint64_t key, bool* is_mine) const;

  Table* table_ = nullptr;
};

}  // namespace peal::comm
