// Computation graphs: read, cut, proved; and cuts that are wrong, refused.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <source_tree.hpp>
#include <sstream>
#include <training/build_graph.hpp>
#include <training/cut_graph.hpp>
#include <training/model_report.hpp>

namespace peal::training {
namespace {

std::string read_whole(const char* path) {
  std::ifstream file(test::in_source(path));
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Graph tiny_gpt() {
  Result<Graph> graph = read_graph(read_whole("tests/fixtures/graph/tiny_gpt.json"), "tiny_gpt.json");
  EXPECT_TRUE(graph) << graph.error().message;
  return *graph;
}

Graph graph_of(const std::string& operators) {
  Result<Graph> graph = read_graph(R"({"schema": "peal.graph/1", "name": "g", "operators": [)" + operators + "]}", "g.json");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? *graph : Graph();
}

std::string complaint(const std::string& operators) {
  const Result<Graph> graph = read_graph(R"({"schema": "peal.graph/1", "operators": [)" + operators + "]}", "g.json");
  return graph ? "it was read" : graph.error().message;
}

/// A gated pair of matrices beside one whose columns do not divide.
constexpr const char* kGated = R"(
  {"name": "x", "kind": "input", "shape": [3, 4]},
  {"name": "gain", "kind": "parameter", "shape": [4]},
  {"name": "up", "kind": "parameter", "shape": [4, 6]},
  {"name": "gate", "kind": "parameter", "shape": [4, 6]},
  {"name": "down", "kind": "parameter", "shape": [6, 5]},
  {"name": "n", "kind": "rms_norm", "inputs": ["x", "gain"]},
  {"name": "u", "kind": "matmul", "inputs": ["n", "up"]},
  {"name": "g", "kind": "matmul", "inputs": ["n", "gate"]},
  {"name": "a", "kind": "silu", "inputs": ["g"]},
  {"name": "m", "kind": "multiply", "inputs": ["u", "a"]},
  {"name": "d", "kind": "matmul", "inputs": ["m", "down"]},
  {"name": "s", "kind": "softmax", "inputs": ["d"]},
  {"name": "r", "kind": "relu", "inputs": ["u"]})";

TEST(Graph, WhatIsWrittenIsReadAgain) {
  const Graph graph = tiny_gpt();
  EXPECT_EQ(graph.operators.back().name, "loss");
  EXPECT_EQ(shown(graph.operators[static_cast<std::size_t>(graph.find("logits"))].shape), "[6, 12]");
  const Result<Graph> again = read_graph(graph_json(graph), "again");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(graph_json(*again), graph_json(graph));
}

TEST(Graph, WhatIsNoGraphGetsOneSentence) {
  const std::string x = R"({"name": "x", "kind": "input", "shape": [3, 4]},)";
  EXPECT_EQ(complaint(x + R"({"name": "a", "kind": "add", "inputs": ["x", "c"]}, {"name": "b", "kind": "relu", "inputs": ["a"]},
                             {"name": "c", "kind": "gelu", "inputs": ["b"]})"),
            "g.json: the graph has a cycle of 3: a uses c uses b uses a; an operator cannot use what is made of it");
  EXPECT_EQ(complaint(x + R"({"name": "a", "kind": "relu", "inputs": ["y"]})"), "g.json: \"a\" uses \"y\", which no operator makes");
  EXPECT_EQ(complaint(x + R"({"name": "w", "kind": "parameter", "shape": [3, 4]}, {"name": "a", "kind": "matmul", "inputs": ["x", "w"]})"),
            "g.json: matmul \"a\" cannot take shapes [3, 4], [3, 4]; it takes [m, k] and [k, n] (or, with \"transpose\": true, [n, k])");
  EXPECT_EQ(complaint(x + R"({"name": "a", "kind": "conv", "inputs": ["x"]})").substr(0, 63),
            "g.json: \"a\" is of kind \"conv\"; known are input, parameter, matm");
  EXPECT_EQ(
      complaint(
          x + R"({"name": "a", "kind": "relu", "inputs": ["x"], "layer": 2}, {"name": "b", "kind": "relu", "inputs": ["a"], "layer": 1})"),
      "g.json: \"b\" of layer 1 uses \"a\" of layer 2: layers cannot go back");
  EXPECT_EQ(complaint(x + x + R"({"name": "a", "kind": "relu", "inputs": ["x"]})"), "g.json: there are two operators \"x\"");
  EXPECT_EQ(complaint(x + R"({"name": "a", "kind": "relu", "inputs": ["x"])"),
            "g.json: not JSON, or cut off; a graph begins {\"schema\": \"peal.graph/1\"");
}

TEST(Graph, ACutComputesWhatTheWholeComputes) {
  const Graph gpt = tiny_gpt(), gated = graph_of(kGated);
  for (const int shards : {1, 2, 3, 4, 6})
    for (const int stages : {1, 2, 3, 6}) {
      const Result<CutGraph> cut = cut_graph(gpt, {stages, shards, {}});
      ASSERT_TRUE(cut) << cut.error().message;
      const Result<CutProof> proof = verify_cut(gpt, *cut, 7);
      ASSERT_TRUE(proof) << stages << " x " << shards << ": " << proof.error().message;
      EXPECT_GE(proof->gradients, 68) << "every parameter is compared";
      EXPECT_LT(proof->worst, 1e-10);
      EXPECT_EQ(proof->messages == 0, stages * shards == 1);
      if (shards == 4) continue;  // of the other nothing divides so
      const Result<CutGraph> other = cut_graph(gated, {stages, shards, {}});
      ASSERT_TRUE(other) << other.error().message;
      const Result<CutProof> other_proof = verify_cut(gated, *other);
      EXPECT_TRUE(other_proof) << stages << " x " << shards << ": " << other_proof.error().message;
    }
}

TEST(Graph, GradientsAreThoseOfSmallDifferences) {
  EXPECT_LT(gradient_error(tiny_gpt(), 3), 1e-6);
  EXPECT_LT(gradient_error(graph_of(kGated), 3), 1e-6);
}

TEST(Graph, PairsOfMatricesAreCutByColumnsAndRowsAndNeedOneSum) {
  const Result<CutGraph> cut = cut_graph(tiny_gpt(), {1, 2, {}});
  ASSERT_TRUE(cut);
  int sums = 0, gathers = 0, heads = 0;
  std::map<std::string, std::string> parts;
  for (const RankOperator& op : cut->ranks[1]) {
    sums += op.op.kind == OperatorKind::all_reduce;
    gathers += op.op.kind == OperatorKind::all_gather;
    if (op.op.kind == OperatorKind::parameter) parts[op.op.name] = shown(op.part);
    heads = op.op.kind == OperatorKind::attention ? op.op.heads : heads;
  }
  EXPECT_EQ(parts["l1.w1"], "columns 1 of 2");
  EXPECT_EQ(parts["l1.w2"], "rows 1 of 2");
  EXPECT_EQ(parts["words"], "rows 1 of 2") << "by words, for embedding and head alike";
  EXPECT_EQ(parts["l1.g1"], "whole");
  EXPECT_EQ(heads, 1);
  EXPECT_EQ(sums, 1 + 4 * 2) << "embedding, and two a layer";
  EXPECT_EQ(gathers, 1) << "logits";
}

TEST(Graph, WhatAPersonReadsIsAsRecorded) {
  const Graph graph = tiny_gpt();
  EXPECT_EQ(graph_text(graph) + cut_text(graph, *cut_graph(graph, {2, 2, {}})), read_whole("tests/golden/graph_tiny_gpt.txt"));
  std::vector<Model> models;
  const std::vector<std::string> names = *model_names();
  for (const std::string& name : names) models.push_back(*model_named(name));
  EXPECT_EQ(models_text(models), read_whole("tests/golden/models.txt"));
}

TEST(Graph, StagesAreBalancedOrAsGiven) {
  const Graph graph = tiny_gpt();
  const Result<CutGraph> given = cut_graph(graph, {2, 1, {1}});
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(given->stage_of[static_cast<std::size_t>(graph.find("x0"))], 0);
  EXPECT_EQ(given->stage_of[static_cast<std::size_t>(graph.find("l1.q"))], 1);
  const Result<CutGraph> even = cut_graph(graph, {2, 1, {}});
  ASSERT_TRUE(even);
  EXPECT_EQ(even->stage_of[static_cast<std::size_t>(graph.find("l2.q"))], 0);
  EXPECT_EQ(even->stage_of[static_cast<std::size_t>(graph.find("l3.q"))], 1);
  EXPECT_EQ(cut_graph(graph, {7, 1, {}}).error().message, "a graph of 6 layers cannot be cut into 7 stages; give from 1 to 6");
  EXPECT_EQ(cut_graph(graph, {2, 1, {9}}).error().message,
            "no stage can begin with layer 9; give layers after the first, in ascending order, of 0 to 5");
}

TEST(Graph, OfAModelHasItsParametersAndItsOperations) {
  for (const char* name : {"gpt2", "gpt3-13b", "llama2-70b", "llama3-8b", "bloom-176b"}) {
    const Model model = *model_named(name);
    const Result<Graph> graph = build_graph(model, 128);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(parameters(*graph), parameters(model)) << name;
    EXPECT_NEAR(3 * flops_of(*graph), training_flops(model, 128), 2e-3 * training_flops(model, 128)) << name;
  }
  EXPECT_EQ(build_graph(*model_named("mixtral-8x7b"), 128).error().message,
            "mixtral-8x7b has experts, for which computation graphs have no operators; take a dense model such as gpt2 or llama3-8b");
}

TEST(Graph, CutsOfModelsAreProvedOnSmallOnes) {
  for (const char* name : {"gpt2", "llama3-8b", "bloom-176b"})
    for (const int shards : {2, 4, 8}) {
      const Model small = small_model(*model_named(name), 3, shards);
      const Graph graph = *build_graph(small, small.transformer.seq_len);
      const Result<CutProof> proof = verify_cut(graph, *cut_graph(graph, {3, shards, {}}));
      EXPECT_TRUE(proof) << name << " over " << shards << ": " << proof.error().message;
    }
  const Model grouped = small_model(*model_named("llama3-8b"), 2, 2);
  EXPECT_LT(grouped.transformer.kv_heads, grouped.transformer.heads);
  EXPECT_LT(gradient_error(*build_graph(grouped, 4)), 1e-6) << "heads that share keys and values";
}

TEST(Graph, ShardsThatDivideNothingAreAnsweredWithTheNearest) {
  EXPECT_EQ(cut_graph(graph_of(kGated), {1, 4, {}}).error().message, "nothing of g divides among 4 shards; give 3 or 5");
  EXPECT_EQ(cut_graph(graph_of(kGated), {1, 7, {}}).error().message, "nothing of g divides among 7 shards; give 6");
}

TEST(Graph, WhatIsLeftWholeIsSaidWithTheNumbersThatDivideIt) {
  const auto said = [](const char* name, int shards) {
    const Graph graph = *build_graph(*model_named(name), 128);
    return undivided_text(graph, *cut_graph(graph, {1, shards, {}}));
  };
  EXPECT_EQ(said("llama3-8b", 8), "");
  EXPECT_EQ(said("llama3-8b", 1), "");
  EXPECT_EQ(
      said("llama3-8b", 3),
      "3 shards do not divide 224 matrices (first layer1.queries.weight, 4096 x 4096) and the heads of 32 attentions, which are whole on "
      "every shard; 2, 4, 8 divide all that can be");
  EXPECT_EQ(said("gpt2", 8),
            "8 shards do not divide the heads of 12 attentions, which are whole on every shard; 2, 4 divide all that can be");
}

/// What the verifier says of a cut into 2 x 2 that somebody spoiled.
template <class Spoil>
std::string refusal(Spoil&& spoil) {
  const Graph graph = tiny_gpt();
  CutGraph cut = *cut_graph(graph, {2, 2, {}});
  spoil(cut);
  const Result<CutProof> proof = verify_cut(graph, cut);
  return proof ? "it was proved" : proof.error().message;
}

int nth(const std::vector<RankOperator>& list, OperatorKind kind, int n) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].op.kind == kind && n-- == 0) return static_cast<int>(i);
  return -1;
}

