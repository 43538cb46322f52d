// How the reference interpreter unrolls a plan, what the collective promises, and which steps meet others.
#include "reference_interpreter.hpp"

#include <algorithm>
#include <base/names.hpp>

#include "reference_numbers.hpp"

namespace peal::agreement {

using schedule::kFinish;
using schedule::kInput;
using schedule::kOutput;
using schedule::kScratch;
using schedule::Op;
using schedule::OpKind;
using schedule::Program;
using schedule::Ref;

namespace {

bool takes(OpKind k) { return k == OpKind::recv || k == OpKind::recv_reduce || k == OpKind::recv_send || k == OpKind::recv_reduce_send; }
bool gives(OpKind k) { return k == OpKind::send || k == OpKind::recv_send || k == OpKind::recv_reduce_send; }
bool is_any_scratch(std::uint16_t buffer) { return buffer == kScratch || buffer == schedule::kWideScratch; }
bool is_sum(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::reduce_scatter || c == Collective::reduce_scatter_v;
}

}  // namespace

ReferenceInterpreter::ReferenceInterpreter(const schedule::Request& request, const schedule::Layouts& layouts,
                                           const std::vector<Program>& programs, Rules rules)
    : request_(request), layouts_(layouts), rules_(rules), sums_(is_sum(request.collective)) {
  const std::int32_t scratch = layouts.scratch_copies * (layouts.scratch_is_compact ? layouts.scratch_width : layouts.shape().chunks());
  const std::int32_t wide = request.wide_partials ? layouts.output.chunks() + scratch : 0;
  per_rank_ = (layouts.input.chunks() + layouts.output.chunks() + scratch + wide) * rules.pieces;
  for (std::int32_t r = 0; r < request.ranks; ++r) factor_.push_back(mix(77, static_cast<std::uint64_t>(r)) | 1);
  divisor_ = mix(99) | 1;
  offset_ = mix(98);
  watches_entry_ = request.collective == Collective::barrier;
  for (const Program& program : programs) unroll(program);
  fill();
  find_meetings();
}

// ---- unrolling -------------------------------------------------------------------------------------------------------------------

void ReferenceInterpreter::unroll(const Program& program) {
  for (std::size_t s = 0; s + 1 < program.strand_begin.size(); ++s) {
    Strand strand;
    strand.rank = program.rank;
    for (std::int32_t piece = 0; piece < rules_.pieces; ++piece)
      unroll_range(program, program.strand_begin[s], program.strand_begin[s + 1], 0, 0, 0, piece, strand);
    strands_.push_back(std::move(strand));
  }
}

void ReferenceInterpreter::unroll_range(const Program& program, std::uint32_t begin, std::uint32_t end, std::int32_t outer,
                                        std::int32_t inner, int depth, std::int32_t piece, Strand& strand) {
  for (std::uint32_t at = begin; at < end && malformed_.empty(); ++at) {
    const Op& op = program.ops[at];
    if (op.kind != OpKind::loop) {
      add_step(program, op, outer, inner, piece, strand);
      continue;
    }
    const std::uint32_t close = at + op.more;
    if (close >= end || program.ops[close].kind != OpKind::end_loop || depth == 2) {
      malformed_ = "a loop is malformed";
      return;
    }
    // The innermost index is `inner`; entering a second loop makes the first the outer one.
    for (std::int32_t i = 0; i < op.operand; ++i) unroll_range(program, at + 1, close, depth == 0 ? 0 : inner, i, depth + 1, piece, strand);
    at = close;
  }
}

std::uint64_t ReferenceInterpreter::length_of(std::int32_t rank, std::uint16_t buffer, std::int32_t index) const {
  if (layouts_.uniform) return 0;
  const bool like_input = buffer == kInput || (is_any_scratch(buffer) && layouts_.scratch_like_input);
  const schedule::Layout& layout = like_input ? layouts_.input : layouts_.output;
  const std::int32_t chunk = index % layout.chunks();
  const std::int32_t block = chunk / layout.chunks_per_block;
  const std::int32_t part = chunk % layout.chunks_per_block;
  std::uint64_t signature = 1;
  for (std::uint64_t trial = 0; trial < 8; ++trial) {
    std::uint64_t size = 0;
    const Collective c = request_.collective;
    if (c == Collective::all_to_all_v) {
      const auto from = static_cast<std::uint64_t>(like_input ? rank : block);
      const auto to = static_cast<std::uint64_t>(like_input ? block : rank);
      size = mix(trial * 1000 + from, to) % 1000;
    } else if (varies(c)) {
      size = mix(trial, static_cast<std::uint64_t>(layout.blocks == 1 ? rank : block)) % 1000;
    }
    if (size != 0 || varies(c)) {
      signature = mix(signature, schedule::even_part(size, layout.chunks_per_block, part).count);
      continue;
    }
    const auto parts = static_cast<std::uint64_t>(
        std::max(1, layout.partition == schedule::Partition::blocks ? layout.chunks_per_block : layout.chunks()));
    for (std::uint64_t extra = trial; extra < parts; extra += 8)
      signature = mix(signature, schedule::ExtentTable(layout, parts * 2 + extra).chunk(chunk).count);
  }
  return signature;
}

ReferenceInterpreter::Operand ReferenceInterpreter::operand(std::int32_t rank, const Op& op, const Ref& ref, std::int32_t outer,
                                                            std::int32_t inner, std::int32_t i, std::int32_t piece) {
  std::int64_t index = ref.first + static_cast<std::int64_t>(ref.step[0]) * inner + static_cast<std::int64_t>(ref.step[1]) * outer;
  if (op.modulus > 0) {
    const std::int64_t base = ref.first - ref.first % op.modulus;
    index = (index - base) % op.modulus;
    if (index < 0) index += op.modulus;
    index += base;
  }
  index += i;
  const std::int32_t in = layouts_.input.chunks();
  const std::int32_t out = layouts_.output.chunks();
  const std::int32_t shape = layouts_.shape().chunks();
  const bool exists = !schedule::is_wide(ref.buffer) || request_.wide_partials;
  const std::int64_t limit = !exists                                                        ? 0
                             : ref.buffer == kInput                                         ? in
                             : ref.buffer == kOutput || ref.buffer == schedule::kWideOutput ? out
                             : is_any_scratch(ref.buffer)                                   ? layouts_.scratch_copies * shape
                                                                                            : 0;
  if (index < 0 || index >= limit) {
    malformed_ = "a chunk lies outside its buffer";
    return {};
  }
  Operand at;
  at.length = length_of(rank, ref.buffer, static_cast<std::int32_t>(index));
  at.holder = ref.buffer == kInput && sums_ ? rank : -1;
  Ref place;
  place.buffer = ref.buffer;
  place.first = static_cast<std::int32_t>(index);
  if (is_any_scratch(ref.buffer)) {
    if (layouts_.scratch_is_compact)
      place.first = place.first / shape * layouts_.scratch_width + place.first % shape % layouts_.scratch_width;
  } else {
    place = schedule::alias_of(request_, layouts_, rank, place);
  }
  const std::int32_t scratch = layouts_.scratch_copies * (layouts_.scratch_is_compact ? layouts_.scratch_width : shape);
  const std::int32_t starts[] = {0, in, in + out, in + out + scratch, in + out + scratch + out};
  const std::int32_t start = starts[place.buffer];
  at.cell = rank * per_rank_ + (start + place.first) * rules_.pieces + piece;
  return at;
}

std::int32_t ReferenceInterpreter::channel_number(std::int32_t from, std::int32_t to, std::uint8_t number) {
  if (from == to || from < 0 || to < 0 || from >= request_.ranks || to >= request_.ranks) {
    malformed_ = "a peer does not exist";
    return -1;
  }
  const std::uint64_t key = (static_cast<std::uint64_t>(from) * 100'000 + static_cast<std::uint64_t>(to)) * 256 + number;
  const auto at = std::find(channel_keys_.begin(), channel_keys_.end(), key);
  if (at == channel_keys_.end()) channel_keys_.push_back(key);
  return static_cast<std::int32_t>(std::find(channel_keys_.begin(), channel_keys_.end(), key) - channel_keys_.begin());
}

std::int32_t ReferenceInterpreter::event_number(std::int32_t rank, std::int32_t from, std::uint16_t event) {
  const std::uint64_t key = (static_cast<std::uint64_t>(rank) * 100'000 + static_cast<std::uint64_t>(from + 1)) * 65536 + event;
  const auto at = std::find(event_keys_.begin(), event_keys_.end(), key);
  if (at == event_keys_.end()) event_keys_.push_back(key);
  return static_cast<std::int32_t>(std::find(event_keys_.begin(), event_keys_.end(), key) - event_keys_.begin());
}

void ReferenceInterpreter::add_step(const Program& program, const Op& op, std::int32_t outer, std::int32_t inner, std::int32_t piece,
                                    Strand& strand) {
  const std::int32_t n = request_.ranks;
  const auto moved = [&](std::int32_t peer) {
    if (peer < 0) return peer;
    const std::int64_t to = (peer + static_cast<std::int64_t>(op.peer_step) * inner) % n;
    return static_cast<std::int32_t>(to < 0 ? to + n : to);
  };
  const std::int32_t peer = moved(op.peer);
  const std::int32_t peer2 = moved(op.peer2);
  Step step;
  step.piece = piece;
  step.wire = static_cast<std::uint8_t>(op.wire);
  step.sent_wire = static_cast<std::uint8_t>(schedule::sent_wire(op));
  step.adds = op.kind == OpKind::recv_reduce || op.kind == OpKind::recv_reduce_send;
  step.forwards = takes(op.kind) && gives(op.kind);
  step.stores = op.kind == OpKind::recv || op.kind == OpKind::recv_reduce || (step.forwards && (op.flags & schedule::kStore) != 0);
  step.finishes = (op.flags & kFinish) != 0 && sums_;
  step.operands = static_cast<std::uint32_t>(operands_.size());
  if (takes(op.kind)) step.in = channel_number(peer, strand.rank, op.channel);
  if (gives(op.kind)) step.out = channel_number(strand.rank, step.forwards ? peer2 : peer, op.channel);
  if (op.kind == OpKind::signal || op.kind == OpKind::wait) {
    step.kind = op.kind == OpKind::signal ? Kind::signal : Kind::wait;
    const bool is_remote_signal = op.kind == OpKind::signal && op.peer >= 0;
    step.event =
        is_remote_signal ? event_number(peer, strand.rank, op.event) : event_number(strand.rank, op.peer < 0 ? -1 : peer, op.event);
    if (op.kind == OpKind::wait) {
      if (op.event >= program.event_quota.size()) {
        malformed_ = "an event does not exist";
        return;
      }
      step.threshold = op.operand + static_cast<std::int64_t>(op.src.step[0]) * inner + static_cast<std::int64_t>(op.src.step[1]) * outer +
                       static_cast<std::int64_t>(program.event_quota[op.event]) * piece;
    }
    strand.steps.push_back(step);
    return;
  }
  const auto add = [&](std::int32_t rank, const Ref& ref, std::uint32_t i) {
    operands_.push_back(operand(rank, op, ref, outer, inner, static_cast<std::int32_t>(i), piece));
  };
  if (op.kind == OpKind::send) {
    step.kind = Kind::send;
    step.chunks = op.src.count;
    for (std::uint32_t i = 0; i < step.chunks; ++i) add(strand.rank, op.src, i);
  } else if (takes(op.kind)) {
    step.kind = Kind::receive;
    const Ref& target = step.adds && !step.stores ? op.src : op.dst;
    step.chunks = target.count;
    step.sources = step.adds ? 1 : 0;
    if (step.adds && step.stores && op.src.count != op.dst.count) malformed_ = "operands differ in number";
    if (step.forwards && !step.stores && !rules_.snapshots) malformed_ = "a result that lies nowhere is read from afar";
    for (std::uint32_t i = 0; i < step.chunks && malformed_.empty(); ++i) {
      add(strand.rank, target, i);
      if (step.adds) add(strand.rank, op.src, i);
    }
  } else if (op.kind == OpKind::copy || op.kind == OpKind::reduce) {
    const bool is_copy = op.kind == OpKind::copy;
    step.kind = is_copy ? Kind::copy : Kind::reduce;
    step.chunks = op.dst.count;
    step.sources = 1 + (is_copy ? 0U : op.more_count);
    const std::int32_t from = is_copy && (op.flags & schedule::kRemoteSrc) != 0 ? peer : strand.rank;
    const std::int32_t to = is_copy && (op.flags & schedule::kRemoteDst) != 0 ? peer : strand.rank;
    if (from < 0 || from >= n || to < 0 || to >= n) malformed_ = "a peer does not exist";
    if (op.src.count != op.dst.count) malformed_ = "operands differ in number";
    step.is_remote = from != strand.rank || to != strand.rank;
    for (std::uint32_t k = 0; !is_copy && k < op.more_count; ++k) {
      const std::int32_t other = program.sources[op.more + k].peer;
      if (other >= n || other == strand.rank) malformed_ = "a peer does not exist";
      step.is_remote = step.is_remote || other >= 0;
    }
    if (is_copy && (op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0 && peer == strand.rank)
      malformed_ = "a peer does not exist";
    watches_entry_ = watches_entry_ || step.is_remote;
    if (!is_copy)
      for (std::uint32_t k = 0; k < op.more_count; ++k)
        if (program.sources[op.more + k].ref.count != op.dst.count) malformed_ = "operands differ in number";
    for (std::uint32_t i = 0; i < step.chunks && malformed_.empty(); ++i) {
      add(to, op.dst, i);
      add(from, op.src, i);
      for (std::uint32_t k = 1; k < step.sources; ++k) {
        const schedule::Source& source = program.sources[op.more + k - 1];
        add(source.peer >= 0 ? source.peer : strand.rank, source.ref, i);
      }
    }
  } else if (op.kind == OpKind::switch_reduce || op.kind == OpKind::switch_multicast) {
    add_switch_step(program, op, step);
    for (std::uint32_t i = 0; i < op.src.count && malformed_.empty(); ++i) add(strand.rank, op.src, i);
    for (std::uint32_t i = 0; i < op.dst.count && malformed_.empty(); ++i) add(strand.rank, op.dst, i);
  } else {
    malformed_ = "an op that cannot be interpreted";
  }
  strand.steps.push_back(step);
}

// ---- what is promised ------------------------------------------------------------------------------------------------------------

void ReferenceInterpreter::fill() {
  const Collective c = request_.collective;
  const std::int32_t n = request_.ranks;
  initial_.resize(static_cast<std::size_t>(per_rank_) * static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < initial_.size(); ++i) initial_[i] = mix(0xdead, i);
  const auto contribution = [&](std::int32_t rank, std::int32_t chunk, std::int32_t piece) {
    return mix(mix(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(chunk)), static_cast<std::uint64_t>(piece) + 500);
  };
  const auto cell = [&](std::int32_t rank, std::uint16_t buffer, std::int32_t chunk, std::int32_t piece) {
    Ref ref;
    ref.buffer = buffer;
    ref.first = chunk;
    ref = schedule::alias_of(request_, layouts_, rank, ref);
    return rank * per_rank_ + ((ref.buffer == kInput ? 0 : layouts_.input.chunks()) + ref.first) * rules_.pieces + piece;
  };
  const bool only_root_gives =
      c == Collective::broadcast || c == Collective::scatter || c == Collective::scatter_v || c == Collective::send_recv;
  const bool only_root_gets = c == Collective::reduce || c == Collective::gather || c == Collective::gather_v;
  for (std::int32_t r = 0; r < n; ++r) {
    const bool gives_input = c != Collective::barrier && (!only_root_gives || r == request_.root);
    if (gives_input)
      for (std::int32_t k = 0; k < layouts_.input.chunks(); ++k)
        for (std::int32_t p = 0; p < rules_.pieces; ++p) initial_[static_cast<std::size_t>(cell(r, kInput, k, p))] = contribution(r, k, p);
  }
  const std::int32_t each = layouts_.output.chunks_per_block;
  const std::int32_t in_each = layouts_.input.chunks_per_block;
  std::vector<std::uint8_t> is_free(initial_.size(), 0);
  for (std::int32_t r = 0; r < n; ++r) {
    const bool gets =
        c != Collective::barrier && (!only_root_gets || r == request_.root) && (c != Collective::send_recv || r == request_.peer);
    for (std::int32_t k = 0; gets && k < layouts_.output.chunks(); ++k) {
      for (std::int32_t p = 0; p < rules_.pieces; ++p) {
        std::uint64_t value = 0;
        const bool scattered = c == Collective::reduce_scatter || c == Collective::reduce_scatter_v;
        if (sums_) {
          for (std::int32_t q = 0; q < n; ++q)
            value += contribution(q, scattered ? r * in_each + k : k, p) * factor_[static_cast<std::size_t>(q)];
          if (n > 1) value = finish(value);
        } else if (c == Collective::all_gather || c == Collective::all_gather_v || c == Collective::gather || c == Collective::gather_v) {
          value = contribution(k / each, k % each, p);
        } else if (c == Collective::all_to_all || c == Collective::all_to_all_v) {
          value = contribution(k / each, r * in_each + k % each, p);
        } else if (c == Collective::scatter || c == Collective::scatter_v) {
          value = contribution(request_.root, r * in_each + k, p);
        } else {
          value = contribution(request_.root, k, p);
        }
        const std::int32_t at = cell(r, kOutput, k, p);
        is_free[static_cast<std::size_t>(at)] = 1;
        outputs_.push_back({at, value});
      }
    }
  }
  if (request_.in_place && sums_) return;
  for (std::int32_t r = 0; r < n; ++r) {
    const std::int32_t caller = (layouts_.input.chunks() + layouts_.output.chunks()) * rules_.pieces;
    for (std::int32_t k = 0; k < caller; ++k) {
      const std::int32_t at = r * per_rank_ + k;
      if (is_free[static_cast<std::size_t>(at)] == 0) untouched_.push_back({at, initial_[static_cast<std::size_t>(at)]});
    }
  }
}

// Which steps depend on the order of strands beyond channels and events: those that touch memory or channels that several strands use.
void ReferenceInterpreter::find_meetings() {
  if (!malformed_.empty()) return;
  struct Use {
    std::int32_t strand = -1;
    bool by_many = false;
    bool is_written = false;
    void add(std::int32_t s) {
      if (strand >= 0 && strand != s) by_many = true;
      strand = s;
    }
  };
  std::vector<Use> cells(initial_.size());
  std::vector<Use> writers(channel_keys_.size());
  std::vector<Use> readers(channel_keys_.size());
  const auto per_chunk = [](const Step& step) { return step.kind == Kind::send ? 1 : 1 + step.sources; };
  for (std::size_t s = 0; s < strands_.size(); ++s) {
    for (const Step& step : strands_[s].steps) {
      const auto id = static_cast<std::int32_t>(s);
      if (step.in >= 0) readers[static_cast<std::size_t>(step.in)].add(id);
      if (step.out >= 0) writers[static_cast<std::size_t>(step.out)].add(id);
    }
  }
  for (std::size_t s = 0; s < strands_.size(); ++s) {
    for (const Step& step : strands_[s].steps) {
      for (std::uint32_t k = 0; k < step.chunks * per_chunk(step); ++k) {
        Use& use = cells[static_cast<std::size_t>(operands_[step.operands + k].cell)];
        use.add(static_cast<std::int32_t>(s));
        const bool is_target = step.kind != Kind::send && k % per_chunk(step) == 0;
        if (is_target && (step.kind != Kind::receive || step.stores)) use.is_written = true;
        if (!rules_.snapshots && step.out >= 0) use.add(readers[static_cast<std::size_t>(step.out)].strand);
      }
    }
  }
  const auto conflicts = [&](const Step& step) {
    for (std::uint32_t k = 0; k < step.chunks * per_chunk(step); ++k) {
      const Use& use = cells[static_cast<std::size_t>(operands_[step.operands + k].cell)];
      if (use.by_many && use.is_written) return true;
    }
    return false;
  };
  std::vector<std::uint8_t> carries_conflict(channel_keys_.size(), 0);
  for (Strand& strand : strands_)
    for (Step& step : strand.steps) {
      step.meets = conflicts(step);
      if (step.meets && step.out >= 0) carries_conflict[static_cast<std::size_t>(step.out)] = 1;
    }
  for (Strand& strand : strands_)
    for (Step& step : strand.steps) {
      if (watches_entry_) step.meets = true;
      if (step.in >= 0 && (readers[static_cast<std::size_t>(step.in)].by_many || writers[static_cast<std::size_t>(step.in)].by_many))
        step.meets = true;
      if (step.out >= 0 && (readers[static_cast<std::size_t>(step.out)].by_many || writers[static_cast<std::size_t>(step.out)].by_many))
        step.meets = true;
      if (!rules_.snapshots && step.in >= 0 && carries_conflict[static_cast<std::size_t>(step.in)] != 0) step.meets = true;
    }
}

}  // namespace peal::agreement
