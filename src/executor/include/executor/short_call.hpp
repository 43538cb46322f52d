// A call of few short messages between ranks of one host that is made again as it was made before: its ops in a row, the ends of its
// channels and the places in its buffers at hand, and nothing of the way through `Execution` that only decides what has been decided. The
// same ops in the same order, and the same checks of what comes; what it does not know (a message that is not there for long, or is not as
// it should be) it leaves to `Execution`, which goes on where it stands.
#pragma once

#include <array>
#include <cstdint>
#include <executor/fault_board.hpp>
#include <executor/flat_program.hpp>
#include <transport/shm.hpp>

namespace peal::executor {

struct Operands;

class ShortCall {
 public:
  static constexpr std::size_t kMostOps = 8;

  /// Makes the call with the buffers and the kernels of `operands`, and enters it on the board of `rank` when what can be told at once has
  /// been told. False: it is not done after `polls` fruitless looks, or something came that should not; Execution::go_on takes it from
  /// here.
  bool run(const Operands& operands, const transport::Tag& tag, std::uint32_t polls, FaultBoard& board, int rank);

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
    std::uint32_t event = 0;  // signal and wait: its bit
    std::uint64_t dst = 0;    // bytes from the buffer's base
    std::uint64_t src = 0;
    transport::ShmSender* to = nullptr;
    transport::ShmReceiver* from = nullptr;
  };
  struct Strand {
    const Step* begin = nullptr;
    const Step* end = nullptr;
    const Step* at = nullptr;
  };
  bool tell(const Operands& operands, const transport::Tag& tag);
  bool hear(const Operands& operands, const transport::Tag& tag, std::uint32_t polls);
  void start();
  bool advance(const Operands& operands, const transport::Tag& tag);
  bool go_round(const Operands& operands, const transport::Tag& tag, std::uint32_t polls);
  void find_exchange();
  static bool perform(const Step& step, const Operands& operands, const transport::Tag& tag);
  static bool take(const Step& step, const Operands& operands, const transport::Tag* tag);

  std::array<Step, kMostOps> steps_;
  std::array<Strand, kMostOps> strands_;
  std::size_t strand_count_ = 0;
  std::uint32_t signalled_ = 0;  // bits of events
  // What two ranks that say something to each other do, and no more: a short message each way.
  const Step* told_ = nullptr;  // null: it is not that
  const Step* heard_ = nullptr;
};

}  // namespace peal::executor
