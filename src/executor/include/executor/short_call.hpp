// A call of few short messages between ranks of one host that is made again as it was made before: its ops in a row, the ends of its
// channels and the places in its buffers at hand, and nothing of the way through `Execution` that only decides what has been decided. The
// same ops in the same order, and the same checks of what comes; what it does not know (a message that is not there for long, or is not as
// it should be) it leaves to `Execution`, which goes on where it stands. Messages that stay where they lie (Sender::show) may be long.
#pragma once

#include <array>
#include <cstdint>
#include <executor/fault_board.hpp>
#include <executor/flat_program.hpp>
#include <memory>
#include <transport/shm.hpp>

namespace peal::executor {

class FillChoice;
struct Operands;

class ShortCall {
 public:
  static constexpr std::size_t kMostOps = 16;

  /// Makes the call with the buffers and the kernels of `operands`, and enters it on the board of `rank` when what can be told at once has
  /// been told. False: it is not done after `polls` fruitless looks, or something came that should not; Execution::go_on takes it from
  /// here.
  bool run(const Operands& operands, const transport::Tag& tag, std::uint32_t polls, FaultBoard& board, int rank);

  /// True where messages stay where they lie; then place() is to be asked before every run().
  bool shows() const { return shown_ != nullptr; }
  /// FlatProgram::most_bytes.
  std::uint64_t most_bytes() const { return most_bytes_; }
  /// Finds out where the messages lie in the buffers of `operands`, which are not kept, unless they and `version` are those of the last
  /// time. False: they cannot all be shown there. `version`: transport::UserSegments::version; 0: look in any case, and the next time too.
  bool place(const Operands& operands, std::uint64_t version);

  ShortCall() = default;
  ShortCall(const ShortCall&) = delete;
  ShortCall& operator=(const ShortCall&) = delete;

 private:
  friend class Execution;
  struct Step {
    schedule::OpKind kind = schedule::OpKind::copy;
    bool is_tagged = false;
    bool is_inline = false;  // it travels in its descriptor
    bool is_last_sum = false;
    std::uint8_t dst_buffer = 0;
    std::uint8_t src_buffer = 0;
    std::uint32_t bytes = 0;
    std::uint32_t count = 0;  // elements
    std::uint32_t event = 0;  // signal and wait: the bit of a signal
    std::uint64_t dst = 0;    // bytes from the buffer's base
    std::uint64_t src = 0;
    transport::ShmSender* to = nullptr;
    transport::ShmReceiver* from = nullptr;
    FillChoice* fill = nullptr;  // of a send that is long enough to learn how its slot is filled
  };
  struct Strand {
    const Step* begin = nullptr;
    const Step* end = nullptr;
    const Step* at = nullptr;
  };
  /// What a step knows beside where messages are shown.
  struct ShownStep {
    bool is_shown = false;          // a send
    bool has_answer = false;        // which says where the sum that it goes into is wanted,
    bool is_answer_wanted = false;  // if the peer can write there
    bool may_answer = false;        // a sum, which its receiver writes there too
    std::uint8_t answer_buffer = 0;
    std::uint64_t answer = 0;  // bytes from the buffer's base
    transport::shm::PlaceToAnswer places{};
    ShownStep* sum = nullptr;       // a send of what that step has summed up, for the rank that wants it
    std::byte* answered = nullptr;  // where in the peer's memory this call's sum lies too
  };
  struct Shown {
    std::array<ShownStep, kMostOps> steps;
    std::uint64_t version = 0;  // for which, and for which buffers, the places hold
    const std::byte* input = nullptr;
    const std::byte* output = nullptr;
  };
  bool advance_shown(const Operands& operands, const transport::Tag& tag);
  bool perform_shown(const Step& step, const Operands& operands, const transport::Tag& tag);
  bool show(const Step& step, ShownStep& shown, const transport::Tag* tag);
  bool take_shown(const Step& step, ShownStep& shown, const Operands& operands, const transport::Tag* tag);
  bool is_drained() const;
  ShownStep& shown_of(const Step& step) const { return shown_->steps[static_cast<std::size_t>(&step - steps_.data())]; }
  static const std::byte* source_of(const Step& step, const Operands& operands);
  static std::byte* target_of(const Step& step, const Operands& operands);
  bool tell(const Operands& operands, const transport::Tag& tag);
  bool hear(const Operands& operands, const transport::Tag& tag, std::uint32_t polls);
  void start();
  template <class F>
  bool try_step(const Step& step, F&& perform);
  bool advance(const Operands& operands, const transport::Tag& tag);
  bool advance_short(const Operands& operands, const transport::Tag& tag);
  bool go_round(const Operands& operands, const transport::Tag& tag, std::uint32_t polls);
  void find_exchange();
  static bool perform(const Step& step, const Operands& operands, const transport::Tag& tag);
  static bool give(const Step& step, const Operands& operands, const transport::Tag* tag);
  static bool take(const Step& step, const Operands& operands, const transport::Tag* tag);
  static const transport::Message* peek(const Step& step, const transport::Tag* tag);

  std::array<Step, kMostOps> steps_;
  std::array<Strand, kMostOps> strands_;
  std::size_t strand_count_ = 0;
  std::uint32_t signalled_ = 0;  // bits of events
  std::uint64_t most_bytes_ = 0;
  std::unique_ptr<Shown> shown_;
  // What two ranks that say something to each other do, and no more: a short message each way.
  const Step* told_ = nullptr;  // null: it is not that
  const Step* heard_ = nullptr;
};

}  // namespace peal::executor
