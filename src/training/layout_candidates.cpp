#include "layout_candidates.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace peal::training {

namespace {

/// Of a micro batch: more does not compute faster.
constexpr std::int64_t kMostMicroTokens = 16'384;
constexpr std::int64_t kMostMicroImages = 256;
constexpr std::int64_t kLeastMicroBatches = 4;  // sizes that are tried at least: 1, 2, 4
constexpr int kMostStages = 128;
constexpr int kMostPieces = 8;
constexpr int kMostContext = 32;
/// Below so many tokens a rank, a sequence is not cut: its attention is a small part of a layer.
constexpr std::int64_t kContextTokens = 4096;
constexpr double kUsualTokens = 4.0 * 1024 * 1024;
constexpr double kUsualTokensOfGpu = 1024;
constexpr int kUsualImages = 32;

std::vector<int> divisors(int whole, int most) {
  std::vector<int> found;
  for (int i = 1; i <= most && i <= whole; ++i)
    if (whole % i == 0) found.push_back(i);
  return found;
}

template <class T>
std::vector<T> only(const std::optional<T>& fixed, std::vector<T> free) {
  return fixed ? std::vector<T>{*fixed} : std::move(free);
}

std::vector<int> context_sizes(const Model& model, const LayoutSpace& space) {
  Layout layout;
  layout.seq_len = space.seq_len;
  std::vector<int> sizes = {1};
  for (int cp = 2; cp <= kMostContext && layout.seq_len_of(model) / cp >= kContextTokens; cp *= 2)
    if (space.gpus % cp == 0) sizes.push_back(cp);
  return sizes;
}

std::vector<int> micro_batches(const Model& model, const Layout& cut) {
  std::int64_t most = kMostMicroImages;
  if (model.is_transformer())
    most = std::max(kLeastMicroBatches, kMostMicroTokens * cut.cp / std::max<std::int64_t>(1, cut.seq_len_of(model)));
  std::vector<int> sizes;
  for (int size = 1; size <= most && size <= std::max(1, cut.global_batch / cut.dp); size *= 2) sizes.push_back(size);
  return sizes;
}

/// Pipelines of a number of stages: kind and pieces.
std::vector<std::pair<PipelineKind, int>> pipelines(const Model& model, const LayoutSpace& space, int pp) {
  if (pp == 1) return {{space.pipeline.value_or(PipelineKind::one_f_one_b), space.vpp.value_or(1)}};
  std::vector<std::pair<PipelineKind, int>> kinds;
  if (space.vpp.value_or(1) == 1)
    for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::zero_bubble, PipelineKind::gpipe}) kinds.emplace_back(kind, 1);
  const int most = std::min(kMostPieces, layers_in(model) / pp);
  if (space.vpp.value_or(1) > 1) kinds.emplace_back(PipelineKind::interleaved, *space.vpp);
  for (int vpp = 2; !space.vpp && vpp <= most; ++vpp)
    if (vpp <= 4 || vpp % 2 == 0) kinds.emplace_back(PipelineKind::interleaved, vpp);
  if (space.pipeline) std::erase_if(kinds, [&](const auto& kind) { return kind.first != *space.pipeline; });
  return kinds;
}

/// Choices about memory and time of ranks that are cut already.
void add_cut(const Model& model, const LayoutSpace& space, const Layout& cut, std::vector<Candidate>& out) {
  const std::vector<int> zeros = only(space.zero, cut.data_ranks() > 1 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0});
  for (const int micro_batch : only(space.micro_batch, micro_batches(model, cut)))
    for (const auto& [kind, vpp] : pipelines(model, space, cut.pp))
      for (const Recompute recompute : only(space.recompute, {Recompute::none, Recompute::selective, Recompute::full}))
        for (const int zero : zeros) {
          Layout layout = cut;
          layout.micro_batch = micro_batch;
          layout.pipeline = kind;
          layout.vpp = vpp;
          layout.recompute = recompute;
          layout.zero = zero;
          Candidate candidate;
          const Status can_be = check(model, layout, space.gpus);
          if (!can_be) candidate.refusal = can_be.error().message;
          candidate.layout = layout;
          out.push_back(std::move(candidate));
        }
}

