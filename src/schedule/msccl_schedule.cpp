// From thread blocks to strands. A step becomes: wait for what it depends on, do it, signal whoever waits for it.
#include <algorithm>
#include <deque>
#include <memory>
#include <unordered_map>

#include "msccl_steps.hpp"
#include "verify_memory.hpp"
#include "verify_values.hpp"

namespace peal::schedule {

namespace {

constexpr std::int64_t kMostCells = 1 << 21;

// Follows the contributions of every rank through the plan, with slots without end, to learn which reads are raw inputs and where sums
// are complete. What goes wrong here is left to the verifier.
class Replay {
 public:
  Replay(MscclFile& file, bool in_place, const Layouts& layouts)
      : file_(file), in_place_(in_place), layouts_(layouts), trees_(static_cast<std::int32_t>(file.gpus.size())) {
    for (const MscclGpu& gpu : file.gpus) scratch_ = std::max(scratch_, gpu.scratch_chunks);
    per_gpu_ = static_cast<std::size_t>(layouts.input.chunks() + layouts.output.chunks() + scratch_);
    cells_.assign(per_gpu_ * file.gpus.size(), kUndefined);
    for (std::size_t g = 0; g < file.gpus.size(); ++g) {
      for (std::int32_t c = 0; c < layouts.input.chunks(); ++c) cell(g, 'i', c) = trees_.raw(static_cast<std::int32_t>(g));
      done_.emplace_back(file.gpus[g].blocks.size(), 0U);
    }
  }

  void run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t g = 0; g < file_.gpus.size(); ++g)
        for (std::size_t b = 0; b < file_.gpus[g].blocks.size(); ++b)
          while (try_step(g, b)) has_moved = true;
    }
  }

 private:
  using Values = std::vector<TreeId>;

  TreeId& cell(std::size_t g, char buffer, std::int32_t index) {
    if (in_place_ && buffer == 'o' && is_reduction(file_.collective)) {
      buffer = 'i';
      if (file_.collective == Collective::reduce_scatter) index += static_cast<std::int32_t>(g) * layouts_.output.chunks();
    }
    const std::int32_t start = buffer == 'i'   ? 0
                               : buffer == 'o' ? layouts_.input.chunks()
                                               : layouts_.input.chunks() + layouts_.output.chunks();
    return cells_[std::min(g * per_gpu_ + static_cast<std::size_t>(start + index), cells_.size() - 1)];
  }
  std::deque<Values>& channel(std::size_t from, std::size_t to, std::int32_t number) {
    return channels_[static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to) << 16 | static_cast<std::uint64_t>(number)];
  }
  TreeId scaled(TreeId tree) const { return tree < kPoison && trees_.is_raw(tree) ? trees_.scaled(static_cast<std::int32_t>(tree)) : tree; }
  TreeId sum(TreeId a, TreeId b) {
    a = scaled(a), b = scaled(b);
    if (a >= kPoison || b >= kPoison || trees_.overlap(a, b)) return kPoison;
    return trees_.sum(a, b);
  }
  bool is_raw(TreeId tree) const { return tree < kPoison && trees_.is_raw(tree); }

  bool try_step(std::size_t g, std::size_t b) {
    MscclBlock& block = file_.gpus[g].blocks[b];
    std::uint32_t& at = done_[g][b];
    if (at >= block.steps.size()) return false;
    MscclStep& step = block.steps[at];
    if (step.after_block >= 0 && done_[g][static_cast<std::size_t>(step.after_block)] <= static_cast<std::uint32_t>(step.after_step))
      return false;
    Values values(static_cast<std::size_t>(step.count), kPoison);
    if (receives(step.type)) {
      auto& queue = channel(static_cast<std::size_t>(block.recv), g, block.channel);
      if (queue.empty()) return false;
      values = std::move(queue.front());
      queue.pop_front();
      values.resize(static_cast<std::size_t>(step.count), kPoison);
    }
    for (std::int32_t i = 0; i < step.count; ++i) apply(g, step, i, values[static_cast<std::size_t>(i)]);
    if (sends(step.type)) channel(g, static_cast<std::size_t>(block.send), block.channel).push_back(std::move(values));
    ++at;
    return true;
  }

  void apply(std::size_t g, MscclStep& step, std::int32_t i, TreeId& value) {
    const TreeId source = reads_source(step.type) ? cell(g, step.source, step.source_at + i) : kPoison;
    if (i == 0) step.source_is_raw = is_raw(source);
    if (adds(step.type))
      value = sum(source, value);
    else if (step.type == MscclType::send || step.type == MscclType::copy)
      value = scaled(source);
    if (step.type == MscclType::reduce) {
      const TreeId old = cell(g, step.target, step.target_at + i);
      if (i == 0) step.target_is_raw = is_raw(old);
      value = sum(old, source);
    }
    if (i == 0) step.completes = value < kPoison && (adds(step.type) || step.type == MscclType::reduce) && trees_.is_complete(value);
    if (writes_target(step.type)) cell(g, step.target, step.target_at + i) = value;
  }

  MscclFile& file_;
  bool in_place_;
  const Layouts& layouts_;
  Trees trees_;
  std::int32_t scratch_ = 0;
  std::size_t per_gpu_ = 0;
  std::vector<TreeId> cells_;
  std::vector<std::vector<std::uint32_t>> done_;
  std::unordered_map<std::uint64_t, std::deque<Values>> channels_;
};

