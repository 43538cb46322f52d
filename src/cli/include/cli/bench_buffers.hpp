// The buffers of one rank of a benchmark: how large they are, which call they make, what goes in and what must come out.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <cli/bench.hpp>
#include <cli/pages.hpp>
#include <comm/call.hpp>
#include <cstdint>
#include <span>
#include <vector>

namespace peal::cli {

class BenchBuffers {
 public:
  /// The buffers of `core`'s rank. `options` and `core` must outlive this.
  BenchBuffers(const BenchOptions& options, comm::Core& core)
      : options_(options), rank_(core.rank()), ranks_(core.size()), n_(static_cast<std::uint64_t>(ranks_)) {
    if (!options.zero_copy) return;
    send_.share(core);
    receive_.share(core);
  }

  /// Sizes as nccl-tests has them: of block collectives the size is all ranks' blocks together, at least one element each.
  Status shape(Bytes size);
  /// Before any shape: calls of up to this size will be made, of all sizes in turn (Pages::reserve).
  Status reserve(Bytes largest);
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t count() const { return count_; }  ///< elements that a rank gives or gets

  /// The call; of send_recv, which is a group, `send()` and `receive()` are what it moves.
  comm::Call call(bool in_place) const;
  std::byte* send() const { return send_.data(); }
  std::byte* receive() const { return receive_.data(); }

  /// Fresh inputs of whole numbers, and outputs that cannot be right by chance.
  void fill(bool in_place);
  /// Elements of the result that are not what `fill` leads to.
  std::int64_t wrong(bool in_place) const;
  /// Stores what lies there already over all that this rank gives: then it is in no other core's cache.
  void rewrite(bool in_place) const;
  /// Zeros in, so that sums repeated in place do not overflow.
  void clear_in_place();

  /// Real inputs (bench_reals.hpp), made when `is_new`, which stay as they were made; outputs that cannot be right by chance. Values depend
  /// on rank and element only: of all_reduce and reduce a smaller size is the beginning of a larger one, of reduce_scatter each block is.
  Status fill_reals(bool in_place, bool is_new);

  /// The result: empty where this rank gets none. Its first element is element `index` of the inputs.
  struct Output {
    std::byte* data = nullptr;
    std::uint64_t count = 0;
    std::uint64_t index = 0;
  };
  Output output(bool in_place) const;

 private:
  /// The operator that the inputs are made for; copies take those of max, which differ most from rank to rank.
  ReduceOp data_op() const { return has_reduction(options_.collective) ? options_.op : ReduceOp::max; }
  /// Where an in-place call finds this rank's contribution, if that is not the send buffer.
  struct Own {
    std::byte* data = nullptr;
    std::uint64_t count = 0;
  };
  Own own_input() const;
  std::uint64_t given() const;  // elements of this rank's that a call sends or sums
  void spoil_outputs();

  const BenchOptions& options_;
  int rank_, ranks_;
  std::uint64_t n_;
  Pages send_, receive_, made_;
  std::uint64_t count_ = 0;
  std::uint64_t input_ = 0;
  std::uint64_t room_ = 0;  // elements of either buffer that a call may touch
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> counts_, displs_, back_counts_, back_displs_;
};

}  // namespace peal::cli
