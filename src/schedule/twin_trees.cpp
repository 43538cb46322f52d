#include "twin_trees.hpp"

namespace peal::schedule {

TreeSeat twin_seat(std::int32_t m, std::int32_t twin, std::int32_t number) {
  const std::int32_t place = twin_place(m, twin, number);
  TreeSeat seat;
  seat.count = m;
  while (true) {
    const std::int32_t left = top_in_order(seat.count);
    const std::int32_t top = seat.begin + left;
    const std::int32_t right = seat.count - 1 - left;
    if (place == top) {
      if (left > 0) seat.children.push_back({twin_number(m, twin, seat.begin + top_in_order(left)), seat.begin, left});
      if (right > 0) seat.children.push_back({twin_number(m, twin, top + 1 + top_in_order(right)), top + 1, right});
      return seat;
    }
    seat.parent = twin_number(m, twin, top);
    if (place > top) seat.begin = top + 1;
    seat.count = place < top ? left : right;
  }
}

}  // namespace peal::schedule
