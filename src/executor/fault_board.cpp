#include <sched.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cstring>
#include <executor/fault_board.hpp>

namespace peal::executor {

namespace {
constexpr std::int64_t kWriterGraceNs = 100'000'000;

template <std::size_t N>
void store_text(char (&to)[N], const std::string& from) {
  const std::size_t bytes = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), bytes);
  to[bytes] = 0;
}

template <std::size_t N>
std::string load_text(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
}  // namespace

FaultRecord to_record(const Failure& failure, int reporter) {
  FaultRecord record;
  record.code = static_cast<std::int32_t>(failure.code);
  record.rank = failure.rank;
  record.reporter = reporter;
  record.peer = failure.peer;
  store_text(record.operation, failure.operation);
  store_text(record.text, failure.message);
  return record;
}

Failure to_failure(const FaultRecord& record) {
  return {static_cast<ErrorCode>(record.code), load_text(record.text), record.rank, record.peer, load_text(record.operation)};
}

FaultBoard::FaultBoard(std::byte* memory, int ranks)
    : header_(reinterpret_cast<Header*>(memory)),
      lines_(reinterpret_cast<Line*>(memory + round_up(sizeof(Header), alignof(Line)))),
      ranks_(ranks) {}

std::size_t FaultBoard::bytes_for(int ranks) {
  return round_up(sizeof(Header), alignof(Line)) + static_cast<std::size_t>(ranks) * sizeof(Line);
}

bool FaultBoard::record(const FaultRecord& fault) {
  std::uint32_t none = 0;
  if (!header_->state.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) return false;
  header_->fault = fault;
  header_->state.store(2, std::memory_order_release);
  return true;
}

FaultRecord FaultBoard::first() const {
  const std::int64_t until = now_ns() + kWriterGraceNs;
  while (header_->state.load(std::memory_order_acquire) != 2) {
    if (now_ns() > until) return to_record({ErrorCode::rank_dead, "a rank ended while it reported a fault", -1, -1, {}}, -1);
    sched_yield();
  }
  return header_->fault;
}

CallState FaultBoard::state_of(int rank) const {
  const Line& line = lines_[rank];
  CallState state;
  state.inside = line.inside.load(std::memory_order_acquire) == kInside;
  state.calls = line.calls.load(std::memory_order_acquire);
  transport::Tag tag;
  for (int i = 0; i < 3; ++i) tag.words[i] = line.words[i].load(std::memory_order_acquire);
  state.call = from_tag(tag);
  // Who reads a word of a later call sees after it that this call has begun.
  state.is_whole = line.begun.load(std::memory_order_acquire) == state.calls;
  return state;
}

}  // namespace peal::executor
