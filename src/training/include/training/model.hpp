// A model that is trained, as data: what a transformer is made of, or the convolutions of an image network.
//
// The catalogue (data/models/NAME.yaml) and a Hugging Face config.json give the same thing. Counting is exact: parameters() of Llama 3 8B
// is 8,030,261,248. What a layout makes of a model (shards, stages) is layer_work.hpp's and memory.hpp's.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peal::training {

/// A feed-forward part that is cut into experts, of which every token takes some.
struct Experts {
  int count = 0;                 ///< 0: the feed-forward parts are dense
  int chosen = 0;                ///< by every token
  std::int64_t ffn = 0;          ///< inner width of one
  int shared = 0;                ///< that every token takes, beside the chosen; of the same width each
  bool has_shared_gate = false;  ///< Qwen 1.5 and 2: a number for each token that weighs the shared ones
  int dense_layers = 0;          ///< the first layers have a dense part, of Transformer::ffn
  int every = 1;                 ///< of the rest, one layer in so many has experts
};

/// Multi-head latent attention (arXiv 2405.04434): keys and values are kept as one short vector. Widths of a head, or of the vectors.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< 0: queries are not compressed
  std::int64_t key_value_rank = 0;
  std::int64_t rotary = 0;
  std::int64_t plain = 0;
  std::int64_t value = 0;
};

enum class Norm : std::uint8_t { layer, rms };

struct Transformer {
  int layers = 0;
  std::int64_t hidden = 0;
  int heads = 0;
  int kv_heads = 0;           ///< heads of keys and values; = heads: ordinary attention
  std::int64_t head_dim = 0;  ///< hidden / heads, unless the model says otherwise
  std::int64_t ffn = 0;       ///< inner width of the feed-forward part
  std::int64_t vocab = 0;
  std::int64_t seq_len = 0;    ///< that it was trained with
  std::int64_t positions = 0;  ///< learnt position embeddings; 0: rotary or ALiBi
  int token_types = 0;         ///< BERT's segment embeddings
  bool is_gated = false;       ///< SwiGLU: three matrices in a feed-forward part, not two
  bool is_causal = true;
  bool ties_embeddings = false;
  bool has_biases = false;            ///< of every matrix and norm but the head's
  bool has_query_key_biases = false;  ///< Qwen: of the projections to queries, keys and values alone
  bool has_query_key_norms = false;   ///< Qwen 3: an RMS norm over each head's queries, and one over its keys
  bool has_embedding_norm = false;    ///< BLOOM, BERT
  bool has_final_norm = true;
  bool has_pooler = false;  ///< BERT: a dense layer on the first token, and the heads of its two pre-training tasks
  Norm norm = Norm::rms;
  Experts experts;
  std::optional<LatentAttention> latent;
  int extra_predictions = 0;  ///< DeepSeek-V3's further tokens: each a layer, a projection of 2 hidden to hidden, and three norms

  bool has_experts(int layer) const {
    return experts.count > 0 && layer >= experts.dense_layers && (layer - experts.dense_layers) % experts.every == 0;
  }
};

/// One convolution of an image network, or (kernel 1, side 1) its last dense layer.
struct Convolution {
  std::string name;
  std::int64_t in = 0;   ///< channels
  std::int64_t out = 0;  ///< channels
  int kernel = 1;        ///< its side
  int side = 1;          ///< of the output, in points
  bool has_norm = true;  ///< a batch norm follows
  bool has_bias = false;
};

/// Plain data.
struct Model {
  std::string name;                       ///< "llama3-8b"
  std::string title;                      ///< "Llama 3 8B"
  std::string source;                     ///< where its shape is from
  Transformer transformer;                ///< layers 0: it is none
  std::vector<Convolution> convolutions;  ///< of an image network, in the order of the forward pass

  bool is_transformer() const { return transformer.layers > 0; }
};

/// Of the catalogue, by name; an unknown name is an error with the nearest ones.
Result<Model> model_named(std::string_view name);
/// Names of the catalogue, in alphabetical order.
Result<std::vector<std::string>> model_names();
/// A model file of the catalogue's kind (YAML), or a Hugging Face config.json, by content. `where` is for messages.
Result<Model> read_model(std::string_view text, const std::string& where);
/// A name of the catalogue, or the path of a file.
Result<Model> find_model(const std::string& name_or_path);

// ---- counting --------------------------------------------------------------------------------------------------------------------------

/// Parameters of one part of a transformer.
struct LayerParameters {
  std::int64_t attention = 0;       ///< with its norm
  std::int64_t dense = 0;           ///< dense feed-forward part, router and shared experts, with their norm
  std::int64_t experts = 0;         ///< of all experts that tokens choose from
  std::int64_t active_experts = 0;  ///< of those that one token chooses
  std::int64_t total() const { return attention + dense + experts; }
  std::int64_t active() const { return attention + dense + active_experts; }
};
LayerParameters layer_parameters(const Transformer& transformer, int layer);
/// Word, position and type embeddings with their norm.
std::int64_t embedding_parameters(const Transformer& transformer);
/// Final norm, and the head where it is not the embedding's.
std::int64_t head_parameters(const Transformer& transformer);
/// Of the further-token parts (Transformer::extra_predictions), which share embedding and head with the model; 0: it has none.
std::int64_t extra_prediction_parameters(const Transformer& transformer);
/// Of the whole model, without further-token parts: as it is published, and as it answers.
std::int64_t parameters(const Model& model);
/// Of those, what one token meets (less than all of them with experts).
std::int64_t active_parameters(const Model& model);

/// Floating-point operations (a multiply and an add are two) of one sample of `seq_len` tokens (images: one image, seq_len is not looked
/// at), forward and backward, nothing recomputed: 6 a matrix weight and token, and 12 layers x heads x head_dim x seq_len a token for
/// attention, of which causal models are counted whole or, `is_causal_halved`, half (arXiv 2205.05198, appendix A; 2204.02311, appendix B).
/// Norms, biases, activations and further-token parts are not counted.
double training_flops(const Model& model, std::int64_t seq_len, bool is_causal_halved = false);

}  // namespace peal::training