/// An operator that hands its input on, in place of a call.
void drop(std::vector<RankOperator>& list, int number) {
  for (RankOperator& op : list)
    for (int& input : op.op.inputs)
      if (input == number) input = list[static_cast<std::size_t>(number)].op.inputs[0];
}

TEST(Graph, ASumThatIsLeftOutIsFoundByTheFirstTensorThatDiffers) {
  const std::string said = refusal([](CutGraph& cut) {
    for (std::size_t rank : {0u, 1u}) drop(cut.ranks[rank], nth(cut.ranks[rank], OperatorKind::all_reduce, 1));
  });
  EXPECT_EQ(said.substr(0, said.find(" by ")),
            "the cut does not compute what the graph computes: tensor \"l1.o\" differs first: on rank 0 (whole, after add)");
}

TEST(Graph, AGradientThatIsNotSummedIsFound) {
  const std::string said = refusal([](CutGraph& cut) {
    for (std::size_t rank : {0u, 1u}) drop(cut.ranks[rank], nth(cut.ranks[rank], OperatorKind::share, 1));
  });
  EXPECT_NE(said.find("the gradient of \""), std::string::npos) << said;
}

TEST(Graph, TiedParametersThatAreNotKeptInStepAreFound) {
  const std::string said = refusal([](CutGraph& cut) {
    for (std::vector<RankOperator>& list : cut.ranks)
      for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].op.kind == OperatorKind::share && list[i].op.name == "words") drop(list, static_cast<int>(i));
  });
  EXPECT_NE(said.find("the gradient of \"words\" differs first"), std::string::npos) << said;
}

