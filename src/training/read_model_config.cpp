// A Hugging Face config.json, read as it is. What a kind of model has beside its sizes (biases, norms, ties) is the code of
// github.com/huggingface/transformers, src/transformers/models/TYPE; keys that change no count are not looked at.
#include <cmath>
#include <nlohmann/json.hpp>

#include "read_model.hpp"

namespace peal::training {
namespace {

using Json = nlohmann::json;

/// What all models of a model_type have in common.
struct Family {
  std::string_view type;
  Norm norm = Norm::rms;
  bool is_gated = false;
  bool ties = false;  ///< unless tie_word_embeddings says otherwise
  bool has_biases = false;
  int further_positions = -1;  ///< learnt position embeddings beyond the longest sequence; -1: none at all
  bool has_query_key_biases = false;
  bool has_query_key_norms = false;
};

constexpr Family kFamilies[] = {
    {.type = "bert", .norm = Norm::layer, .ties = true, .has_biases = true, .further_positions = 0},
    {.type = "bloom", .norm = Norm::layer, .ties = true, .has_biases = true},
    {.type = "deepseek_v2", .is_gated = true},
    {.type = "deepseek_v3", .is_gated = true},
    {.type = "gemma", .is_gated = true, .ties = true},
    {.type = "gpt2", .norm = Norm::layer, .ties = true, .has_biases = true, .further_positions = 0},
    {.type = "gpt_neox", .norm = Norm::layer, .has_biases = true},
    {.type = "llama", .is_gated = true},
    {.type = "mistral", .is_gated = true},
    {.type = "mixtral", .is_gated = true},
    {.type = "nemotron", .norm = Norm::layer},
    {.type = "opt", .norm = Norm::layer, .ties = true, .has_biases = true, .further_positions = 2},
    {.type = "qwen2", .is_gated = true, .has_query_key_biases = true},
    {.type = "qwen2_moe", .is_gated = true, .has_query_key_biases = true},
    {.type = "qwen3", .is_gated = true, .has_query_key_norms = true},
    {.type = "qwen3_moe", .is_gated = true, .has_query_key_norms = true},
};

/// The fields of one configuration; the first of several keys that is there counts, and null is as good as absent.
class Config {
 public:
  Config(const Json& json, const std::string& where) : json_(json), where_(where) {}
  const std::string& where() const { return where_; }

  const Json* find(std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      if (const auto it = json_.find(key); it != json_.end() && !it->is_null()) return &*it;
    return nullptr;
  }
  Result<std::int64_t> number(std::initializer_list<const char*> keys) const {
    if (find(keys) == nullptr)
      return fail(ErrorCode::corrupt, "{}: '{}' is missing; is it the model's whole config.json?", where_, *keys.begin());
    return number(keys, 0);
  }
  Result<std::int64_t> number(std::initializer_list<const char*> keys, std::int64_t otherwise) const {
    constexpr double kMost = 1 << 22;
    const Json* value = find(keys);
    if (value == nullptr) return otherwise;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (!(number >= 0 && number <= kMost) || number != std::floor(number))
      return fail(ErrorCode::corrupt, "{}: '{}' is {}: a whole number from 0 to {} is needed", where_, *keys.begin(), shown(*value), kMost);
    return static_cast<std::int64_t>(number);
  }
  Result<int> count(std::initializer_list<const char*> keys, int otherwise) const {
    PEAL_ASSIGN(const std::int64_t value, number(keys, otherwise));
    return static_cast<int>(value);
  }
  Result<bool> flag(const char* key, bool otherwise) const {
    const Json* value = find({key});
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) return fail(ErrorCode::corrupt, "{}: '{}' is {}: true or false is needed", where_, key, shown(*value));
    return value->get<bool>();
  }

