// Point to point: one pair, and what one rank does in a group of sends and receives.
//
//     send_recv: root --> peer            group: every peer has a strand for sends and one for receives;
//                                         transfers with one peer go in order, different peers do not wait for one another
//
// As ncclGroupStart / ncclGroupEnd and MPI's non-overtaking rule have it.
#include <base/names.hpp>
#include <map>

#include "build_algorithms.hpp"

namespace peal::schedule {

namespace {

Status apart(const Request& request) {
  if (!request.in_place) return {};
  return fail(ErrorCode::unsupported, "send_recv cannot work in place; give it separate buffers");
}

Layouts layouts_of(const Request& request) { return standard_layouts(request, 1); }

void build_send_recv(const Request& request, std::int32_t rank, RankBuilder& builder) {
  if (rank == request.root && rank == request.peer) {
    builder.strand("copy").copy(output(0), input(0));
    return;
  }
  if (rank == request.root) builder.strand("send").send(request.peer, input(0));
  if (rank == request.peer) builder.strand("receive").recv(request.root, output(0));
}

CostTerms cost_of(const Request& request) {
  CostTerms cost;
  if (request.root == request.peer) {
    cost.copied = 1;
    return cost;
  }
  const std::vector<std::int32_t>& group = request.placement.group;
  const bool crosses = !group.empty() && group[static_cast<std::size_t>(request.root)] != group[static_cast<std::size_t>(request.peer)];
  cost.level[crosses ? 1 : 0] = {1, 1, 1, 1};
  cost.pipelined = true;
  return cost;
}

bool yes(const Request&) { return true; }

Ref user_buffer(std::size_t index) { return chunks_of(static_cast<BufferId>(kFirstUserBuffer + index), 0); }

}  // namespace

std::vector<Algorithm> point_to_point_algorithms() {
  return {{"send_recv", "one rank sends, one receives", Collective::send_recv, true, apart, layouts_of, build_send_recv, cost_of, yes}};
}

Program group_program(std::int32_t rank, std::int32_t ranks, std::span<const Transfer> sends, std::span<const Transfer> receives) {
  RankBuilder builder;
  std::map<std::int32_t, StrandBuilder> sending;
  std::map<std::int32_t, StrandBuilder> receiving;
  std::vector<std::size_t> to_self;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (sends[i].peer == rank) {
      to_self.push_back(i);
      continue;
    }
    const auto at = sending.find(sends[i].peer);
    StrandBuilder strand = at != sending.end() ? at->second : sending.emplace(sends[i].peer, builder.strand("send")).first->second;
    strand.send(sends[i].peer, user_buffer(i));
  }
  std::size_t from_self = 0;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const Ref here = user_buffer(sends.size() + i);
    if (receives[i].peer == rank && from_self < to_self.size()) {
      builder.strand("copy").copy(here, user_buffer(to_self[from_self++]));
      continue;
    }
    const auto at = receiving.find(receives[i].peer);
    StrandBuilder strand =
        at != receiving.end() ? at->second : receiving.emplace(receives[i].peer, builder.strand("receive")).first->second;
    strand.recv(receives[i].peer, here);
  }
  return lower(builder.take(), rank, ranks, false);
}

}  // namespace peal::schedule
