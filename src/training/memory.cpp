#include <algorithm>
#include <training/memory.hpp>
#include <training/step_graph.hpp>

#include "rates.hpp"
#include "stage_parameters.hpp"

namespace peal::training {

namespace {

constexpr double kAdamBytes = 12;    ///< fp32 copy, momentum, variance
constexpr double kShardedBytes = 8;  ///< FSDP: parameters are fp32 themselves
constexpr double kMainGradient = 4;  ///< gradients are summed in fp32

class Count {
 public:
  Count(const Model& model, const Layout& layout, Software software, const HeldBytes& held)
      : model_(model), t_(model.transformer), l_(layout), software_(std::move(software)), held_(held) {
    seq_len_ = static_cast<double>(layout.seq_len_of(model));
    tokens_ = layout.micro_batch * seq_len_ / layout.cp;
    bytes_ = bytes_of(layout.precision);
  }

  StageMemory stage(int number) const {
    const StageParameters shard = stage_parameters(model_, l_, number);
    StageMemory m;
    m.stage = number;
    add_state(m, shard);
    m.activations = activations_of(number);
    m.working = model_.is_transformer() ? working_of(number, shard) : 0;
    m.reserved = held_.context;
    if (l_.zero >= 3) m.reserved += held_.fragments * (m.activations + m.working);
    return m;
  }

 private:
  void add_state(StageMemory& m, const StageParameters& s) const {
    const auto cut = [&](int stage, double bytes) {
      return l_.zero >= stage ? bytes * (s.dense / l_.zero_ranks() + s.experts / l_.expert_zero_ranks()) : bytes * s.total();
    };
    if (l_.zero >= 3) {
      m.parameters = cut(3, 4);
      m.gradients = cut(3, kMainGradient);
      m.optimizer = cut(3, kShardedBytes);
      // Two layers gathered, their gradients before they are scattered; pipelines keep a stage gathered, its gradients and their sums, for
      // all micro batches of a step.
      m.buffers = l_.pp > 1 ? (2 + kMainGradient + 2) * s.total() : 8 * s.largest_layer + 2 * s.embedding;
      return;
    }
    const bool is_mixed = bytes_ < 4;
    m.parameters = bytes_ * s.total();
    m.gradients = cut(2, is_mixed ? software_.gradient : bytes_);
    m.optimizer = cut(1, is_mixed ? kAdamBytes : kShardedBytes);
    m.buffers = l_.data_ranks() > 1 && l_.zero == 0 ? std::min(2 * largest_bucket(l_), bytes_ * s.total()) : 0;
  }

  /// Bytes a layer keeps of a micro batch (arXiv 2205.05198, equations 1 to 6, by what each kernel reads in its backward pass).
  double layer_bytes(int layer, Recompute recompute) const {
    const double tp = l_.tp, h = static_cast<double>(t_.hidden), cut = l_.has_sequence_parallel ? tp : 1;
    const double input = bytes_ * h / cut;
    if (recompute == Recompute::full) return tokens_ * input;
    // Two residuals and the two outputs of norms; queries, keys, values and the core's output; the feed-forward part.
    double token = 4 * input + attention_bytes() + feed_forward_bytes(layer);
    const double heads = l_.micro_batch * t_.heads / tp;
    const double matrix = software_.is_fused() ? 0 : heads * seq_len_ * seq_len_ / l_.cp * (2 * bytes_ + 1);
    if (!software_.is_fused()) token += 2 * h / cut;  // masks of dropout
    if (recompute == Recompute::none) return tokens_ * token + matrix;
    switch (software_.selection) {
      case Selection::core: return tokens_ * token;
      case Selection::layers: return (tokens_ * (token + input) + matrix) / 2;
      case Selection::operators: return tokens_ * (2 * input + attention_bytes() / 2 + feed_forward_bytes(layer) / 3);
    }
    return tokens_ * token;
  }

