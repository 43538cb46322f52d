#include <algorithm>
#include <base/text.hpp>
#include <nlohmann/json.hpp>
#include <training/model_report.hpp>

namespace peal::training {
namespace {

std::string with_thousands(std::int64_t number) { return with_commas(std::to_string(number)); }

/// Of a sequence as the model was trained with, a token's part; of an image network, an image's.
double flops_per_sample(const Model& model) {
  if (!model.is_transformer()) return training_flops(model, 0);
  return training_flops(model, model.transformer.seq_len) / static_cast<double>(model.transformer.seq_len);
}

std::string attention_words(const Transformer& t) {
  if (t.latent)
    return fmt::format("latent, {} heads, keys and values as {} + {}, queries as {}", t.heads, t.latent->key_value_rank, t.latent->rotary,
                       t.latent->query_rank);
  return fmt::format("{} heads of {}, {} of keys and values{}", t.heads, t.head_dim, t.kv_heads, t.is_causal ? ", causal" : "");
}

std::string feed_forward_words(const Transformer& t) {
  const Experts& e = t.experts;
  const std::string dense = fmt::format("{}{}", t.ffn, t.is_gated ? ", gated" : "");
  if (e.count == 0) return dense;
  return fmt::format("{} experts of {}{}, {} chosen, {} shared; {} layers dense ({})", e.count, e.ffn, t.is_gated ? ", gated" : "",
                     e.chosen, e.shared, e.dense_layers, dense);
}

void append(std::string& text, std::string_view what, std::string_view value) { text += fmt::format("  {:24} {}\n", what, value); }

void append_layers(std::string& text, const Transformer& t) {
  // Layers that are alike are one line.
  for (int first = 0, layer = 0; layer < t.layers; ++layer) {
    if (layer + 1 < t.layers && t.has_experts(layer + 1) == t.has_experts(first)) continue;
    const LayerParameters of = layer_parameters(t, first);
    append(text, first == layer ? fmt::format("layer {}", first) : fmt::format("layers {} to {}, each", first, layer),
           fmt::format("{} (attention {}, feed-forward {}{})", with_thousands(of.total()), with_thousands(of.attention),
                       with_thousands(of.dense),
                       of.experts > 0
                           ? fmt::format(", experts {} of which {} active", with_thousands(of.experts), with_thousands(of.active_experts))
                           : ""));
    first = layer + 1;
  }
}

void append_transformer(std::string& text, const Transformer& t) {
  append(text, "layers", std::to_string(t.layers));
  append(text, "hidden", std::to_string(t.hidden));
  append(text, "attention", attention_words(t));
  append(text, "feed-forward", feed_forward_words(t));
  append(text, "vocabulary", fmt::format("{}{}", t.vocab, t.ties_embeddings ? ", one matrix for embedding and head" : ""));
  append(text, "sequence", std::to_string(t.seq_len));
  append(text, "embedding", with_thousands(embedding_parameters(t)));
  append_layers(text, t);
  append(text, "head", with_thousands(head_parameters(t)));
  if (t.extra_predictions > 0)
    append(text, "further-token part", with_thousands(extra_prediction_parameters(t)) + " beside the model's, in no other figure");
}

nlohmann::ordered_json model_json(const Model& model) {
  nlohmann::ordered_json json{{"name", model.name},
                              {"title", model.title},
                              {"source", model.source},
                              {"parameters", parameters(model)},
                              {"active_parameters", active_parameters(model)},
                              {model.is_transformer() ? "flops_per_token" : "flops_per_image", flops_per_sample(model)}};
  if (!model.is_transformer()) {
    json["convolutions"] = model.convolutions.size();
    return json;
  }
  const Transformer& t = model.transformer;
  json["layers"] = t.layers;
  json["hidden"] = t.hidden;
  json["heads"] = t.heads;
  json["kv_heads"] = t.kv_heads;
  json["ffn"] = t.ffn;
  json["vocab"] = t.vocab;
  json["seq_len"] = t.seq_len;
  json["experts"] = t.experts.count;
  json["experts_chosen"] = t.experts.chosen;
  json["embedding_parameters"] = embedding_parameters(t);
  json["head_parameters"] = head_parameters(t);
  return json;
}

}  // namespace

std::string models_text(const std::vector<Model>& models) {
  std::size_t width = 5;
  for (const Model& model : models) width = std::max(width, model.name.size());
  std::string text = fmt::format("{:{}}  {:>18} {:>18} {:>6} {:>7} {:>13}  {}\n", "model", width, "parameters", "active", "layers",
                                 "hidden", "FLOPs/token", "title");
  for (const Model& model : models) {
    const bool is_transformer = model.is_transformer();
    text += fmt::format("{:{}}  {:>18} {:>18} {:>6} {:>7} {:>13}  {}\n", model.name, width, with_thousands(parameters(model)),
                        with_thousands(active_parameters(model)),
                        is_transformer ? static_cast<std::size_t>(model.transformer.layers) : model.convolutions.size(),
                        is_transformer ? std::to_string(model.transformer.hidden) : "-",
                        fmt::format("{:.4g}{}", flops_per_sample(model), is_transformer ? "" : "*"), model.title);
  }
  if (std::any_of(models.begin(), models.end(), [](const Model& model) { return !model.is_transformer(); })) text += "* of an image\n";
  return text;
}

std::string model_text(const Model& model) {
  std::string text = fmt::format("{} ({})\n", model.title, model.name);
  append(text, "source", model.source.empty() ? "none given" : model.source);
  append(text, "parameters", with_thousands(parameters(model)));
  if (active_parameters(model) != parameters(model)) append(text, "of which active", with_thousands(active_parameters(model)));
  append(text, model.is_transformer() ? "FLOPs/token to train" : "FLOPs/image to train", fmt::format("{:.5g}", flops_per_sample(model)));
  if (model.is_transformer()) append_transformer(text, model.transformer);
  for (const Convolution& c : model.convolutions)
    append(text, c.name, fmt::format("{} to {}, {} x {}, output {} x {}", c.in, c.out, c.kernel, c.kernel, c.side, c.side));
  return text;
}

std::string models_json(const std::vector<Model>& models) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Model& model : models) list.push_back(model_json(model));
  const nlohmann::ordered_json json{{"schema", "peal.models/1"}, {"models", std::move(list)}};
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace peal::training
