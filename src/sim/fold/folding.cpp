#include "folding.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "program_shape.hpp"

namespace peal::sim {

namespace {

/// Where everybody talks to everybody, colours are refined for as many channels; beyond, that takes longer than the simulation.
constexpr std::size_t kMostChannelsOfARank = 64;
constexpr std::size_t kMostChannels = 200'000;
/// Channels that some ranks name may be that many times as many as there are, before it is not worth while to count them.
constexpr double kFarTooMany = 4;
/// Messages that one core simulates in a few minutes.
constexpr double kMostMessages = 4e8;
/// And in some ten seconds; where more ranks than are always simulated exactly send more of them, chunks are taken as equally long if that
/// lets ranks fold.
constexpr double kQuickMessages = 1e7;
constexpr std::int32_t kExactRanks = 4096;
/// That are simulated before pieces can repeat themselves.
constexpr std::int32_t kLeastPieces = 4;

/// Of which nothing single is asked, and in which nothing happens to single ranks.
bool may_fold(std::span<const Job> jobs, const InterpretOptions& o) {
  return o.folds && jobs.size() == 1 && jobs.front().start == 0 && !o.keeps_trace && !o.keeps_log && !o.keeps_path && !o.failure &&
         o.late_ranks.empty() && o.jitter.share <= 0;
}

bool has_switched_ops(const tuning::Plan& plan) {
  const std::vector<schedule::Op> ops = schedule::program_for(plan.schedule, 0).ops;
  return std::any_of(ops.begin(), ops.end(), [](const schedule::Op& op) { return schedule::is_switched(op.kind); });
}

void find_folding(const Unfolded& whole, Fold& fold) {
  fold.folding = fold_by_machine(whole);
  if (fold.folding) return;
  const std::size_t most = std::max(kMostChannels, kMostChannelsOfARank * static_cast<std::size_t>(whole.environment.ranks));
  if (named_channels(whole.plan) > kFarTooMany * static_cast<double>(most)) return;
  ByPartsOrNot by_parts = fold_by_parts(whole, most);
  fold.folding = std::move(by_parts.folding);
  if (!fold.folding && !by_parts.is_hopeless) fold.folding = fold_by_colours(whole, most);
}

/// Where ways are not those that colours are refined over, or who stands behind whom counts.
bool needs_order(const Job& job, const InterpretOptions& options) {
  return options.congestion.control != FlowControl::fair || options.is_staged || job.environment->level[1].scope == "tcp";
}

/// No class of resources is crossed twice on one way, as both ends' memory would be.
bool ways_keep_their_order(const topology::Resources& resources) {
  const topology::Graph& machine = resources.cluster().machine();
  return std::none_of(machine.links().begin(), machine.links().end(), [](const topology::Link& link) { return link.is_shared; }) &&
         std::none_of(machine.devices().begin(), machine.devices().end(), [](const topology::Device& d) { return d.capacity.value > 0; });
}

/// The sum over all ranks of what `of` says of a program's op and the loops around it, as far as some ranks tell: the product of their
/// turns, and the turns of the innermost.
template <class F>
double sum_over_sends(const tuning::Plan& plan, F&& of) {
  constexpr std::int32_t kLookedAt = 16;
  const std::int32_t n = plan.schedule.request.ranks;
  double sum = 0;
  std::int32_t looked_at = 0;
  for (std::int32_t r = 0; r < n; r += std::max(1, n / kLookedAt), ++looked_at) {
    std::vector<double> turns{1};
    for (const schedule::Op& op : schedule::program_for(plan.schedule, r).ops) {
      if (op.kind == schedule::OpKind::loop) turns.push_back(op.operand);
      if (op.kind == schedule::OpKind::end_loop) turns.pop_back();
      if (schedule::sends(op.kind)) sum += of(op, std::accumulate(turns.begin(), turns.end(), 1.0, std::multiplies<>()), turns.back());
    }
  }
  return sum / looked_at * n;
}

double messages_of(const tuning::Plan& plan, std::int32_t most_pieces = std::numeric_limits<std::int32_t>::max()) {
  return std::min(plan.pieces.count, most_pieces) *
         sum_over_sends(plan, [](const schedule::Op&, double all_turns, double) { return all_turns; });
}

}  // namespace

// Peers advance in the innermost loop alone.
double named_channels(const tuning::Plan& plan) {
  return sum_over_sends(plan, [](const schedule::Op& op, double, double innermost) { return op.peer_step != 0 ? innermost : 1; });
}

void Folding::set_classes(std::vector<std::int32_t> class_of) {
  class_of_ = std::move(class_of);
  for (std::size_t r = 0; r < class_of_.size(); ++r)
    if (class_of_[r] == classes()) representatives_.push_back(static_cast<std::int32_t>(r));
  members_.assign(representatives_.size(), 0);
  for (const std::int32_t c : class_of_) ++members_[static_cast<std::size_t>(c)];
}

std::vector<std::uint32_t> Folding::twins(const schedule::Program& program, const MessageSizes& sizes) const {
  const std::vector<std::uint32_t> alike = first_alike(program, shapes_of(program, sizes));
  const auto name_of = [&](std::size_t strand) {
    const NamedChannel c = *only_channel(program, strand);
    return channel(c.from, c.to, c.number).name;
  };
  std::vector<std::uint32_t> first = alike;
  for (std::uint32_t s = 0; s < first.size(); ++s)
    while (first[s] < s && !(alike[first[s]] == alike[s] && name_of(first[s]) == name_of(s))) ++first[s];
  return first;
}

Fold fold_of(std::span<const Job> jobs, const topology::Resources& resources, const InterpretOptions& options) {
  Fold fold;
  const Job& job = jobs.front();
  if (job.environment->is_host) return fold;
  const bool is_switched = std::any_of(jobs.begin(), jobs.end(), [](const Job& each) { return has_switched_ops(*each.plan); });
  const bool is_ordered = needs_order(job, options);
  if (!is_ordered) fold.implied = ImpliedWires(jobs, resources, options.perturbation, is_switched);
  fold.repeats = may_fold(jobs, options);
  // Who meets at a switch is not part of what makes two ranks the same.
  if (!fold.repeats || is_switched) return fold;
  const MessageSizes sizes(*job.plan);
  const auto whole = [&](const MessageSizes& as) {
    return Unfolded{*job.plan, resources, job.device_of_rank, *job.environment, job.wires, options.perturbation, as, fold.implied};
  };
  if (is_ordered) {
    if (ways_keep_their_order(resources)) fold.folding = fold_by_machine(whole(sizes));
    return fold;
  }
  find_folding(whole(sizes), fold);
  const double messages = messages_of(*job.plan);
  const bool is_quick = messages < (job.environment->ranks > kExactRanks ? kQuickMessages : kMostMessages);
  if (fold.folding || is_quick) return fold;
  const MessageSizes equal(*job.plan, true);
  if (!sizes.are_equal()) find_folding(whole(equal), fold);
  fold.takes_chunks_as_equal = fold.folding != nullptr;
  if (!fold.folding && messages >= kMostMessages) fold.messages = messages_of(*job.plan, kLeastPieces);
  return fold;
}

}  // namespace peal::sim
