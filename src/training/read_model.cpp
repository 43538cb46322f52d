// A model file of the catalogue's kind.
#include "read_model.hpp"

#include <cmath>
#include <filesystem>
#include <topology/yaml_tree.hpp>

namespace peal::training {
namespace {

using topology::YamlFields;
using topology::YamlNode;

/// Far beyond what is trained; sums of products of them stay below 2^63 (check_size).
constexpr double kMostWidth = 1 << 22;
constexpr int kMostCount = 1 << 16;

Result<std::int64_t> width(YamlFields& fields, std::string_view key, std::int64_t otherwise) {
  PEAL_ASSIGN(const double value, fields.number(key, 0, kMostWidth, static_cast<double>(otherwise)));
  if (value != std::floor(value)) return fail(ErrorCode::corrupt, "{}: '{}' is {}: a whole number is needed", fields.where(), key, value);
  return static_cast<std::int64_t>(value);
}

Result<Experts> read_experts(YamlFields& top, const std::string& file) {
  Experts e;
  const YamlNode* node = top.find("experts");
  if (node == nullptr) return e;
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(*node, file, "set of experts"));
  PEAL_ASSIGN(e.count, fields.integer("count", 1, kMostCount, 0));
  PEAL_ASSIGN(e.chosen, fields.integer("chosen", 1, kMostCount, 1));
  PEAL_ASSIGN(e.ffn, width(fields, "ffn", 0));
  PEAL_ASSIGN(e.shared, fields.integer("shared", 0, kMostCount, 0));
  PEAL_ASSIGN(e.has_shared_gate, fields.flag("shared_gate", false));
  PEAL_ASSIGN(e.dense_layers, fields.integer("dense_layers", 0, kMostCount, 0));
  PEAL_ASSIGN(e.every, fields.integer("every", 1, kMostCount, 1));
  PEAL_TRY(fields.finish());
  return e;
}

Result<std::optional<LatentAttention>> read_latent(YamlFields& top, const std::string& file) {
  const YamlNode* node = top.find("latent_attention");
  if (node == nullptr) return std::nullopt;
  LatentAttention l;
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(*node, file, "latent attention"));
  PEAL_ASSIGN(l.query_rank, width(fields, "query_rank", 0));
  PEAL_ASSIGN(l.key_value_rank, width(fields, "key_value_rank", 0));
  PEAL_ASSIGN(l.rotary, width(fields, "rotary", 0));
  PEAL_ASSIGN(l.plain, width(fields, "plain", 0));
  PEAL_ASSIGN(l.value, width(fields, "value", 0));
  PEAL_TRY(fields.finish());
  return l;
}

Status read_shape(YamlFields& fields, Transformer& t) {
  PEAL_ASSIGN(t.layers, fields.integer("layers", 1, kMostCount, 0));
  PEAL_ASSIGN(t.hidden, width(fields, "hidden", 0));
  PEAL_ASSIGN(t.heads, fields.integer("heads", 1, kMostCount, 0));
  PEAL_ASSIGN(t.kv_heads, fields.integer("kv_heads", 1, kMostCount, t.heads));
  PEAL_ASSIGN(t.head_dim, width(fields, "head_dim", usual_head_dim(t.hidden, t.heads)));
  PEAL_ASSIGN(t.ffn, width(fields, "ffn", 0));
  PEAL_ASSIGN(t.vocab, width(fields, "vocab", 0));
  PEAL_ASSIGN(t.seq_len, width(fields, "seq_len", 0));
  PEAL_ASSIGN(t.positions, width(fields, "positions", 0));
  PEAL_ASSIGN(t.token_types, fields.integer("token_types", 0, kMostCount, 0));
  PEAL_ASSIGN(t.extra_predictions, fields.integer("extra_predictions", 0, 64, 0));
  return {};
}

Status read_model_kind(YamlFields& fields, Transformer& t) {
  PEAL_ASSIGN(t.is_gated, fields.flag("gated", false));
  PEAL_ASSIGN(t.is_causal, fields.flag("causal", true));
  PEAL_ASSIGN(t.ties_embeddings, fields.flag("tied_embeddings", false));
  PEAL_ASSIGN(t.has_biases, fields.flag("biases", false));
  PEAL_ASSIGN(t.has_query_key_biases, fields.flag("query_key_biases", false));
  PEAL_ASSIGN(t.has_query_key_norms, fields.flag("query_key_norms", false));
  PEAL_ASSIGN(t.has_embedding_norm, fields.flag("embedding_norm", false));
  PEAL_ASSIGN(t.has_final_norm, fields.flag("final_norm", true));
  PEAL_ASSIGN(t.has_pooler, fields.flag("pooler", false));
  PEAL_ASSIGN(const std::string norm, fields.text("norm", "rms"));
  if (norm != "rms" && norm != "layer") return fail(ErrorCode::corrupt, "{}: 'norm' is '{}': give rms or layer", fields.where(), norm);
  t.norm = norm == "rms" ? Norm::rms : Norm::layer;
  return {};
}

Result<Transformer> read_transformer(const YamlNode& node, const std::string& file) {
  Transformer t;
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "transformer"));
  PEAL_TRY(read_shape(fields, t));
  PEAL_TRY(read_model_kind(fields, t));
  PEAL_ASSIGN(t.experts, read_experts(fields, file));
  PEAL_ASSIGN(t.latent, read_latent(fields, file));
  PEAL_TRY(fields.finish());
  return t;
}

