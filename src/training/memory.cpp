#include <algorithm>
#include <training/memory.hpp>
#include <training/step_graph.hpp>

#include "rates.hpp"

namespace peal::training {

namespace {

constexpr double kAdamBytes = 12;    ///< fp32 copy, momentum, variance
constexpr double kShardedBytes = 8;  ///< FSDP: parameters are fp32 themselves
constexpr double kMainGradient = 4;  ///< gradients are summed in fp32

/// Elements of one stage's parameters on one device.
struct Shard {
  double dense = 0, experts = 0;
  double largest_layer = 0;
  double largest_matrix = 0;
  double embedding = 0;
  double total() const { return dense + experts; }
};

class Count {
 public:
  Count(const Model& model, const Layout& layout, Software software, const HeldBytes& held)
      : model_(model), t_(model.transformer), l_(layout), software_(std::move(software)), held_(held) {
    seq_len_ = static_cast<double>(layout.seq_len_of(model));
    tokens_ = layout.micro_batch * seq_len_ / layout.cp;
    bytes_ = bytes_of(layout.precision);
  }

  StageMemory stage(int number) const {
    const Shard shard = shard_of(number);
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
  bool is_last(int chunk) const { return chunk == l_.chunks() - 1; }

  Shard shard_of(int stage) const {
    Shard s;
    if (!model_.is_transformer()) {
      s.dense = static_cast<double>(parameters(model_)) / l_.pp;
      return s;
    }
    const double tp = l_.tp, h = static_cast<double>(t_.hidden);
    for (int chunk = stage; chunk < l_.chunks(); chunk += l_.pp) {
      const LayerRange range = layers_of(model_, l_, chunk);
      for (int layer = range.first; layer < range.first + range.count; ++layer) {
        const LayerParameters p = layer_parameters(t_, layer);
        const double dense = static_cast<double>(p.attention + p.dense) / tp, experts = static_cast<double>(p.experts) / tp / l_.ep;
        s.dense += dense;
        s.experts += experts;
        s.largest_layer = std::max(s.largest_layer, dense + experts);
      }
      if (chunk == 0) s.embedding += static_cast<double>(embedding_parameters(t_)) / tp;
      if (is_last(chunk))
        s.embedding += std::max(static_cast<double>(head_parameters(t_)) / tp, l_.pp > 1 ? h * static_cast<double>(t_.vocab) / tp : 0.0);
    }
    s.dense += s.embedding;
    s.largest_matrix = (t_.is_gated ? 2 : 1) * h * static_cast<double>(t_.ffn) / tp;
    return s;
  }

  void add_state(StageMemory& m, const Shard& s) const {
    const double ranks = l_.zero_group > 0 ? l_.zero_group : static_cast<double>(l_.dp) * l_.cp;
    const double expert_ranks = std::max(1.0, ranks / l_.ep);
    const auto cut = [&](int stage, double bytes) {
      return l_.zero >= stage ? bytes * (s.dense / ranks + s.experts / expert_ranks) : bytes * s.total();
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
    m.gradients = cut(2, is_mixed ? kMainGradient : bytes_);
    m.optimizer = cut(1, is_mixed ? kAdamBytes : kShardedBytes);
    m.buffers = l_.dp * l_.cp > 1 && l_.zero == 0 ? std::min(2 * l_.bucket_bytes, bytes_ * s.total()) : 0;
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

  double working_of(int stage, const Shard& shard) const {
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

/// What would make it fit, the cheapest first.
std::string advice(const Layout& layout, const StageMemory& m) {
  if (layout.recompute == Recompute::none && m.activations > m.optimizer)
    return "give --recompute selective or full, or a smaller micro batch";
  if (layout.zero == 0 && layout.dp > 1) return "give --zero 1: the optimiser's state is then divided by the data-parallel ranks";
  if (layout.recompute != Recompute::full && m.activations > 0.25 * m.total()) return "give --recompute full, or a smaller micro batch";
  if (layout.zero < 3 && layout.dp > 1) return "give --zero 3, or more tensor-parallel ranks or stages";
  return "give more tensor-parallel ranks, stages or GPUs";
}

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

Status fits(const Model& model, const Layout& layout, const Processor& processor, std::string_view software) {
  PEAL_ASSIGN(const std::vector<StageMemory> stages, memory_of(model, layout, software));
  const StageMemory& most = fullest(stages);
  if (most.total() <= processor.memory_bytes) return {};
  return fail(ErrorCode::unsupported, "{} needs {:.1f} GB on every device of stage {}, and {} has {:.1f}; {}", model.title,
              most.total() / 1e9, most.stage, processor.name, processor.memory_bytes / 1e9, advice(layout, most));
}

}  // namespace peal::training