 private:
  static std::string shown(const Json& value) {
    return value.is_structured() ? std::string("a list or an object") : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const Json& json_;
  const std::string& where_;
};

/// Llama 3.1 and others were trained short and stretched: the sequence before that is what training is about.
Result<std::int64_t> trained_length(const Config& config) {
  if (const Json* scaling = config.find({"rope_scaling"}); scaling != nullptr && scaling->is_object()) {
    const Config inner(*scaling, config.where());
    if (inner.find({"original_max_position_embeddings"}) != nullptr) return inner.number({"original_max_position_embeddings"});
  }
  return config.number({"max_position_embeddings", "n_positions", "seq_length", "n_ctx"}, 2048);
}

Status read_sizes(const Config& config, Transformer& t) {
  PEAL_ASSIGN(const std::int64_t layers, config.number({"num_hidden_layers", "n_layer", "num_layers"}));
  PEAL_ASSIGN(t.hidden, config.number({"hidden_size", "n_embd", "n_embed"}));
  PEAL_ASSIGN(const std::int64_t heads, config.number({"num_attention_heads", "n_head"}));
  t.layers = static_cast<int>(layers);
  t.heads = static_cast<int>(heads);
  PEAL_ASSIGN(t.kv_heads, config.count({"num_key_value_heads"}, t.heads));
  PEAL_ASSIGN(t.head_dim, config.number({"head_dim"}, usual_head_dim(t.hidden, t.heads)));
  PEAL_ASSIGN(t.ffn, config.number({"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"}, 4 * t.hidden));
  PEAL_ASSIGN(t.vocab, config.number({"vocab_size"}));
  PEAL_ASSIGN(t.seq_len, trained_length(config));
  return {};
}

Status read_experts(const Config& config, Transformer& t) {
  Experts& e = t.experts;
  PEAL_ASSIGN(e.count, config.count({"n_routed_experts", "num_local_experts", "num_experts"}, 0));
  if (e.count == 0) return {};
  PEAL_ASSIGN(const std::int64_t chosen, config.number({"num_experts_per_tok"}));
  e.chosen = static_cast<int>(chosen);
  PEAL_ASSIGN(e.ffn, config.number({"moe_intermediate_size"}, t.ffn));
  PEAL_ASSIGN(e.dense_layers, config.count({"first_k_dense_replace"}, 0));
  PEAL_ASSIGN(e.shared, config.count({"n_shared_experts"}, 0));
  PEAL_ASSIGN(e.every, config.count({"moe_layer_freq", "decoder_sparse_step"}, 1));
  if (e.every != 1)
    return fail(ErrorCode::unsupported, "{}: experts in every {}th layer are not read here; write a model file", config.where(), e.every);
  PEAL_ASSIGN(const std::int64_t shared, config.number({"shared_expert_intermediate_size"}, 0));
  if (shared == 0 || e.ffn == 0) return {};
  if (shared % e.ffn != 0)
    return fail(ErrorCode::unsupported, "{}: a shared expert of {} beside experts of {} is not read here; the former has to be a multiple",
                config.where(), shared, e.ffn);
  e.shared = static_cast<int>(shared / e.ffn);
  e.has_shared_gate = true;
  return {};
}

Status read_latent(const Config& config, Transformer& t) {
  LatentAttention l;
  PEAL_ASSIGN(l.query_rank, config.number({"q_lora_rank"}, 0));
  PEAL_ASSIGN(l.key_value_rank, config.number({"kv_lora_rank"}));
  PEAL_ASSIGN(l.rotary, config.number({"qk_rope_head_dim"}));
  PEAL_ASSIGN(l.plain, config.number({"qk_nope_head_dim"}));
  PEAL_ASSIGN(l.value, config.number({"v_head_dim"}));
  PEAL_ASSIGN(t.extra_predictions, config.count({"num_nextn_predict_layers"}, 0));
  t.latent = l;
  return {};
}

Status refuse_what_is_not_counted(const Config& config, const Family& family, const Transformer& t) {
  PEAL_ASSIGN(const bool has_attention_biases, config.flag("attention_bias", false));
  if (has_attention_biases && !family.has_biases)
    return fail(ErrorCode::unsupported, "{}: attention_bias of a {} is not counted here; write a model file with `biases:`", config.where(),
                family.type);
  PEAL_ASSIGN(const bool has_feed_forward_biases, config.flag("mlp_bias", false));
  if (has_feed_forward_biases)
    return fail(ErrorCode::unsupported, "{}: mlp_bias of a {} is not counted here; write a model file with `biases:`", config.where(),
                family.type);
  PEAL_ASSIGN(const std::int64_t words, config.number({"word_embed_proj_dim"}, t.hidden));
  if (words != t.hidden)
    return fail(ErrorCode::unsupported, "{}: word_embed_proj_dim is {} and hidden_size {}; only models where they agree are read",
                config.where(), words, t.hidden);
  const Json* dense = config.find({"mlp_only_layers"});
  if (dense != nullptr && !(dense->is_array() && dense->empty()))
    return fail(ErrorCode::unsupported, "{}: mlp_only_layers are not read here; write a model file with `experts: {{dense_layers: N}}`",
                config.where());
  return {};
}

Result<Transformer> read_transformer(const Config& config, const Family& family) {
  Transformer t;
  PEAL_TRY(read_sizes(config, t));
  t.norm = family.norm;
  t.is_gated = family.is_gated;
  t.has_biases = family.has_biases;
  t.has_query_key_biases = family.has_query_key_biases;
  t.has_query_key_norms = family.has_query_key_norms;
  PEAL_ASSIGN(t.ties_embeddings, config.flag("tie_word_embeddings", family.ties));
  PEAL_ASSIGN(const std::int64_t longest, config.number({"max_position_embeddings", "n_positions"}, t.seq_len));
  if (family.further_positions >= 0) t.positions = longest + family.further_positions;
  const bool is_bert = family.type == "bert";
  t.has_embedding_norm = is_bert || family.type == "bloom";
  t.is_causal = t.has_final_norm = !is_bert;
  t.has_pooler = is_bert;
  if (is_bert) {
    PEAL_ASSIGN(t.token_types, config.count({"type_vocab_size"}, 2));
  }
  if (family.type.substr(0, 8) == "deepseek") PEAL_TRY(read_latent(config, t));
  PEAL_TRY(read_experts(config, t));
  PEAL_TRY(refuse_what_is_not_counted(config, family, t));
  return t;
}

Result<const Family*> family_of(const Json& json, const std::string& where) {
  std::vector<std::string_view> known;
  for (const Family& family : kFamilies) known.push_back(family.type);
  const auto type = json.find("model_type");
  if (type == json.end() || !type->is_string())
    return fail(ErrorCode::corrupt, "{}: no \"model_type\": is it a Hugging Face config.json? Read are: {}", where, fmt::join(known, ", "));
  for (const Family& family : kFamilies)
    if (family.type == type->get_ref<const std::string&>()) return &family;
  return fail(ErrorCode::unsupported,
              "{}: model_type \"{}\" is not known; read are: {}; a model file of the catalogue's form can be given instead", where,
              type->get_ref<const std::string&>(), fmt::join(known, ", "));
}

}  // namespace

Result<Model> read_model_config(std::string_view text, const std::string& where) {
  constexpr std::size_t kMostBytes = 4u << 20;
  if (text.size() > kMostBytes) return fail(ErrorCode::corrupt, "{}: more than 4 MiB: is it a config.json?", where);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::corrupt, "{}: not JSON, or cut off: is it a whole config.json?", where);
  PEAL_ASSIGN(const Family* family, family_of(json, where));
  Model model;
  model.name = model.title = model_name_of(where);
  model.source = where;
  PEAL_ASSIGN(model.transformer, read_transformer(Config(json, where), *family));
  PEAL_TRY(check_transformer(model.transformer, where));
  return model;
}

}  // namespace peal::training
