// Parameters of some neighbouring layers in one piece of memory, with what is kept for them, cut over data-parallel ranks as a ZeRO stage
// has it (arXiv 1910.02054):
//
//   stage   parameters   gradients                optimiser
//   0       whole        whole                    whole
//   1       whole        whole, own part summed   own part
//   2       whole        own part                 own part
//   3       own part     own part                 own part
#pragma once

#include <comm/call.hpp>
#include <cstdint>
#include <deque>
#include <parallel/group.hpp>
#include <vector>

namespace peal::parallel {

using Buffer = std::vector<float>;

class Zone {
 public:
  /// `elements` are rounded up until the group divides them.
  Zone(std::int64_t elements, int zero, Group& group);

  std::int64_t elements() const { return elements_; }
  /// Of the whole: what this rank steps, and nobody else of the group does; with stage 0 all ranks step all of it.
  std::int64_t own_first() const { return is_cut() ? group_->rank() * own_count() : 0; }
  std::int64_t own_count() const { return is_cut() ? elements_ / group_->size() : elements_; }
  bool is_cut() const { return zero_ > 0 && group_->size() > 1; }
  Group& group() const { return *group_; }

  /// Whole; with stage 3 between gather and release only.
  float* parameters() { return parameters_.data(); }
  bool is_whole() const { return !parameters_.empty(); }
  /// Whole; made, with zeros, where they are not there.
  float* gradients();
  float* own_parameters() { return keeps_parameters() ? parameters_.data() + own_first() : own_parameters_.data(); }
  /// Summed over the group once they were reduced.
  float* own_gradients();
  Buffer& first_moment() { return first_moment_; }
  Buffer& second_moment() { return second_moment_; }

  /// The calls; their buffers are the zone's.
  comm::Call reduce_call();
  /// After the first call above that has not ended yet: stages 2 and 3 add what came to the own part and give the rest back.
  void end_reduce();
  comm::Call gather_call();
  /// Stage 3: only the own part stays.
  void release();
  /// Before the first micro batch of a step.
  void clear_gradients();
  /// Bytes that this rank holds at this moment.
  std::int64_t bytes() const;

 private:
  // Stages 2 and 3: gradients of a micro batch on their way, while those of the next are computed.
  struct Flight {
    Buffer leaving, arriving;
  };
  bool keeps_parameters() const { return zero_ < 3 || !is_cut(); }
  bool keeps_gradients() const { return zero_ < 2 || !is_cut(); }

  std::int64_t elements_;
  int zero_;
  Group* group_;
  Buffer parameters_, own_parameters_, gradients_, own_gradients_, first_moment_, second_moment_;
  std::deque<Flight> flying_;
};

}  // namespace peal::parallel
