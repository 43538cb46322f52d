#include "partial_order.hpp"

#include <fmt/format.h>

#include <array>

namespace peal::agreement {

using schedule::Op;
using schedule::OpKind;
using schedule::Program;

namespace {

constexpr std::size_t kNone = ~std::size_t{0};

bool takes(OpKind k) { return k == OpKind::recv || k == OpKind::recv_reduce || k == OpKind::recv_send || k == OpKind::recv_reduce_send; }
bool gives(OpKind k) { return k == OpKind::send || k == OpKind::recv_send || k == OpKind::recv_reduce_send; }

std::int32_t moved(std::int32_t peer, const Op& op, const Done& d, std::int32_t ranks) {
  if (peer < 0) return peer;
  const std::int64_t at = (peer + static_cast<std::int64_t>(op.peer_step) * d.iteration[0]) % ranks;
  return static_cast<std::int32_t>((at + ranks) % ranks);
}

}  // namespace

PartialOrder::PartialOrder(const std::vector<Program>& programs, OrderRules rules) : programs_(programs), rules_(rules) {
  for (const Program& program : programs)
    for (std::size_t s = 0; s < program.strands(); ++s) {
      std::size_t previous = kNone;
      for (std::int32_t piece = 0; piece < rules.pieces; ++piece) unroll(program, static_cast<std::int32_t>(s), piece, previous);
    }
  connect();
}

/// Appends one walk through a strand, op by op, with an explicit stack of loops.
void PartialOrder::unroll(const Program& program, std::int32_t strand, std::int32_t piece, std::size_t& previous) {
  struct Open {
    std::uint32_t at;
    std::int32_t i;
  };
  std::vector<Open> open;
  const std::uint32_t begin = program.strand_begin[static_cast<std::size_t>(strand)];
  const std::uint32_t end = program.strand_begin[static_cast<std::size_t>(strand) + 1];
  for (std::uint32_t at = begin; at < end; ++at) {
    const Op& op = program.ops[at];
    if (op.kind == OpKind::loop) {
      if (op.operand > 0)
        open.push_back({at, 0});
      else
        while (program.ops[at].kind != OpKind::end_loop) ++at;  // an empty loop holds no other loop that runs
      continue;
    }
    if (op.kind == OpKind::end_loop) {
      if (++open.back().i < program.ops[open.back().at].operand)
        at = open.back().at;
      else
        open.pop_back();
      continue;
    }
    Done d{program.rank, strand, at, {0, 0}, piece};
    if (!open.empty()) d.iteration[0] = open.back().i;
    if (open.size() > 1) d.iteration[1] = open.front().i;
    Entry entry{d, {}};
    if (previous != kNone) entry.after.push_back(previous);
    previous = entries_.size();
    entry_of_.emplace(key_of(d), previous);
    entries_.push_back(std::move(entry));
  }
}

void PartialOrder::connect() {
  // The i-th send and the i-th receive of a channel are one message, in the order of the one strand at either end.
  std::map<std::array<std::int32_t, 3>, std::vector<std::size_t>> sends, receives;
  std::map<std::array<std::int32_t, 3>, std::vector<std::size_t>> signals;  // from, to, event
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Done& d = entries_[e].done;
    const Program& program = programs_[static_cast<std::size_t>(d.rank)];
    const Op& op = program.ops[d.op];
    const std::int32_t peer = moved(op.peer, op, d, program.ranks);
    const std::int32_t peer2 = moved(op.peer2, op, d, program.ranks);
    if (takes(op.kind)) receives[{peer, d.rank, op.channel}].push_back(e);
    if (gives(op.kind)) sends[{d.rank, op.kind == OpKind::send ? peer : peer2, op.channel}].push_back(e);
    if (op.kind == OpKind::signal) signals[{d.rank, peer < 0 ? d.rank : peer, op.event}].push_back(e);
  }
  for (const auto& [channel, sent] : sends) {
    const std::vector<std::size_t>& got = receives[channel];
    for (std::size_t i = 0; i < sent.size() && i < got.size(); ++i) {
      entries_[got[i]].after.push_back(sent[i]);
      const auto slots = static_cast<std::size_t>(rules_.slots);
      if (rules_.slots > 0 && i >= slots) entries_[sent[i]].after.push_back(got[i - slots]);
    }
  }
  // A wait for `threshold` signals of one strand of signallers ends after the threshold-th. Signals of one event from several strands
  // have no order among themselves; then only their number counts, which check() sees.
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Done d = entries_[e].done;
    const Program& program = programs_[static_cast<std::size_t>(d.rank)];
    const Op& op = program.ops[d.op];
    if (op.kind != OpKind::wait) continue;
    const std::int32_t peer = moved(op.peer, op, d, program.ranks);
    const std::int64_t threshold = op.operand + static_cast<std::int64_t>(op.src.step[0]) * d.iteration[0] +
                                   static_cast<std::int64_t>(op.src.step[1]) * d.iteration[1] +
                                   static_cast<std::int64_t>(d.piece) * program.event_quota[op.event];
    const std::vector<std::size_t>& from = signals[{peer < 0 ? d.rank : peer, d.rank, op.event}];
    bool is_one_strand = true;
    for (std::size_t s : from) is_one_strand = is_one_strand && entries_[s].done.strand == entries_[from.front()].done.strand;
    if (threshold <= 0 || from.size() < static_cast<std::size_t>(threshold)) continue;
    if (is_one_strand)
      entries_[e].after.push_back(from[static_cast<std::size_t>(threshold) - 1]);
    else if (from.size() == static_cast<std::size_t>(threshold))
      entries_[e].after.insert(entries_[e].after.end(), from.begin(), from.end());
  }
}

std::string PartialOrder::text_of(std::size_t entry) const {
  const Done& d = entries_[entry].done;
  const Program& program = programs_[static_cast<std::size_t>(d.rank)];
  return fmt::format("rank {} strand {} op {} \"{}\" (iteration {}, {}; piece {})", d.rank, d.strand, d.op,
                     schedule::to_text(program.ops[d.op], program.sources), d.iteration[0], d.iteration[1], d.piece);
}

std::string PartialOrder::check(const std::vector<Done>& log, std::int32_t only_rank) const {
  std::vector<std::size_t> place(entries_.size(), kNone);
  for (std::size_t i = 0; i < log.size(); ++i) {
    const auto it = entry_of_.find(key_of(log[i]));
    if (it == entry_of_.end())
      return fmt::format("an op that the program does not have: rank {} strand {} op {}", log[i].rank, log[i].strand, log[i].op);
    if (place[it->second] != kNone) return "twice: " + text_of(it->second);
    place[it->second] = i;
  }
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    if (only_rank >= 0 && entries_[e].done.rank != only_rank) continue;
    if (place[e] == kNone) return "never: " + text_of(e);
    for (std::size_t before : entries_[e].after) {
      if (only_rank >= 0 && entries_[before].done.rank != only_rank) continue;
      if (place[before] == kNone || place[before] > place[e]) return text_of(e) + " ended before " + text_of(before);
    }
  }
  return {};
}

std::string PartialOrder::check_global(const std::vector<Done>& log) const { return check(log, -1); }
std::string PartialOrder::check_rank(std::int32_t rank, const std::vector<Done>& log) const { return check(log, rank); }

}  // namespace peal::agreement