  double attention_bytes() const {
    const double tp = l_.tp;
    if (t_.latent) {
      const LatentAttention& a = *t_.latent;
      const auto wide = static_cast<double>(t_.heads) / tp;
      const auto narrow = static_cast<double>(2 * a.query_rank + 2 * a.key_value_rank + a.rotary);
      return bytes_ * (narrow + wide * static_cast<double>(2 * (a.plain + a.rotary) + 2 * a.value));
    }
    return bytes_ * static_cast<double>(t_.head_dim) * (2 * t_.heads + 2 * t_.kv_heads) / tp;
  }

  double feed_forward_bytes(int layer) const {
    const double tp = l_.tp, inner = bytes_ * (t_.is_gated && software_.keeps_gates ? 3 : 2) / tp;
    if (!t_.has_experts(layer)) return inner * static_cast<double>(t_.ffn);
    const Experts& e = t_.experts;
    const auto width = static_cast<double>(e.ffn), h = static_cast<double>(t_.hidden);
    return inner * width * e.shared + e.chosen * (inner * width + 2 * bytes_ * h);
  }

  double chunk_bytes(int chunk) const {
    if (!model_.is_transformer()) return images_bytes(chunk);
    const LayerRange range = layers_of(model_, l_, chunk);
    double sum = 0;
    for (int layer = range.first; layer < range.first + range.count; ++layer) sum += layer_bytes(layer, l_.recompute);
    return sum;
  }

  double images_bytes(int chunk) const {
    const LayerRange range = layers_of(model_, l_, chunk);
    double sum = 0;
    for (int i = range.first; i < range.first + range.count; ++i) {
      const Convolution& c = model_.convolutions[static_cast<std::size_t>(i)];
      sum += 2.0 * bytes_ * l_.micro_batch * c.side * c.side * static_cast<double>(c.out);  // before and behind its norm
    }
    return sum;
  }

  /// Of the micro batches under way when most are, by the pipeline's own order: stage s of 1F1B has pp - s, interleaved ones (arXiv
  /// 2205.05198) 1 + (pp - 1) / (pp vpp) times as many at the first stage, ZB-H1 (2401.10241) pp at all of them.
  double activations_of(int stage) const {
    if (l_.pp == 1) return chunk_bytes(0);
    std::vector<double> bytes;
    for (int chunk = stage; chunk < l_.chunks(); chunk += l_.pp) bytes.push_back(chunk_bytes(chunk));
    // All but GPipe have as many under way as they ever have after two rounds of the stages.
    const int rounds = l_.pipeline == PipelineKind::gpipe ? l_.micro_batches() : std::min(l_.micro_batches(), 2 * l_.pp);
    double held = 0, most = 0;
    for (const PipelineWork& work : pipeline_order(l_.pipeline, l_.pp, l_.vpp, rounds, stage)) {
      const double its = bytes[static_cast<std::size_t>(work.chunk / l_.pp)];
      if (work.kind == TaskKind::forward)
        held += its;
      else if (work.kind != TaskKind::backward_input)  // what the weights' gradients need stays until they are computed
        held -= its;
      most = std::max(most, held);
    }
    return most;
  }

  double working_of(int stage, const StageParameters& shard) const {
    const double gradients_on_the_way = l_.recompute == Recompute::none ? 0.5 : 1;
    double bytes = gradients_on_the_way * layer_bytes(t_.layers - 1, Recompute::none);
    if (l_.zero < 3) bytes += 1.5 * bytes_ * shard.largest_matrix;  // a weight's gradient before it is summed
    if (l_.has_sequence_parallel) bytes += 3 * bytes_ * tokens_ * static_cast<double>(t_.hidden);  // gathered inputs and a gradient
    if (stage == l_.pp - 1) bytes += logits_bytes();
    return bytes;
  }

  double logits_bytes() const {
    return tokens_ * static_cast<double>(t_.vocab) / l_.tp * (software_.has_fused_loss ? held_.logits : held_.plain_logits);
  }