TEST(Graph, SwappedSendsAreFound) {
  const std::string crossed = refusal([](CutGraph& cut) {
    for (std::size_t rank : {0u, 1u}) {
      std::vector<RankOperator>& list = cut.ranks[rank];
      // What is sent is what was sent before it is normed: another tensor of the same shape.
      list[static_cast<std::size_t>(nth(list, OperatorKind::send, 0))].op.inputs[0] = nth(list, OperatorKind::layer_norm, 0);
    }
  });
  EXPECT_NE(crossed.find("tensor \"l2.r2\" differs first: on rank 2"), std::string::npos) << crossed;
  const std::string elsewhere = refusal([](CutGraph& cut) {
    for (std::size_t rank : {0u, 1u})
      cut.ranks[rank][static_cast<std::size_t>(nth(cut.ranks[rank], OperatorKind::send, 0))].peer = 3 - static_cast<int>(rank);
  });
  EXPECT_NE(elsewhere.find("cannot finish its forward pass; for ever wait rank 0 in send"), std::string::npos) << elsewhere;
}

TEST(Graph, CallsInAnotherOrderOnOneRankAreFound) {
  const std::string said = refusal([](CutGraph& cut) {
    std::vector<RankOperator>& list = cut.ranks[0];
    const auto sum = static_cast<std::size_t>(nth(list, OperatorKind::all_reduce, 0));
    list[sum].group = {0};
  });
  EXPECT_NE(said.find("for ever wait"), std::string::npos) << said;
}

TEST(Graph, ARankThatHoldsTheWrongPartIsFound) {
  const std::string said = refusal([](CutGraph& cut) {
    for (RankOperator& op : cut.ranks[1])
      if (op.op.name == "l1.w2" && op.op.kind == OperatorKind::parameter) op.part.index = 0;
  });
  EXPECT_EQ(said, "the cut lacks parameter \"l1.w2\": no ranks have all of it");
}

TEST(Graph, WhatIsTooLargeToRunIsSaid) {
  const Graph graph =
      graph_of(R"({"name": "x", "kind": "input", "shape": [3000, 4000]}, {"name": "w", "kind": "parameter", "shape": [4000, 4000]},
                                  {"name": "y", "kind": "matmul", "inputs": ["x", "w"]})");
  const Result<CutProof> proof = verify_cut(graph, *cut_graph(graph, {1, 2, {}}));
  ASSERT_FALSE(proof);
  EXPECT_NE(proof.error().message.find("give the same graph with fewer rows"), std::string::npos) << proof.error().message;
}

}  // namespace
}  // namespace peal::training