Result<Layouts> layouts_of(const MscclFile& file, const Request& request) {
  std::int32_t in = 0;
  std::int32_t out = 0;
  std::int32_t scratch = 0;
  for (const MscclGpu& gpu : file.gpus) {
    in = std::max(in, gpu.input_chunks);
    out = std::max(out, gpu.output_chunks);
    scratch = std::max(scratch, gpu.scratch_chunks);
  }
  const std::int32_t n = request.ranks;
  const std::int32_t whole = std::max(in, out);
  const auto does_not_divide = [&](const char* what, std::int32_t chunks) {
    return fail(ErrorCode::corrupt, "{}: {} {} chunks cannot be shared among {} ranks; correct i_chunks, o_chunks or ngpus", file.origin,
                chunks, what, n);
  };
  Layouts layouts;
  layouts.uniform = true;
  switch (request.collective) {
    case Collective::all_gather:
    case Collective::gather: {
      const std::int32_t chunks = out > 0 ? out : in * n;
      if (chunks % n != 0 || chunks == 0) return does_not_divide("output", chunks);
      layouts.input = {Partition::blocks, 1, chunks / n};
      layouts.output = {Partition::blocks, n, chunks / n};
      layouts.scratch_like_input = false;
      break;
    }
    case Collective::reduce_scatter:
    case Collective::scatter: {
      const std::int32_t chunks = in > 0 ? in : out * n;
      if (chunks % n != 0 || chunks == 0) return does_not_divide("input", chunks);
      layouts.input = {Partition::blocks, n, chunks / n};
      layouts.output = {Partition::blocks, 1, chunks / n};
      break;
    }
    case Collective::all_to_all:
      if (whole % n != 0 || whole == 0) return does_not_divide("input", whole);
      layouts.input = {Partition::blocks, n, whole / n};
      layouts.output = layouts.input;
      break;
    default:
      if (whole == 0) return fail(ErrorCode::corrupt, "{}: neither input nor output has chunks; correct i_chunks or o_chunks", file.origin);
      layouts.input = {Partition::even, 1, whole};
      layouts.output = layouts.input;
      break;
  }
  // Partial sums that MSCCL keeps in the input of a reduce_scatter in place lie behind its scratch.
  if (request.in_place && request.collective == Collective::reduce_scatter) scratch += layouts.input.chunks();
  layouts.scratch_copies = (scratch + layouts.shape().chunks() - 1) / layouts.shape().chunks();
  const std::int64_t cells = (static_cast<std::int64_t>(layouts.input.chunks()) + layouts.output.chunks() + scratch) * n;
  if (cells > kMostCells)
    return fail(ErrorCode::unsupported, "{}: the plan has {} chunks over all ranks, more than {}; import a smaller one", file.origin, cells,
                kMostCells);
  return layouts;
}

// Writes one GPU's strands.
class Writer {
 public:
  Writer(const MscclFile& file, const Request& request, const Layouts& layouts, std::int32_t rank)
      : request_(request), layouts_(layouts), rank_(rank), gpu_(file.gpus[static_cast<std::size_t>(rank)]) {
    for (const MscclGpu& gpu : file.gpus) scratch_ = std::max(scratch_, gpu.scratch_chunks);
  }

  RankSchedule write() {
    find_signals();
    for (std::size_t b = 0; b < gpu_.blocks.size(); ++b) {
      Strand strand;
      strand.name = fmt::format("tb {}", b);
      for (std::size_t s = 0; s < gpu_.blocks[b].steps.size(); ++s) write_step(b, s, strand.ops);
      out_.strands.push_back(std::move(strand));
    }
    return std::move(out_);
  }

 private:
  // A step's end becomes known with the first step from it on that announces (hasdep).
  std::size_t announcing(std::size_t block, std::size_t step) const {
    const auto& steps = gpu_.blocks[block].steps;
    while (step < steps.size() && !steps[step].announces) ++step;
    return step;
  }

  void find_signals() {
    for (const MscclBlock& block : gpu_.blocks) signals_.emplace_back(block.steps.size(), 0);
    for (const MscclBlock& block : gpu_.blocks)
      for (const MscclStep& step : block.steps) {
        if (step.after_block < 0) continue;
        auto& of_block = signals_[static_cast<std::size_t>(step.after_block)];
        const std::size_t at = announcing(static_cast<std::size_t>(step.after_block), static_cast<std::size_t>(step.after_step));
        if (at < of_block.size()) of_block[at] = 1;
      }
    // From marks to counts: the signals that have come when the step is done.
    for (auto& of_block : signals_) {
      std::int32_t count = 0;
      for (std::int32_t& mark : of_block) mark = mark != 0 ? ++count : 0;
      most_.push_back(count);
    }
  }

