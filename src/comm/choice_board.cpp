#include <time.h>

#include <algorithm>
#include <base/clock.hpp>
#include <comm/choice_board.hpp>

namespace peal::comm {

namespace {
constexpr std::int64_t kPatienceNs = 2'000'000'000;
constexpr std::int64_t kLongestPauseNs = 1'000'000;
}  // namespace

// Entries are never given back, so a search may end at the first free one.
ChoiceBoard::Entry* ChoiceBoard::entry_of(std::uint64_t key, bool* is_mine) const {
  *is_mine = false;
  if (table_ == nullptr) return nullptr;
  for (std::size_t i = 0; i < kEntries; ++i) {
    Entry& entry = table_->entries[((key * 0x9e3779b97f4a7c15ull >> 32) + i) % kEntries];
    std::uint64_t there = 0;
    *is_mine = entry.key.compare_exchange_strong(there, key, std::memory_order_acq_rel);
    if (*is_mine || there == key) return &entry;
  }
  return nullptr;
}

std::optional<Choice> ChoiceBoard::find(std::uint64_t key, const std::function<bool()>& is_over) const {
  bool is_mine = false;
  const Entry* entry = entry_of(key, &is_mine);
  if (entry == nullptr || is_mine) return std::nullopt;
  const std::int64_t until = now_ns() + kPatienceNs;
  timespec pause{0, 50'000};
  while (entry->state.load(std::memory_order_acquire) == kUnknown) {
    if (is_over() || now_ns() > until) return std::nullopt;
    // Asleep, not yielding: whoever weighs needs the core.
    nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min<long>(pause.tv_nsec * 2, kLongestPauseNs);
  }
  if (entry->state.load(std::memory_order_acquire) == kNone) return std::nullopt;
  return entry->choice;
}

void ChoiceBoard::put(std::uint64_t key, const Choice& choice) const {
  bool is_mine = false;
  Entry* entry = entry_of(key, &is_mine);
  // Two may come to the same end: what they write is equal, but only one writes.
  std::uint32_t nobody = 0;
  if (entry == nullptr || !entry->is_claimed.compare_exchange_strong(nobody, 1, std::memory_order_relaxed)) return;
  entry->choice = choice;
  entry->state.store(kKnown, std::memory_order_release);
}

void ChoiceBoard::give_up(std::uint64_t key) const {
  bool is_mine = false;
  Entry* entry = entry_of(key, &is_mine);
  std::uint32_t nobody = 0;
  if (entry == nullptr || !entry->is_claimed.compare_exchange_strong(nobody, 1, std::memory_order_relaxed)) return;
  entry->state.store(kNone, std::memory_order_release);
}

}  // namespace peal::comm
