// Models as data: counts that are published to the last parameter, and files that are not models.
#include <gtest/gtest.h>

#include <training/model.hpp>

namespace peal::training {
namespace {

struct Published {
  const char* name;
  std::int64_t parameters;
};

// What the weights of each have, summed over the tensors that their publishers give.
constexpr Published kPublished[] = {
    {"gpt2", 124'439'808},
    {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},
    {"gpt2-xl", 1'557'611'200},
    {"bert-large", 336'226'108},
    {"llama2-7b", 6'738'415'616},
    {"llama2-13b", 13'015'864'320},
    {"llama2-70b", 68'976'648'192},
    {"llama3-8b", 8'030'261'248},
    {"llama3-70b", 70'553'706'496},
    {"llama3-405b", 405'853'388'800},
    {"bloom-176b", 176'247'271'424},
    {"mixtral-8x7b", 46'702'792'704},
    {"mixtral-8x22b", 140'620'634'112},
    {"deepseek-v2", 235'741'434'880},
    {"deepseek-v3", 671'026'404'352},
    {"resnet-50", 25'557'032},
};

TEST(Model, CountsOfTheCatalogueAreThePublishedOnes) {
  for (const Published& published : kPublished) {
    const Result<Model> model = model_named(published.name);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(parameters(*model), published.parameters) << published.name;
  }
}

TEST(Model, CountsThatArePublishedRoundedAgree) {
  const std::pair<const char*, double> rounded[] = {{"gpt3-1.3b", 1.3},      {"gpt3-6.7b", 6.7},       {"gpt3-13b", 12.9},
                                                    {"gpt3-175b", 174.6},    {"mt-nlg-530b", 530},     {"deepseek-v2", 235.7},
                                                    {"nemotron4-15b", 15.6}, {"nemotron4-340b", 341.0}};
  for (const auto& [name, billions] : rounded)
    EXPECT_NEAR(static_cast<double>(parameters(*model_named(name))) / 1e9, billions, 0.015 * billions) << name;
}

TEST(Model, AllOfTheCatalogueCanBeReadAndAreCalledAsTheirFiles) {
  const Result<std::vector<std::string>> names = model_names();
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), 24u);
  for (const std::string& name : *names) {
    const Result<Model> model = model_named(name);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->name, name);
    EXPECT_FALSE(model->source.empty()) << name;
    EXPECT_FALSE(model->title.empty()) << name;
  }
}

TEST(Model, ATokenMeetsFewParametersOfManyExperts) {
  EXPECT_EQ(active_parameters(*model_named("mixtral-8x7b")), 12'879'925'248);
  const Model deepseek = *model_named("deepseek-v3");
  EXPECT_NEAR(static_cast<double>(active_parameters(deepseek)) / 1e9, 37.5, 0.2);
  // The published weights have 14 billion more, with the embedding and the head that the further-token part has again.
  const std::int64_t shared = 2 * deepseek.transformer.vocab * deepseek.transformer.hidden;
  EXPECT_NEAR(static_cast<double>(extra_prediction_parameters(deepseek.transformer) + shared) / 1e9, 13.5, 0.5);
  EXPECT_EQ(active_parameters(*model_named("gpt2")), 124'439'808);
}

TEST(Model, FlopsAreThoseOfTheFormulasThatAreQuoted) {
  const Model gpt = *model_named("gpt3-175b");
  const Transformer& t = gpt.transformer;
  const double h = static_cast<double>(t.hidden), s = 2048, l = t.layers, v = static_cast<double>(t.vocab);
  // arXiv 2104.04473, equation 3, without recomputation: 72 of its 96.
  const double megatron = 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  EXPECT_NEAR(training_flops(gpt, 2048), megatron, 1e-9 * megatron);
  const double attention = 12 * l * h * s * s;
  EXPECT_NEAR(training_flops(gpt, 2048) - training_flops(gpt, 2048, true), attention / 2, 1e-9 * megatron);
  const Model bert = *model_named("bert-large");
  EXPECT_EQ(training_flops(bert, 512), training_flops(bert, 512, true)) << "not causal: nothing to halve";
  EXPECT_NEAR(training_flops(*model_named("resnet-50"), 0), 24.5e9, 0.1e9);
}

TEST(Model, AnUnknownNameIsAnsweredWithTheNearest) {
  const Result<Model> model = model_named("llama3-8");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            "no model is called 'llama3-8', did you mean 'llama3-8b'?; `peal models` lists them, and a file of a model or a config.json "
            "can be given "
            "instead");
}

std::int64_t count_of(const std::string& json) {
  const Result<Model> model = read_model(json, "some/model/config.json");
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return 0;
  EXPECT_EQ(model->name, "model");
  return parameters(*model);
}

TEST(Model, ConfigurationsOfHuggingFaceGiveTheirPublishedCounts) {
  EXPECT_EQ(count_of(R"({"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"n_inner":null,"vocab_size":50257})"),
            124'439'808);
  EXPECT_EQ(
      count_of(R"({"model_type":"gpt_neox","hidden_size":6144,"num_attention_heads":64,"num_hidden_layers":44,"intermediate_size":24576,
                         "max_position_embeddings":2048,"vocab_size":50432,"tie_word_embeddings":false})"),
      20'554'567'680);
  EXPECT_EQ(count_of(R"({"model_type":"opt","hidden_size":768,"word_embed_proj_dim":768,"ffn_dim":3072,"num_attention_heads":12,
                         "num_hidden_layers":12,"max_position_embeddings":2048,"vocab_size":50272})"),
            125'239'296);
  EXPECT_EQ(
      count_of(R"({"model_type":"bert","hidden_size":1024,"intermediate_size":4096,"max_position_embeddings":512,"num_attention_heads":16,
                         "num_hidden_layers":24,"type_vocab_size":2,"vocab_size":30522})"),
      336'226'108);
  EXPECT_EQ(
      count_of(R"({"model_type":"mistral","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
                         "num_key_value_heads":8,"vocab_size":32000,"max_position_embeddings":32768,"tie_word_embeddings":false})"),
      7'241'732'096);
  EXPECT_EQ(count_of(R"({"model_type":"gemma","hidden_size":3072,"intermediate_size":24576,"num_attention_heads":16,"num_hidden_layers":28,
                         "num_key_value_heads":16,"head_dim":256,"vocab_size":256000,"max_position_embeddings":8192})"),
            8'537'680'896);
  EXPECT_EQ(
      count_of(R"({"model_type":"nemotron","hidden_size":18432,"intermediate_size":73728,"num_attention_heads":96,"num_hidden_layers":96,
                         "num_key_value_heads":8,"vocab_size":256000,"max_position_embeddings":4096,"tie_word_embeddings":false})"),
      parameters(*model_named("nemotron4-340b")));
  EXPECT_EQ(
      count_of(R"({"model_type":"bloom","n_embed":14336,"n_layer":70,"num_attention_heads":112,"seq_length":2048,"vocab_size":250880})"),
      176'247'271'424);
  EXPECT_EQ(count_of(R"({"model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,"num_attention_heads":28,"num_hidden_layers":28,
                         "num_key_value_heads":4,"vocab_size":152064,"max_position_embeddings":131072,"tie_word_embeddings":false})"),
            7'615'616'512);
  EXPECT_EQ(count_of(R"({"model_type":"qwen3","hidden_size":4096,"intermediate_size":12288,"num_attention_heads":32,"num_hidden_layers":36,
                         "num_key_value_heads":8,"head_dim":128,"vocab_size":151936,"max_position_embeddings":40960,"tie_word_embeddings":false,
                         "attention_bias":false})"),
            8'190'735'360);
  EXPECT_EQ(count_of(R"({"model_type":"qwen2_moe","hidden_size":2048,"intermediate_size":5632,"moe_intermediate_size":1408,
                         "shared_expert_intermediate_size":5632,"num_experts":60,"num_experts_per_tok":4,"num_attention_heads":16,
                         "num_key_value_heads":16,"num_hidden_layers":24,"vocab_size":151936,"max_position_embeddings":8192,"decoder_sparse_step":1})"),
            14'315'784'192);
  EXPECT_EQ(
      count_of(R"({"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
                         "num_key_value_heads":8,"num_local_experts":8,"num_experts_per_tok":2,"vocab_size":32000,"max_position_embeddings":32768})"),
      46'702'792'704);
}

TEST(Model, AStretchedSequenceIsReadAsItWasTrained) {
  const Result<Model> model = read_model(
      R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,
          "vocab_size":128256,"max_position_embeddings":131072,"rope_scaling":{"factor":8.0,"original_max_position_embeddings":8192}})",
      "config.json");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->transformer.seq_len, 8192);
  EXPECT_EQ(parameters(*model), 8'030'261'248);
}

std::string model_complaint(const std::string& text) {
  const Result<Model> model = read_model(text, "x");
  return model ? "it was read" : model.error().message;
}

TEST(Model, WhatIsNoModelGetsOneSentence) {
  EXPECT_EQ(model_complaint(R"({"model_type":"rwkv"})"),
            "x: model_type \"rwkv\" is not known; read are: bert, bloom, deepseek_v2, deepseek_v3, gemma, gpt2, gpt_neox, llama, mistral, "
            "mixtral, nemotron, "
            "opt, qwen2, qwen2_moe, qwen3, qwen3_moe; a model file of the catalogue's form can be given instead");
  EXPECT_EQ(model_complaint(R"({"model_type":"llama","hidden_size":4096)"), "x: not JSON, or cut off: is it a whole config.json?");
  EXPECT_EQ(model_complaint(R"({"model_type":"llama","num_hidden_layers":2})"),
            "x: 'hidden_size' is missing; is it the model's whole config.json?");
  EXPECT_EQ(model_complaint("transformer: {layers: 2, hidden: 64, heads: 6, kv_heads: 4, ffn: 64, vocab: 10, seq_len: 8}"),
            "x: 6 heads do not divide among 4 heads of keys and values; give kv_heads that divide heads");
  EXPECT_EQ(model_complaint("transformer: {layers: 2, hidden: 64, heads: 3, ffn: 64, vocab: 10, seq_len: 8}"),
            "x: a width of 64 does not divide by 3 heads; give 'head_dim', or heads that divide it");
  EXPECT_EQ(model_complaint(R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":4095,"num_attention_heads":32,"vocab_size":32})"),
            "x: a width of 4095 does not divide by 32 heads; give 'head_dim', or heads that divide it");
  EXPECT_EQ(model_complaint("transformer: {layers: 2, hiden: 64}"), "x:1: a transformer has no key 'hiden'; did you mean 'hidden'?");
  EXPECT_EQ(model_complaint("name: x"), "x: a model has either `transformer:` or `convolutions:`; `peal models` lists models to copy");
  EXPECT_EQ(
      model_complaint("transformer: {layers: 2, hidden: 64, heads: 2, vocab: 10, seq_len: 8, experts: {count: 2, chosen: 3, ffn: 8}}"),
      "x: a token chooses 3 of 2 experts; give from 1 to 2");
  EXPECT_EQ(model_complaint("transformer: {layers: 65536, hidden: 4194304, heads: 65536, ffn: 4194304, vocab: 10, seq_len: 8}"),
            "x: a model of more than 10^17 parameters is not one: look at layers, widths and experts");
}

}  // namespace
}  // namespace peal::training
