#include "mutate.hpp"

#include <algorithm>

namespace peal::mutants {

using schedule::Op;
using schedule::OpKind;
using schedule::RankSchedule;
using schedule::Ref;

const char* name_of(Mutation mutation) {
  constexpr const char* kNames[kMutations] = {"drop", "repeat", "swap", "redirect", "chunk", "dependency", "flag", "loop", "slot"};
  return kNames[static_cast<int>(mutation)];
}

std::uint64_t Draw::operator()(std::uint64_t below) {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t x = state_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) % below;
}

namespace {

bool is_plain(const Op& op) { return op.kind != OpKind::loop && op.kind != OpKind::end_loop; }
bool is_dependency(const Op& op) { return op.kind == OpKind::signal || op.kind == OpKind::wait; }
bool is_any(const Op&) { return true; }
bool is_loop(const Op& op) { return op.kind == OpKind::loop; }
bool has_peer(const Op& op) { return op.peer >= 0; }
bool has_chunks(const Op& op) { return is_plain(op) && !is_dependency(op) && (op.src.count > 0 || op.dst.count > 0); }

// Distances between loops and their ends, after ops came or went.
void relink(std::vector<Op>& ops) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::loop) open.push_back(i);
    if (ops[i].kind != OpKind::end_loop) continue;
    const auto distance = static_cast<std::uint32_t>(i - open.back());
    ops[i].more = distance;
    ops[open.back()].more = distance;
    open.pop_back();
  }
}

struct Spot {
  std::size_t strand = 0;
  std::size_t op = 0;
};

std::vector<Spot> spots(const RankSchedule& rank, bool (*fits)(const Op&)) {
  std::vector<Spot> found;
  for (std::size_t s = 0; s < rank.strands.size(); ++s)
    for (std::size_t i = 0; i < rank.strands[s].ops.size(); ++i)
      if (fits(rank.strands[s].ops[i])) found.push_back({s, i});
  return found;
}

bool change_chunk(Op& op, RankSchedule& rank, Draw& draw, std::string& how) {
  std::vector<Ref*> refs;
  if (op.src.count > 0) refs.push_back(&op.src);
  if (op.dst.count > 0) refs.push_back(&op.dst);
  for (std::uint32_t k = 0; op.kind == OpKind::reduce && k < op.more_count; ++k) refs.push_back(&rank.sources[op.more + k].ref);
  Ref& ref = *refs[draw(refs.size())];
  switch (draw(5)) {
    case 0:
      ref.first += 1;
      how = "chunk + 1";
      return true;
    case 1:
      ref.first -= 1;
      how = "chunk - 1";
      return true;
    case 2:
      ref.buffer = static_cast<schedule::BufferId>((ref.buffer + 1 + draw(2)) % 3);
      how = "another buffer";
      return true;
    case 3:
      ref.count = static_cast<std::uint16_t>(ref.count + (ref.count > 1 && draw(2) == 0 ? -1 : 1));
      how = "another number of chunks";
      return true;
    default:
      if (ref.step[0] != 0) {
        ref.step[0] = -ref.step[0];
        how = "another way round";
      } else {
        ref.first += 2;
        how = "chunk + 2";
      }
      return true;
  }
}

bool change_flag(Op& op, Draw& draw, std::string& how) {
  const bool is_message = schedule::sends(op.kind) || schedule::receives(op.kind);
  switch (is_message ? draw(3) : 0) {
    case 0:
      op.flags ^= schedule::kFinish;
      how = "division by avg";
      return true;
    case 1:
      op.wire = op.wire == schedule::Wire::element ? schedule::Wire::fp32 : schedule::Wire::element;
      how = "wire type";
      return true;
    default:
      op.channel = static_cast<std::uint8_t>(op.channel ^ 1);
      how = "channel";
      return true;
  }
}

}  // namespace

bool mutate(Mutation mutation, std::vector<RankSchedule>& ranks, Draw& draw, Mutant& mutant) {
  using Fits = bool (*)(const Op&);
  constexpr Fits kFits[kMutations] = {is_plain, is_plain, is_plain, has_peer, has_chunks, is_dependency, has_chunks, is_loop, is_any};
  mutant.mutation = mutation;
  mutant.rank = static_cast<std::int32_t>(draw(ranks.size()));
  RankSchedule& rank = ranks[static_cast<std::size_t>(mutant.rank)];
  const std::vector<Spot> found = spots(rank, kFits[static_cast<int>(mutation)]);
  if (found.empty()) return false;
  if (mutation == Mutation::redirect && ranks.size() < 2) return false;
  const Spot at = found[draw(found.size())];
  std::vector<Op>& ops = rank.strands[at.strand].ops;
  Op& op = ops[at.op];
  std::string how = name_of(mutation);
  const std::string where = "rank " + std::to_string(mutant.rank) + ", strand " + std::to_string(at.strand) + ", op " +
                            std::to_string(at.op) + " (" + std::string(schedule::name_of(op.kind)) + "): ";
  const auto offset = static_cast<std::ptrdiff_t>(at.op);
  switch (mutation) {
    case Mutation::drop: ops.erase(ops.begin() + offset); break;
    case Mutation::repeat: {
      const Op copy = op;
      ops.insert(ops.begin() + offset, copy);
      break;
    }
    case Mutation::swap: {
      std::vector<std::size_t> others;
      for (std::size_t i = 0; i < ops.size(); ++i)
        if (i != at.op && is_plain(ops[i])) others.push_back(i);
      if (others.empty()) return false;
      // Mostly neighbours: faults that are hard to see.
      std::size_t other = others[draw(others.size())];
      if (draw(3) != 0 && at.op + 1 < ops.size() && is_plain(ops[at.op + 1])) other = at.op + 1;
      std::swap(ops[at.op], ops[other]);
      how = "swapped with op " + std::to_string(other);
      break;
    }
    case Mutation::redirect:
      op.peer = static_cast<std::int32_t>((static_cast<std::uint64_t>(op.peer) + 1 + draw(ranks.size() - 1)) % ranks.size());
      how = "to or from " + std::to_string(op.peer);
      break;
    case Mutation::chunk:
      if (!change_chunk(op, rank, draw, how)) return false;
      break;
    case Mutation::dependency:
      if (op.kind == OpKind::wait && op.operand > 1 && draw(2) == 0) {
        --op.operand;
        how = "waits for one less";
      } else {
        ops.erase(ops.begin() + offset);
        how = "lost";
      }
      break;
    case Mutation::flag:
      if (!change_flag(op, draw, how)) return false;
      break;
    case Mutation::loop:
      op.operand += draw(2) == 0 && op.operand > 1 ? -1 : 1;
      how = "now " + std::to_string(op.operand) + " times";
      break;
    case Mutation::slot: return false;
  }
  relink(ops);
  mutant.what = where + how;
  return true;
}

}  // namespace peal::mutants