  Ref name(char buffer, std::int32_t at, std::int32_t count, bool is_read, bool is_raw) const {
    Ref ref;
    ref.count = static_cast<std::uint16_t>(count);
    ref.first = at;
    ref.buffer = buffer == 'i' ? kInput : buffer == 'o' ? kOutput : kScratch;
    if (!request_.in_place || ref.buffer == kScratch || !is_reduction(request_.collective)) return ref;
    if (is_read && is_raw) {
      ref.buffer = kInput;
      return ref;
    }
    if (request_.collective != Collective::reduce_scatter) {
      ref.buffer = kOutput;
      return ref;
    }
    if (ref.buffer == kOutput) return ref;
    const std::int32_t each = layouts_.output.chunks();
    if (at / each == rank_) {
      ref.buffer = kOutput;
      ref.first = at % each;
    } else {
      ref.buffer = kScratch;
      ref.first = scratch_ + at;
    }
    return ref;
  }

  void write_step(std::size_t b, std::size_t s, std::vector<Op>& ops) {
    const MscclBlock& block = gpu_.blocks[b];
    const MscclStep& step = block.steps[s];
    const bool is_past = static_cast<std::size_t>(step.after_block) == b && static_cast<std::size_t>(step.after_step) < s;
    if (step.after_block >= 0 && !is_past) {
      const auto on = static_cast<std::size_t>(step.after_block);
      const std::size_t at = announcing(on, static_cast<std::size_t>(step.after_step));
      Op wait;
      wait.kind = OpKind::wait;
      wait.event = static_cast<std::uint16_t>(on);
      // Nobody announces it: a wait for one signal more than ever comes.
      wait.operand = at < block_steps(on) ? signals_[on][at] : most_[on] + 1;
      ops.push_back(wait);
    }
    if (step.type != MscclType::nop) ops.push_back(op_of(block, step));
    if (signals_[b][s] != 0) {
      Op signal;
      signal.kind = OpKind::signal;
      signal.event = static_cast<std::uint16_t>(b);
      ops.push_back(signal);
    }
  }
  std::size_t block_steps(std::size_t block) const { return gpu_.blocks[block].steps.size(); }

  Op op_of(const MscclBlock& block, const MscclStep& step) {
    Op op;
    op.channel = static_cast<std::uint8_t>(block.channel);
    op.peer = receives(step.type) ? block.recv : sends(step.type) ? block.send : -1;
    if (reads_source(step.type)) op.src = name(step.source, step.source_at, step.count, true, step.source_is_raw);
    if (writes_target(step.type)) op.dst = name(step.target, step.target_at, step.count, false, false);
    if (step.completes && is_reduction(request_.collective)) op.flags |= kFinish;
    switch (step.type) {
      case MscclType::send: op.kind = OpKind::send; break;
      case MscclType::recv: op.kind = OpKind::recv; break;
      case MscclType::recv_reduce_copy: op.kind = OpKind::recv_reduce; break;
      case MscclType::recv_copy_send:
        op.kind = OpKind::recv_send;
        op.peer2 = block.send;
        op.flags |= kStore;
        break;
      case MscclType::recv_reduce_copy_send:
      case MscclType::recv_reduce_send:
        op.kind = OpKind::recv_reduce_send;
        op.peer2 = block.send;
        if (step.type == MscclType::recv_reduce_copy_send)
          op.flags |= kStore;
        else
          op.dst = op.src;  // as long as it, not written
        break;
      case MscclType::copy: op.kind = OpKind::copy; break;
      case MscclType::reduce: {
        op.kind = OpKind::reduce;
        op.more = static_cast<std::uint32_t>(out_.sources.size());
        op.more_count = 1;
        out_.sources.push_back({op.src, -1});
        op.src = name(step.target, step.target_at, step.count, true, step.target_is_raw);
        break;
      }
      case MscclType::nop: break;
    }
    return op;
  }

  const Request& request_;
  const Layouts& layouts_;
  std::int32_t rank_;
  const MscclGpu& gpu_;
  std::int32_t scratch_ = 0;
  RankSchedule out_;
  std::vector<std::vector<std::int32_t>> signals_;
  std::vector<std::int32_t> most_;
};

}  // namespace

Status translate(MscclFile file, MscclPlan& plan) {
  Schedule& schedule = plan.schedule;
  schedule.name = file.name;
  schedule.request.collective = file.collective;
  schedule.request.ranks = static_cast<std::int32_t>(file.gpus.size());
  schedule.request.root = file.root;
  schedule.request.in_place = plan.in_place && !plan.out_of_place;
  PEAL_ASSIGN(schedule.layouts, layouts_of(file, schedule.request));
  Replay(file, schedule.request.in_place, schedule.layouts).run();
  auto ranks = std::make_shared<std::vector<RankSchedule>>();
  for (std::int32_t r = 0; r < schedule.request.ranks; ++r) ranks->push_back(Writer(file, schedule.request, schedule.layouts, r).write());
  schedule.build = [ranks = std::shared_ptr<const std::vector<RankSchedule>>(std::move(ranks))](std::int32_t rank) {
    return (*ranks)[static_cast<std::size_t>(rank)];
  };
  return {};
}

}  // namespace peal::schedule
