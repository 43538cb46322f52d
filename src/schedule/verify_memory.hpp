// The memory of all ranks as the verifier sees it: one cell for every piece of every chunk. Private to this room.
#pragma once

#include <peal/types.hpp>
#include <schedule/schedule.hpp>
#include <vector>

#include "verify_clocks.hpp"
#include "verify_values.hpp"

namespace peal::schedule {

/// One chunk of one rank's buffer, piece by piece.
struct Cell {
  Value value;
  std::int64_t held_as = -1;  ///< compact scratch: the shape of the chunk that lies here
  AccessLog log;
};

/// Where one chunk of a reference lies.
struct Place {
  std::size_t cell = 0;    ///< of piece 0; pieces follow
  std::int64_t shape = 0;  ///< equal shapes are equally long whatever the call's count
  bool is_compact = false;
};

class Memory {
 public:
  Memory(const Request& request, const Layouts& layouts, std::int32_t pieces);

  std::int32_t chunks(BufferId buffer) const;
  /// Chunk `index` of `buffer` on `rank`; the index is in range.
  Place place(std::int32_t rank, BufferId buffer, std::int32_t index) const;
  Cell& cell(const Place& place, std::int32_t piece) { return cells_[place.cell + static_cast<std::size_t>(piece)]; }

  bool has_input(std::int32_t rank) const;
  bool has_output(std::int32_t rank) const;
  bool may_write(std::int32_t rank, BufferId buffer, std::int32_t index) const;
  /// Which input chunk of which rank (not of all ranks, when it is a sum) output chunk `index` of `rank` has to hold.
  struct Promise {
    std::int32_t from = 0;
    std::int32_t chunk = 0;
  };
  Promise promise(std::int32_t rank, std::int32_t index) const;

 private:
  std::int64_t shape_of(std::int32_t rank, BufferId buffer, std::int32_t index) const;
  void fill_inputs(std::int32_t pieces);

  const Request& request_;
  const Layouts& layouts_;
  std::int32_t pieces_;
  std::size_t begin_[kFirstUserBuffer] = {};  // first chunk of each buffer among the cells of a rank
  std::size_t per_rank_ = 0;
  std::vector<Cell> cells_;
};

/// True for the collectives that sum.
bool is_reduction(Collective collective) noexcept;

}  // namespace peal::schedule