std::vector<int> expert_sizes(const Model& model, int data_ranks) {
  const int experts = model.transformer.experts.count;
  return experts > 0 ? divisors(experts, std::min(experts, data_ranks)) : std::vector<int>{1};
}

}  // namespace

int usual_batch(const Model& model, const LayoutSpace& space) {
  if (!model.is_transformer()) return kUsualImages * space.gpus;
  Layout layout;
  layout.seq_len = space.seq_len;
  const double wanted =
      std::max(kUsualTokens, kUsualTokensOfGpu * space.gpus) / static_cast<double>(std::max<std::int64_t>(1, layout.seq_len_of(model)));
  int odd = space.gpus;
  while (odd % 2 == 0) odd /= 2;
  constexpr double kMost = 1 << 30;
  return static_cast<int>(std::min(kMost, odd * std::exp2(std::max(0.0, std::round(std::log2(wanted / odd))))));
}

std::vector<Candidate> candidates_of(const Model& model, const LayoutSpace& space) {
  std::vector<Candidate> all;
  const bool is_transformer = model.is_transformer();
  const std::vector<int> one = {1};
  Layout cut;
  cut.global_batch = space.global_batch > 0 ? space.global_batch : usual_batch(model, space);
  cut.seq_len = space.seq_len;
  cut.precision = space.precision;
  for (const int tp : only(space.tp, is_transformer ? divisors(space.gpus, 2 * space.gpus_per_node) : one))
    for (const int cp : only(space.cp, is_transformer ? context_sizes(model, space) : one))
      for (const int pp : only(space.pp, is_transformer ? divisors(space.gpus, std::min(kMostStages, layers_in(model))) : one)) {
        const double ranks = 1.0 * tp * cp * pp;
        if (ranks > space.gpus || space.gpus % (tp * cp * pp) != 0) continue;
        cut.tp = tp;
        cut.cp = cp;
        cut.pp = pp;
        cut.dp = space.gpus / (tp * cp * pp);
        cut.has_sequence_parallel = tp > 1;
        for (const int ep : only(space.ep, expert_sizes(model, cut.data_ranks()))) {
          cut.ep = ep;
          add_cut(model, space, cut, all);
        }
      }
  return all;
}

std::vector<Choice> choices_of(const std::vector<Candidate>& candidates) {
  struct Number {
    std::string_view name;
    int (*of)(const Layout&);
  };
  static constexpr Number kNumbers[] = {{"tp", [](const Layout& l) { return l.tp; }},
                                        {"cp", [](const Layout& l) { return l.cp; }},
                                        {"ep", [](const Layout& l) { return l.ep; }},
                                        {"pp", [](const Layout& l) { return l.pp; }},
                                        {"vpp", [](const Layout& l) { return l.vpp; }},
                                        {"zero", [](const Layout& l) { return l.zero; }},
                                        {"micro batch", [](const Layout& l) { return l.micro_batch; }}};
  std::vector<Choice> choices;
  for (const Number& number : kNumbers) {
    std::set<int> values;
    for (const Candidate& candidate : candidates) values.insert(number.of(candidate.layout));
    for (const int value : values)
      choices.push_back({fmt::format("{} {}", number.name, value), [of = number.of, value](const Layout& l) { return of(l) == value; }});
  }
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::interleaved, PipelineKind::zero_bubble})
    choices.push_back({fmt::format("pipeline {}", name_of(kind)), [kind](const Layout& l) { return l.pp > 1 && l.pipeline == kind; }});
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    choices.push_back({fmt::format("recompute {}", name_of(recompute)), [recompute](const Layout& l) { return l.recompute == recompute; }});
  return choices;
}

}  // namespace peal::training
