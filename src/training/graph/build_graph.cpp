#include <algorithm>
#include <training/build_graph.hpp>

namespace peal::training {
namespace {

class Builder {
 public:
  Builder(const Model& model, std::int64_t rows) : t_(model.transformer), rows_(rows) {
    graph_.name = model.title;
    graph_.has_layers = true;
  }

  Result<Graph> build() {
    int x = embedding();
    for (int layer = 1; layer <= t_.layers; ++layer) x = transformer_layer(layer, x);
    head(x);
    // Shapes follow from the operators, and are held against them.
    for (Operator& op : graph_.operators) {
      if (op.kind <= OperatorKind::parameter) continue;
      std::vector<Shape> operands;
      for (const int used : op.inputs) operands.push_back(graph_.operators[static_cast<std::size_t>(used)].shape);
      PEAL_ASSIGN(op.shape, shape_of(op, operands));
    }
    return std::move(graph_);
  }

 private:
  int add(Operator op) {
    op.layer = layer_;
    graph_.operators.push_back(std::move(op));
    return static_cast<int>(graph_.operators.size()) - 1;
  }
  std::string named(std::string_view name) const {
    return layer_ > 0 && layer_ <= t_.layers ? fmt::format("layer{}.{}", layer_, name) : std::string(name);
  }
  int parameter(std::string_view name, Shape shape) {
    return add({.name = named(name), .kind = OperatorKind::parameter, .shape = std::move(shape)});
  }
  int compute(OperatorKind kind, std::string_view name, std::vector<int> inputs) {
    return add({.name = named(name), .kind = kind, .inputs = std::move(inputs)});
  }
  int ids(std::string_view name) {
    return add({.name = std::string(name), .kind = OperatorKind::input, .shape = {rows_}, .below = t_.vocab});
  }

  int norm(std::string_view name, int x) {
    const int gain = parameter(fmt::format("{}.gain", name), {t_.hidden});
    if (t_.norm == Norm::rms) return compute(OperatorKind::rms_norm, name, {x, gain});
    return compute(OperatorKind::layer_norm, name, {x, gain, parameter(fmt::format("{}.bias", name), {t_.hidden})});
  }

  int linear(std::string_view name, int x, std::int64_t in, std::int64_t out, bool has_bias) {
    const int weight = parameter(fmt::format("{}.weight", name), {in, out});
    if (!has_bias) return compute(OperatorKind::matmul, name, {x, weight});
    const int product = compute(OperatorKind::matmul, fmt::format("{}.product", name), {x, weight});
    return compute(OperatorKind::add, name, {product, parameter(fmt::format("{}.bias", name), {out})});
  }

  int embedding() {
    const int tokens = ids("ids");
    words_ = parameter("words", {t_.vocab, t_.hidden});
    int x = compute(OperatorKind::embedding, "embedding", {tokens, words_});
    if (t_.positions > 0) {
      const int places = add({.name = "places", .kind = OperatorKind::input, .shape = {rows_}, .below = t_.positions});
      const int positions = compute(OperatorKind::embedding, "positions", {places, parameter("position_table", {t_.positions, t_.hidden})});
      x = compute(OperatorKind::add, "embedding_and_positions", {x, positions});
    }
    return t_.has_embedding_norm ? norm("embedding_norm", x) : x;
  }

  int attention(int x) {
    const std::int64_t width = t_.heads * t_.head_dim, shared = t_.kv_heads * t_.head_dim;
    const bool has_bias = t_.has_biases || t_.has_query_key_biases;
    const int normed = norm("attention_norm", x);
    const int q = linear("queries", normed, t_.hidden, width, has_bias), k = linear("keys", normed, t_.hidden, shared, has_bias),
              v = linear("values", normed, t_.hidden, shared, has_bias);
    const int core = compute(OperatorKind::attention, "attention", {q, k, v});
    graph_.operators[static_cast<std::size_t>(core)].heads = t_.heads;
    graph_.operators[static_cast<std::size_t>(core)].is_causal = t_.is_causal;
    return compute(OperatorKind::add, "after_attention", {x, linear("attention_output", core, width, t_.hidden, t_.has_biases)});
  }

  int feed_forward(int x) {
    const int normed = norm("feed_forward_norm", x);
    const int up = linear("up", normed, t_.hidden, t_.ffn, t_.has_biases);
    int inner = up;
    if (t_.is_gated) {
      const int gate = compute(OperatorKind::silu, "gate_activation", {linear("gate", normed, t_.hidden, t_.ffn, t_.has_biases)});
      inner = compute(OperatorKind::multiply, "gated", {up, gate});
    } else {
      inner = compute(OperatorKind::gelu, "activation", {up});
    }
    return compute(OperatorKind::add, "after_feed_forward", {x, linear("down", inner, t_.ffn, t_.hidden, t_.has_biases)});
  }

  int transformer_layer(int layer, int x) {
    layer_ = layer;
    return feed_forward(attention(x));
  }

  void head(int x) {
    layer_ = t_.layers + 1;
    const int last = t_.has_final_norm ? norm("final_norm", x) : x;
    const int table = t_.ties_embeddings ? words_ : parameter("head", {t_.vocab, t_.hidden});
    const int logits = compute(OperatorKind::matmul, "logits", {last, table});
    graph_.operators[static_cast<std::size_t>(logits)].transposes = true;
    graph_.outputs = {compute(OperatorKind::cross_entropy, "loss", {logits, ids("targets")})};
  }

  const Transformer& t_;
  std::int64_t rows_;
  Graph graph_;
  int layer_ = 0;
  int words_ = -1;
};

}  // namespace

Result<Graph> build_graph(const Model& model, std::int64_t rows) {
  const Transformer& t = model.transformer;
  const char* lacking = !model.is_transformer()                  ? "convolutions"
                        : t.experts.count > 0                    ? "experts"
                        : t.latent                               ? "latent attention"
                        : t.has_query_key_norms                  ? "norms of queries and keys"
                        : t.norm == Norm::layer && !t.has_biases ? "layer norms without biases"
                        : t.has_pooler || t.token_types > 0      ? "BERT's embeddings and heads"
                                                                 : nullptr;
  if (lacking != nullptr)
    return fail(ErrorCode::unsupported,
                "{} has {}, for which computation graphs have no operators; take a dense model such as gpt2 or llama3-8b", model.name,
                lacking);
  if (rows < 1) return fail(ErrorCode::invalid_argument, "a sequence has one token or more, not {}", rows);
  return Builder(model, rows).build();
}

Model small_model(const Model& model, int stages, int shards) {
  constexpr std::int64_t kDim = 2, kParts = 8;
  const auto smaller = [&](std::int64_t width) { return width % shards + shards * std::clamp<std::int64_t>(width / shards, 1, kParts); };
  Model small = model;
  Transformer& t = small.transformer;
  t.layers = std::min(t.layers, std::max(2, stages));
  t.head_dim = kDim;
  t.hidden = kDim * t.heads;
  t.ffn = smaller(t.ffn);
  t.vocab = smaller(t.vocab);
  t.seq_len = kParts;
  if (t.positions > 0) t.positions = kParts;
  return small;
}

}  // namespace peal::training
