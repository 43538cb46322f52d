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

}  // namespace peal::schedule
