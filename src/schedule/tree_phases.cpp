#include "tree_phases.hpp"

namespace peal::schedule {

TreePlace place_in_tree(const std::vector<std::int32_t>& members, std::int32_t n, std::int32_t root_index, std::int32_t radix,
                        std::int32_t index, std::uint8_t channel) {
  TreePlace place{tree_seat(n, root_index, radix, index), channel};
  if (members.empty()) return place;
  if (place.seat.parent >= 0) place.seat.parent = members[static_cast<std::size_t>(place.seat.parent)];
  for (TreeChild& child : place.seat.children) child.number = members[static_cast<std::size_t>(child.number)];
  return place;
}

TreePlace place_in_chain(const std::vector<std::int32_t>& members, std::int32_t root_index, std::int32_t index, std::uint8_t channel) {
  const auto n = static_cast<std::int32_t>(members.size());
  const auto member = [&](std::int32_t i) { return members[static_cast<std::size_t>((i + n) % n)]; };
  TreePlace place;
  place.channel = channel;
  if (index != root_index) place.seat.parent = member(index - 1);
  if ((index + 1) % n != root_index) place.seat.children.push_back({member(index + 1), 0, 0});
  return place;
}

bool tree_reduce(StrandBuilder& strand, const TreePlace& place, Ref own, Ref sum, bool finish) {
  const std::vector<TreeChild>& children = place.seat.children;
  Ref addend = own;
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    Op& op = strand.recv_reduce(child->number, sum, addend);
    op.channel = place.channel;
    if (finish && place.seat.parent < 0 && child + 1 == children.rend()) op.flags |= kFinish;
    addend = sum;
  }
  if (place.seat.parent >= 0) strand.send_addend(place.seat.parent, addend).channel = place.channel;
  return !children.empty();
}

void tree_broadcast(StrandBuilder& strand, const TreePlace& place, Ref source, Ref data) {
  if (place.seat.parent >= 0) strand.recv(place.seat.parent, data).channel = place.channel;
  const Ref what = place.seat.parent >= 0 ? data : source;
  for (const TreeChild& child : place.seat.children) strand.send(child.number, what).channel = place.channel;
}

void tree_broadcast_at_once(RankBuilder& builder, const TreePlace& place, Ref source, Ref data, std::int32_t ready,
                            std::vector<std::int32_t>* sent) {
  const bool is_root = place.seat.parent < 0;
  if (!is_root) {
    StrandBuilder strand = builder.strand("broadcast");
    if (ready >= 0) strand.wait(ready, 1);
    strand.recv(place.seat.parent, data).channel = place.channel;
    strand.signal(ready = builder.event());
  }
  for (const TreeChild& child : place.seat.children) {
    StrandBuilder strand = builder.strand("to a child");
    if (ready >= 0) strand.wait(ready, 1);
    strand.send(child.number, is_root ? source : data).channel = place.channel;
    if (sent == nullptr) continue;
    sent->push_back(builder.event());
    strand.signal(sent->back());
  }
}

}  // namespace peal::schedule
