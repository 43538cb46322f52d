#include <atomic>
#include <base/clock.hpp>
#include <executor/fill_choice.hpp>

namespace peal::executor {

namespace {

// What is filled past the caches is on its way for longer than a short message takes to fill: its receiver waits for that, its sender would
// not. The clock does not wait for stores either, so both ways would seem to cost what issuing the stores does. On x86 a locked instruction
// comes after all stores before it; elsewhere an exchange promises less, and filling may seem shorter than it is.
void wait_until_stored() {
  std::atomic<int> any{0};
  any.exchange(1, std::memory_order_seq_cst);
}

}  // namespace

// Out of line, since few messages are timed. Among ranks that share cores others have their turns while the stores are on their way, and of
// long messages that time is a small part.
void FillChoice::end_timed(std::uint64_t bytes, const transport::Sender& to) {
  if (is_alone_ && !is_paced_ && bytes < transport::TimingTurns::kEach) wait_until_stored();
  if (end(bytes, now_ns())) take_sample(to.drained());
}

}  // namespace peal::executor
