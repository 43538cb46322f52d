#include "ring_order.hpp"

namespace peal::schedule {

namespace {

Op& refine(Op& op, const RingSeat& seat, const ChunkPlace& place) {
  op.channel = seat.channel;
  op.modulus = place.modulus;
  return op;
}

}  // namespace

void ring_reduce_scatter(StrandBuilder& strand, const RingSeat& seat, const RingChunks& chunks, BufferId own, BufferId partial, Ref result,
                         bool finish) {
  const ChunkPlace start = chunks.at(seat.position - 1);
  refine(strand.send_addend(seat.next, start.in(own)), seat, start);
  chunks.backwards(strand, seat.position - 2, seat.size - 2, [&](const ChunkPlace& place) {
    refine(strand.recv_reduce(seat.prev, place.in(partial), place.in(own)), seat, place);
    refine(strand.send_addend(seat.next, place.in(partial)), seat, place);
  });
  const ChunkPlace last = chunks.at(seat.position);
  Op& op = refine(strand.recv_reduce(seat.prev, result, last.in(own)), seat, last);
  if (finish) op.flags |= kFinish;
}

void ring_all_gather(StrandBuilder& strand, const RingSeat& seat, const RingChunks& chunks, Ref mine, BufferId buffer) {
  refine(strand.send(seat.next, mine), seat, chunks.at(seat.position));
  chunks.backwards(strand, seat.position - 1, seat.size - 2, [&](const ChunkPlace& place) {
    refine(strand.recv(seat.prev, place.in(buffer)), seat, place);
    refine(strand.send(seat.next, place.in(buffer)), seat, place);
  });
  const ChunkPlace last = chunks.at(seat.position + 1);
  refine(strand.recv(seat.prev, last.in(buffer)), seat, last);
}

void ring_broadcast(StrandBuilder& strand, const RingSeat& seat, std::int32_t root_position, Ref source, Ref data) {
  const std::int32_t distance = wrap(seat.position - root_position, seat.size);
  if (distance > 0) strand.recv(seat.prev, data).channel = seat.channel;
  if (distance < seat.size - 1) strand.send(seat.next, distance == 0 ? source : data).channel = seat.channel;
}

void ring_reduce(StrandBuilder& strand, const RingSeat& seat, std::int32_t root_position, Ref own, Ref partial, Ref result) {
  const std::int32_t distance = wrap(seat.position - root_position, seat.size);
  if (distance != 1) {
    Op& op = strand.recv_reduce(seat.prev, distance == 0 ? result : partial, own);
    op.channel = seat.channel;
    if (distance == 0) op.flags |= kFinish;
  }
  if (distance != 0) strand.send_addend(seat.next, distance == 1 ? own : partial).channel = seat.channel;
}

}  // namespace peal::schedule