  const Model& model_;
  const Transformer& t_;
  const Layout& l_;
  Software software_;
  HeldBytes held_;
  double seq_len_ = 0, tokens_ = 0, bytes_ = 2;
};

}  // namespace

Result<std::vector<StageMemory>> memory_of(const Model& model, const Layout& layout, std::string_view name) {
  PEAL_ASSIGN(Software software, software_of(name, layout));
  PEAL_ASSIGN(const HeldBytes held, held_bytes());
  const Count count(model, layout, std::move(software), held);
  std::vector<StageMemory> stages;
  for (int stage = 0; stage < layout.pp; ++stage) stages.push_back(count.stage(stage));
  return stages;
}

const StageMemory& fullest(const std::vector<StageMemory>& stages) {
  return *std::max_element(stages.begin(), stages.end(), [](const StageMemory& a, const StageMemory& b) { return a.total() < b.total(); });
}

namespace {

/// Options that change what is held and not how ranks are cut, the cheapest in time first.
struct Mend {
  Recompute recompute = Recompute::none;
  int zero = 0;
  bool takes_fewer = false;  ///< samples at a time
};
constexpr Mend kMends[] = {{Recompute::none, 1, false}, {Recompute::selective, 0, false}, {Recompute::selective, 1, false},
                           {Recompute::none, 0, true},  {Recompute::none, 1, true},       {Recompute::full, 0, false},
                           {Recompute::full, 1, false}, {Recompute::none, 3, false},      {Recompute::full, 3, false},
                           {Recompute::full, 3, true}};

/// The layout with them, and the options that were added to it.
struct Mended {
  Layout layout;
  std::string options;
};
Mended mended(const Model& model, const Layout& layout, const Mend& mend, int micro_batch) {
  Mended better{layout, {}};
  if (model.is_transformer() && mend.recompute > layout.recompute) {
    better.layout.recompute = mend.recompute;
    better.options += fmt::format(" --recompute {}", name_of(mend.recompute));
  }
  if (layout.data_ranks() > 1 && mend.zero > layout.zero) {
    better.layout.zero = mend.zero;
    better.options += fmt::format(" --zero {}", mend.zero);
  }
  if (micro_batch < layout.micro_batch) {
    better.layout.micro_batch = micro_batch;
    better.options += fmt::format(" --micro-batch {}", micro_batch);
  }
  return better;
}

std::string advice(const Model& model, const Layout& layout, double limit, std::string_view software) {
  std::string most;
  double least = 0;
  for (const Mend& mend : kMends) {
    for (int micro_batch = layout.micro_batch / (mend.takes_fewer ? 2 : 1); micro_batch > 0;
         micro_batch = mend.takes_fewer ? micro_batch / 2 : 0) {
      const Mended better = mended(model, layout, mend, micro_batch);
      const auto stages = memory_of(model, better.layout, software);
      if (better.options.empty() || !stages || !check(model, better.layout)) continue;
      least = fullest(*stages).total();
      if (least <= limit) return "give" + better.options;
      most = better.options;
    }
  }
  const std::string_view more = model.is_transformer() ? "more tensor-parallel ranks, stages or GPUs" : "a smaller --micro-batch";
  return most.empty() ? fmt::format("give {}", more) : fmt::format("with{} it would be {:.1f}; give {}", most, least / 1e9, more);
}

}  // namespace

Status fits(const Model& model, const Layout& layout, const Processor& processor, std::string_view software) {
  PEAL_ASSIGN(const std::vector<StageMemory> stages, memory_of(model, layout, software));
  const StageMemory& most = fullest(stages);
  if (most.total() <= processor.memory_bytes) return {};
  return fail(ErrorCode::unsupported, "{} needs {:.1f} GB on every device of stage {}, and {} has {:.1f}; {}", model.title,
              most.total() / 1e9, most.stage, processor.name, processor.memory_bytes / 1e9,
              advice(model, layout, processor.memory_bytes, software));
}

}  // namespace peal::training