Status read_convolution(YamlFields& fields, std::vector<Convolution>& list) {
  Convolution c;
  PEAL_ASSIGN(c.name, fields.text("name"));
  PEAL_ASSIGN(c.in, width(fields, "in", 0));
  PEAL_ASSIGN(c.out, width(fields, "out", 0));
  PEAL_ASSIGN(c.kernel, fields.integer("kernel", 1, 64, 1));
  PEAL_ASSIGN(c.side, fields.integer("side", 1, kMostCount, 1));
  PEAL_ASSIGN(c.has_norm, fields.flag("norm", true));
  PEAL_ASSIGN(c.has_bias, fields.flag("bias", false));
  if (c.in < 1 || c.out < 1) return fail(ErrorCode::corrupt, "{}: {} needs 'in' and 'out' channels", fields.where(), c.name);
  list.push_back(std::move(c));
  return {};
}

Status check_expert_figures(const Transformer& t, const std::string& where) {
  const Experts& e = t.experts;
  if (e.count == 0) return {};
  if (e.chosen < 1 || e.chosen > e.count)
    return fail(ErrorCode::invalid_argument, "{}: a token chooses {} of {} experts; give from 1 to {}", where, e.chosen, e.count, e.count);
  if (e.ffn < 1) return fail(ErrorCode::invalid_argument, "{}: the experts have no inner width: give 'ffn' of them", where);
  if (e.dense_layers > t.layers)
    return fail(ErrorCode::invalid_argument, "{}: {} dense layers of {}: give at most as many as there are", where, e.dense_layers,
                t.layers);
  return {};
}

/// In floating point, where nothing can overflow.
Status check_size(const Transformer& t, const std::string& where) {
  constexpr double kMost = 1e17;
  const double hidden = static_cast<double>(t.hidden), dim = static_cast<double>(t.head_dim);
  const double latent =
      t.latent ? static_cast<double>(t.latent->query_rank + t.latent->key_value_rank + t.latent->rotary + t.latent->plain + t.latent->value)
               : 0;
  const double layer = 4 * (hidden + latent) * t.heads * (dim + latent) + 3 * hidden * static_cast<double>(t.ffn) +
                       3 * hidden * static_cast<double>(t.experts.ffn) * (t.experts.count + t.experts.shared + 1.0);
  if (t.layers * layer > kMost)
    return fail(ErrorCode::invalid_argument, "{}: a model of more than 10^17 parameters is not one: look at layers, widths and experts",
                where);
  return {};
}

}  // namespace

Status check_transformer(const Transformer& t, const std::string& where) {
  const std::pair<const char*, std::int64_t> needed[] = {
      {"layers", t.layers}, {"hidden", t.hidden}, {"heads", t.heads}, {"vocab", t.vocab}, {"seq_len", t.seq_len}};
  for (const auto& [name, value] : needed)
    if (value < 1) return fail(ErrorCode::invalid_argument, "{}: the model has no '{}': give one above 0", where, name);
  const bool has_dense = t.experts.count == 0 || t.experts.dense_layers > 0 || t.experts.every > 1;
  if (has_dense && t.ffn < 1) return fail(ErrorCode::invalid_argument, "{}: its dense layers have no inner width: give 'ffn'", where);
  if (t.kv_heads < 1 || t.heads % t.kv_heads != 0)
    return fail(ErrorCode::invalid_argument,
                "{}: {} heads do not divide among {} heads of keys and values; give kv_heads that divide heads", where, t.heads,
                t.kv_heads);
  if (t.head_dim < 1)
    return fail(ErrorCode::invalid_argument, "{}: a width of {} does not divide by {} heads; give 'head_dim', or heads that divide it",
                where, t.hidden, t.heads);
  if (t.latent && (t.latent->key_value_rank < 1 || t.latent->value < 1 || t.latent->plain + t.latent->rotary < 1))
    return fail(ErrorCode::invalid_argument, "{}: latent attention needs key_value_rank, value, and plain or rotary", where);
  PEAL_TRY(check_expert_figures(t, where));
  return check_size(t, where);
}

std::int64_t usual_head_dim(std::int64_t hidden, int heads) { return heads > 0 && hidden % heads == 0 ? hidden / heads : 0; }

std::string model_name_of(const std::string& where) {
  const std::filesystem::path path(where);
  const std::string stem = path.stem().string(), folder = path.parent_path().filename().string();
  return stem == "config" && !folder.empty() ? folder : stem;
}

Result<Model> read_model_yaml(std::string_view text, const std::string& where) {
  PEAL_ASSIGN(const YamlNode root, topology::parse_yaml(text, where));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, where, "model"));
  Model model;
  PEAL_ASSIGN(model.name, top.text("name", model_name_of(where)));
  PEAL_ASSIGN(model.title, top.text("title", model.name));
  PEAL_ASSIGN(model.source, top.text("source", ""));
  const YamlNode* transformer = top.find("transformer");
  if (transformer != nullptr) {
    PEAL_ASSIGN(model.transformer, read_transformer(*transformer, where));
  }
  PEAL_TRY(topology::each_row(top, "convolutions", where, "convolution",
                              [&](YamlFields& fields) { return read_convolution(fields, model.convolutions); }));
  PEAL_TRY(top.finish());
  if ((transformer == nullptr) == model.convolutions.empty())
    return fail(ErrorCode::invalid_argument, "{}: a model has either `transformer:` or `convolutions:`; `peal models` lists models to copy",
                where);
  if (transformer != nullptr) PEAL_TRY(check_transformer(model.transformer, where));
  return model;
}

}  // namespace peal::training
