#include <algorithm>
#include <parallel/gpt_stage.hpp>

namespace peal::parallel {

using training::Dimension;
using training::Layout;

Result<GptGroups> GptGroups::make(const GptJob& job, const std::shared_ptr<comm::Core>& world) {
  const Layout& layout = job.layout;
  GptGroups groups;
  if (world == nullptr) return groups;
  groups.position = training::position_of(layout, world->rank());
  // All ranks split off every kind of group, so that the calls match; groups of one are not kept.
  const auto split = [&](const std::vector<int>& ranks) -> Result<std::shared_ptr<comm::Core>> {
    const auto place = std::find(ranks.begin(), ranks.end(), world->rank()) - ranks.begin();
    PEAL_ASSIGN(std::shared_ptr<comm::Core> core, world->split(*std::min_element(ranks.begin(), ranks.end()), static_cast<int>(place)));
    if (ranks.size() == 1) core.reset();
    return core;
  };
  const auto of = [&](Dimension dimension, bool with_cp = false) { return group_of(layout, dimension, world->rank(), with_cp); };
  PEAL_ASSIGN(std::shared_ptr<comm::Core> tensor, split(of(Dimension::tp)));
  PEAL_ASSIGN(std::shared_ptr<comm::Core> context, split(of(Dimension::cp)));
  PEAL_ASSIGN(std::shared_ptr<comm::Core> data, split(of(Dimension::dp, true)));
  PEAL_ASSIGN(groups.pipeline, split(of(Dimension::pp)));
  groups.tensor = Group(std::move(tensor));
  groups.context = Group(std::move(context));
  groups.data = Group(std::move(data));
  if (job.model.transformer.ties_embeddings && layout.pp > 1) {
    const std::vector<int> stages = of(Dimension::pp);
    const bool is_end = groups.position.pp == 0 || groups.position.pp == layout.pp - 1;
    PEAL_ASSIGN(groups.ends, world->split(is_end ? stages.front() : -1, groups.position.pp));
  }
  if (layout.ep == 1) return groups;
  PEAL_ASSIGN(std::shared_ptr<comm::Core> experts, split(of(Dimension::ep)));
  PEAL_ASSIGN(std::shared_ptr<comm::Core> copies, split(expert_group_of(layout, world->rank())));
  groups.experts = Group(std::move(experts));
  groups.copies = Group(std::move(copies));
  return groups;
}

namespace {

Status check_shape(const training::Transformer& s, const Layout& layout, std::int64_t seq) {
  if (s.layers < 1 || s.hidden < 1 || s.heads < 1 || s.ffn < 1 || s.vocab < 1 || seq < 1)
    return fail(ErrorCode::invalid_argument,
                "a GPT has at least one layer, one head and one token; give --layers, --hidden, --heads, --seq");
  if (s.hidden != s.heads * s.head_dim)
    return fail(ErrorCode::invalid_argument, "--hidden {} does not divide by --heads {}; the nearest that works is --hidden {}", s.hidden,
                s.heads, std::max<std::int64_t>(1, s.hidden / s.heads) * s.heads);
  if (s.vocab % layout.tp != 0)
    return fail(ErrorCode::invalid_argument, "{} symbols do not divide by --tp {}; give --tp 1, 2, 4 or 8", s.vocab, layout.tp);
  return {};
}

Status check_experts(const training::Experts& experts) {
  if (experts.count == 0) return {};
  if (experts.shared > 0 || experts.dense_layers > 0 || experts.every != 1)
    return fail(ErrorCode::unsupported,
                "experts are trained here in every layer, and none that all tokens take; leave such models to peal sim step");
  if (experts.chosen < 1 || experts.chosen > experts.count)
    return fail(ErrorCode::invalid_argument, "a token cannot choose {} of {} experts; give --chosen 1 to {}", experts.chosen, experts.count,
                experts.count);
  return {};
}

}  // namespace

Status check_job(const GptJob& job) {
  const Layout& layout = job.layout;
  const std::int64_t seq = layout.seq_len_of(job.model);
  PEAL_TRY(check_shape(job.model.transformer, layout, seq));
  PEAL_TRY(check_experts(job.model.transformer.experts));
  if (job.model.transformer.ties_embeddings && layout.zero > (layout.pp > 1 ? 1 : 2))
    return fail(ErrorCode::unsupported, "tied embeddings are not trained with ZeRO 3 here, nor with 2 in a pipeline; give --zero 1");
  if (layout.zero_group > 0) return fail(ErrorCode::unsupported, "hybrid sharding is simulated and not run here; leave --zero-group out");
  if (layout.recompute == training::Recompute::selective)
    return fail(ErrorCode::unsupported, "only whole layers are computed anew here; give --recompute full or none");
  const std::int64_t rows = layout.micro_batch * (seq / layout.cp);
  if (layout.has_sequence_parallel && rows % layout.tp != 0)
    return fail(ErrorCode::invalid_argument, "{} tokens of a micro batch do not divide by --tp {}; give --micro-batch {}", rows, layout.tp,
                layout.tp);
  return {};
}

double least_bytes(const GptJob& job) {
  const Layout& l = job.layout;
  const training::Transformer& t = job.model.transformer;
  const double hidden = static_cast<double>(t.hidden), seq = static_cast<double>(l.seq_len_of(job.model)), heads = t.heads;
  const double part = t.experts.count > 0 ? static_cast<double>(t.experts.ffn) * t.experts.count / l.ep : static_cast<double>(t.ffn);
  const double layer = 4 * hidden * hidden + 2 * hidden * part;
  const double elements = (t.layers * layer / l.pp + static_cast<double>(t.vocab) * hidden / l.pp) / l.tp;
  const double ranks = static_cast<double>(l.dp) * l.cp;
  const auto divided = [&](int from_stage) { return l.zero >= from_stage ? ranks : 1; };
  const double floats_each = 1 / divided(3) + 1 / divided(2) + 2 / divided(1);
  const double attention = l.micro_batch * (heads / l.tp * seq * seq / l.cp + seq / l.cp * hidden);
  return sizeof(float) * (elements * floats_each + attention);
}

}  // namespace peal::parallel
